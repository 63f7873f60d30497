"""The documents are true: commands, options, keys, links, files, modules and exit codes in them exist."""

from __future__ import annotations

import argparse
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mpi import ROOT

from mpitune import errors, schema
from mpitune.cli.options import make_parser
from mpitune.config.load import load

FOLDERS = ("jobs", "slurm", "mpitune", "tests")
DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md")))]
    if "runs" not in path.parts
}
README, COMMANDS, INSIDE = (DOCUMENTS[name] for name in ("README.md", "jobs/commands.md", "mpitune/README.md"))
EVERYTHING = "\n\n".join(DOCUMENTS.values())
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "mpitune").rglob("*.py"))}
TABLES = ("run", "data", "grammar", "lm", "decoder", "features", "learner", "parallel", "select", "local", "plugins")
LEAST = {
    "data": '[data]\nsource = "a"\nreferences = ["b"]\n',
    "grammar": '[grammar]\nfile = "g"\n',
    "lm": '[[lm]]\nfile = "l"\n',
}
every_document = pytest.mark.parametrize("document", DOCUMENTS)


def parsers() -> dict[str, argparse.ArgumentParser]:
    [commands] = (each for each in make_parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(commands.choices)


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables in ``text``."""
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and not set(cells[0]) <= set("-: "):
            yield cells


def anchors(document: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", DOCUMENTS[document], flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


# Commands

USAGES = {
    match[1]: match[2] for match in re.finditer(r"^\| `mpitune ([\w-]+) (.*?)` \| .* \|$", COMMANDS, re.MULTILINE)
}


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
    """Command lines in the examples, without what starts several ranks, and without comments."""
    examples = re.findall(r"^ {4,}\S.*(?:\n {4,}\S.*)*", EVERYTHING, re.MULTILINE)
    lines = "\n".join(examples).replace("\\\n", " ").splitlines()
    found = [re.search(r"^\s*(?:[\w./-]+/)?(?:mpirun -n \d+ )?mpitune (.*)$", line) for line in lines]
    return [match[1] for match in found if match]


@pytest.mark.parametrize("line", commands_shown())
def test_commands_shown_are_ones(line: str) -> None:
    options = make_parser().parse_args(shlex.split(line, comments=True))
    assert {text.partition("=")[0] for text in getattr(options, "set", [])} <= keys() | {"lm.0.file"}


def test_there_are_such_commands() -> None:
    assert len(commands_shown()) > 25


def test_options_named_with_a_command_are_its_own() -> None:
    for command, rest in re.findall(r"`mpitune ([\w-]+)([^`\n]*)`", EVERYTHING):
        own = {name for each in parsers()[command]._actions for name in each.option_strings}
        assert set(re.findall(r"(?<!\w)--[a-z-]+", rest)) <= own, f"mpitune {command}{rest}"


def test_make_targets_named_are_there() -> None:
    targets = re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"(?:`|^ {4}|^)make ([a-z][a-z0-9-]*)(?=`|$| +#)", EVERYTHING, re.MULTILINE)
    assert len(named) > 5 and set(named) <= set(targets)


# Keys


def keys() -> set[str]:
    job = load(ROOT / "jobs" / "example.toml")
    return {key for key, _, _ in schema.values(job)} | {"select.lambda", "local.lambda", "data.bitext"}


def test_keys_named_are_there() -> None:
    named = set(re.findall(rf"`((?:{'|'.join(TABLES)})\.(?!en`|py`)[\w.]+)(?: = [^`]*)?`", EVERYTHING))
    tables = {key.rpartition(".")[0] for key in keys()}
    assert len(named) > 40
    assert named - keys() - tables == set()


def jobs_shown() -> list[str]:
    blocks = re.findall(r"^( *)```toml\n(.*?)^ *```$", EVERYTHING, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for _, block in blocks]


LEAST_LISTS = {
    "data": '[data]\nlists = ["a"]\nreferences = ["b"]\n',
    "decoder": '[decoder]\nbackend = "lists"\n',
}


@pytest.mark.usefixtures("own_parts")
@pytest.mark.parametrize("shown", jobs_shown())
def test_jobs_shown_load(tmp_path: Path, shown: str) -> None:
    (tmp_path / "plugins").symlink_to(ROOT / "jobs" / "plugins")
    given = tomllib.loads(shown)
    from_lists = "lists" in given.get("data", {}) or "files" in given.get("features", {})
    needed = LEAST_LISTS if from_lists else LEAST
    (tmp_path / "job.toml").write_text("".join(text for table, text in needed.items() if table not in given) + shown)
    load(tmp_path / "job.toml")


# Links, files, modules


@every_document
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", DOCUMENTS[document]):
        file, _, anchor = target.partition("#")
        path = ((ROOT / document).parent / file).resolve() if file else ROOT / document
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.relative_to(ROOT).as_posix()), target


def test_every_document_is_linked() -> None:
    linked = {
        ((ROOT / document).parent / target).resolve().relative_to(ROOT).as_posix()
        for document, text in DOCUMENTS.items()
        for target in re.findall(r"\]\(([^)#]+\.md)", text)
    }
    assert DOCUMENTS.keys() - linked <= {"README.md"}


@every_document
def test_files_named_are_there(document: str) -> None:
    for name in re.findall(r"`((?:jobs|slurm|tests|mpitune)/[\w./-]+)`", DOCUMENTS[document]):
        made = name.startswith("jobs/runs")
        assert made or (ROOT / name).exists() or list((ROOT / name).parent.glob(f"{(ROOT / name).name}.*")), name


def test_sections_that_messages_name_are_there() -> None:
    """In the sources, and in jobs."""
    texts = [*SOURCES.values(), *(path.read_text(encoding="utf-8") for path in (ROOT / "jobs").glob("*.toml"))]
    titles = [match for text in texts for match in re.findall(r'([\w/]+\.md), "([^"\\]+)"', text)]
    assert len(titles) > 8 and not any(re.search(r'README, "', text) for text in texts)
    for document, title in titles:
        assert re.search(rf"^##? {re.escape(title)}", DOCUMENTS[document], re.MULTILINE), title


def test_the_map_has_every_package_and_nothing_else() -> None:
    """Their modules are in the packages' own lists: `test_architecture`."""
    named = [name for cells in rows(section(INSIDE, "The map")) for name in re.findall(r"`(mpitune/[\w/]*)`", cells[0])]
    assert sorted(named) == sorted({f"{path.parent.relative_to(ROOT).as_posix()}/" for path in SOURCES})


def test_modules_and_names_in_them_are_there() -> None:
    packages = "|".join(path.name for path in (ROOT / "mpitune").iterdir() if (path / "__init__.py").exists())
    named = re.findall(rf"`((?:{packages})(?:/\w+)+)(?:\.(\w+))?`", EVERYTHING)
    assert len(named) > 60
    for module, name in named:
        if name in ("h5", "npz") or "/test_" in module:
            continue
        path = ROOT / "mpitune" / module
        assert path.is_dir() or path.with_suffix(".py").exists(), module
        if name and name != "py":
            text = path.with_suffix(".py").read_text(encoding="utf-8")
            assert re.search(rf"^(?:class |def )?{name}\b", text, re.MULTILINE), f"{module}.{name}"


# Exit codes


def test_exit_codes() -> None:
    codes = {cells[0] for cells in rows(section(COMMANDS, "Exit codes"))}
    assert {str(kind.exit_code) for kind in errors.MpituneError.__subclasses__()} <= codes
