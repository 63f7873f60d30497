"""Types of arguments: what is no path and no number is refused before any work, by every argument of every command."""

from __future__ import annotations

import argparse

import pytest

from mpitune.cli import help, options
from mpitune.cli.arguments import reads, size, whole_number, writes, writes_folder
from mpitune.config.spec import MAX_SIZE

PATHS = (reads, writes, writes_folder)
PARSERS = {parser.prog.split()[1]: parser for parser in help.subparsers(options.make_parser())}
ARGUMENTS = {
    f"{command} {action.option_strings[0] if action.option_strings else action.dest}": (parser, action)
    for command, parser in PARSERS.items()
    for action in parser._actions
}
NUMBERS = [name for name, (_, action) in ARGUMENTS.items() if action.type not in (None, size, *PATHS)]
NO_PATHS = {"--template", "--metrics", "--mbr", "train --seeds", "--set", "--find", "--near"}


def given(name: str, value: str) -> list[str]:
    """The arguments of the command, without others that it requires: each value is checked as it is read."""
    _, action = ARGUMENTS[name]
    return [*action.option_strings[:1], value]


def refused(name: str, value: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        PARSERS[name.split()[0]].parse_args(given(name, value))
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_every_path_has_one_of_the_types_and_every_number_a_bound() -> None:
    others = {name for name, (_, action) in ARGUMENTS.items() if action.nargs != 0 and action.type is None}
    free = {name for name in others if ARGUMENTS[name][1].choices is None}
    assert {name for name in free if not any(name.endswith(known) for known in NO_PATHS)} == set()
    assert len(NUMBERS) == 10


@pytest.mark.parametrize("name", [name for name, (_, action) in ARGUMENTS.items() if action.type in PATHS])
def test_an_empty_path_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "found '', expected the name of a f" in refused(name, "", capsys)


@pytest.mark.parametrize("name", [name for name, (_, action) in ARGUMENTS.items() if action.type is writes])
@pytest.mark.parametrize("folder", ["no/", "no/.", "..", "."])
def test_the_name_of_a_folder_is_no_output(name: str, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"found '{folder}', expected the name of a file" in refused(name, folder, capsys)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("text", ["-1", "٣", "²", "1_0", "1e2", " 1", "1.0", "", "9" * 10, "9" * 20, "9" * 5000])
def test_what_is_no_number_in_its_bounds_is_refused(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"found '{text}', expected a whole number from " in refused(name, text, capsys)


@pytest.mark.parametrize(("least", "most"), [(0, MAX_SIZE), (1, 10)])
def test_numbers_in_their_bounds(least: int, most: int) -> None:
    number = whole_number(least, most)
    assert [number(str(n)) for n in (least, most)] == [least, most]
    assert number(f"00{most}") == most
    for outside in (least - 1, most + 1):
        with pytest.raises(argparse.ArgumentTypeError, match=f"from {least} to {most}"):
            number(str(outside))


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_names_of_standard_output(name: str) -> None:
    """A file that it leads to must not be replaced: others write to it, too."""
    assert writes(name) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1), ("800K", 800 << 10), ("500M", 500 << 20), ("2G", 2 << 30), ("1T", 1 << 40)]
)
def test_sizes(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0G", "-1", "2g", "2GB", "1.5G", " 2G", "G", "2 G", "٣G", "9" * 13])
def test_what_is_no_size_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused("lm --memory", text, capsys)
    assert f"found '{text}', expected a size such as 500M or 2G" in line
