"""README says what is so: commands and their options, links, the map, exit codes, messages."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest
from support.mpi import ROOT

from mpitune import errors
from mpitune.cli import parser

README = (ROOT / "README.md").read_text(encoding="utf-8")
PLACES = ("README.md", "jobs/multi30k/README.md", "tests/bench/README.md")
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "mpitune").rglob("*.py"))}


def parsers() -> dict[str, argparse.ArgumentParser]:
    [commands] = (each for each in parser._parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(commands.choices)


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables in ``text``."""
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and not set(cells[0]) <= set("-: "):
            yield cells


USAGES = {match[1]: match[2] for match in re.finditer(r"^\| `mpitune ([\w-]+) (.*?)` \| .* \|$", README, re.MULTILINE)}


def test_every_command_has_its_row() -> None:
    assert sorted(USAGES) == sorted(parsers())


@pytest.mark.parametrize("command", parsers())
def test_usage_and_help_agree(command: str) -> None:
    """The same options, those with values of the same names, those that must be given, and the choices."""
    usage = USAGES[command].replace("\\|", "|")
    optional = "".join(re.findall(r"\[(.*?)\](?![.\w])", usage))
    actions = [each for each in parsers()[command]._actions if not isinstance(each, argparse._HelpAction)]
    options = {name for each in actions for name in each.option_strings}
    assert set(re.findall(r"--[\w-]+", usage)) == options
    for each in actions:
        assert each.help, f"{command}: {each.dest} has no help"
        if each.option_strings:
            [name] = each.option_strings
            after = re.search(rf"{name}( [^\s\[\]()-][^\s\])]*)?", usage)
            assert after is not None
            assert bool(after[1]) == (each.nargs != 0), f"{name}: takes a value or not"
            if each.required:
                assert name not in optional, f"{name} is not optional"
            if each.choices and after[1] != f" {each.metavar}":
                assert after[1].strip().split("|") == list(each.choices), name
        else:
            assert str(each.metavar) in usage


def commands_shown() -> list[str]:
    """Command lines in README's examples, without what starts several ranks, and without comments."""
    examples = re.findall(r"^ {4,}\S.*(?:\n {4,}\S.*)*", README, re.MULTILINE)
    lines = "\n".join(examples).replace("\\\n", " ").splitlines()
    found = [re.search(r"^\s*(?:[\w./-]+/)?(?:mpirun -n \d+ )?mpitune (.*)$", line) for line in lines]
    return [match[1] for match in found if match]


@pytest.mark.parametrize("line", commands_shown())
def test_commands_shown_are_ones(line: str) -> None:
    parser._parser().parse_args(shlex.split(line, comments=True))


def test_there_are_such_commands() -> None:
    assert len(commands_shown()) > 15


@pytest.mark.parametrize("place", PLACES)
def test_links_lead_somewhere(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        else:
            assert ((ROOT / place).parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("place", PLACES)
def test_files_named_are_there(place: str) -> None:
    for name in re.findall(r"`((?:jobs|slurm|tests)/[\w./-]+)`", (ROOT / place).read_text(encoding="utf-8")):
        made = name.startswith("jobs/runs")
        assert made or (ROOT / name).exists() or list((ROOT / name).parent.glob(f"{(ROOT / name).name}.*")), name


def test_sections_that_messages_name_are_there() -> None:
    """In the sources, and in jobs."""
    texts = [*SOURCES.values(), *(path.read_text(encoding="utf-8") for path in (ROOT / "jobs").glob("*.toml"))]
    titles = [title for text in texts for title in re.findall(r'README, "([^"\\]+)"', text)]
    assert len(titles) > 3
    for title in titles:
        assert re.search(rf"^(?:## |\*\*){re.escape(title)}", README, re.MULTILINE), title


def test_the_map_has_every_module() -> None:
    text, missing = section("The map"), []
    for path in SOURCES:
        place = path.relative_to(ROOT / "mpitune")
        if path.name in ("__init__.py", "__main__.py"):
            continue
        row = text if len(place.parts) == 1 else re.search(rf"^\| `mpitune/{place.parts[0]}/` .*$", text, re.MULTILINE)
        where = row if isinstance(row, str) else row[0] if row else ""
        if not re.search(rf"[`/]{place.stem}`", where):
            missing.append(str(place))
    assert missing == []


def test_the_map_has_nothing_else() -> None:
    for line in section("The map").splitlines():
        if match := re.match(r"\| `mpitune/(\w+)/` \| (.*) \|", line):
            modules = {path.stem for path in (ROOT / "mpitune" / match[1]).glob("*.py")}
            named = [name for name in re.findall(r"`(\w+)`", match[2]) if name not in ("cdec",)]
            assert [name for name in named if name not in modules] == [], match[1]


def test_modules_named_are_there() -> None:
    packages = "|".join(path.name for path in (ROOT / "mpitune").iterdir() if (path / "__init__.py").exists())
    named = re.findall(rf"`((?:{packages})/\w+)(?:\.\w+)?`", README)
    assert len(named) > 20
    for name in named:
        assert (ROOT / "mpitune" / f"{name}.py").exists(), name


def test_exit_codes() -> None:
    codes = {cells[0] for cells in rows(section("Exit codes"))}
    assert {str(kind.exit_code) for kind in errors.MpituneError.__subclasses__()} <= codes


def said() -> list[str]:
    """What the tables of "What can go wrong" quote that have no exit codes: those that have are tried one by one."""
    return [cells[0].strip("`") for cells in rows(section("What can go wrong")) if len(cells) == 2 and "`" in cells[0]]


@pytest.mark.parametrize("message", said())
def test_messages_are_in_the_sources(message: str) -> None:
    """Word by word, between the places that differ; a message may be put together from pieces."""
    text = "\n".join(SOURCES.values())
    text = re.sub(r"\{[^{}]*\}|%[.\w]+", "...", re.sub(r'"\s*\n\s*f?"', "", text))
    for part in message.split("..."):
        assert part.strip(" :;()") in text, part


def test_there_are_such_messages() -> None:
    assert len(said()) > 15
