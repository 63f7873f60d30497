"""The messages and exit codes of the table "What can go wrong", and checks that a command says so."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support.mpi import ROOT

REMOVED = "a run folder that is removed or moved away while a run uses it"


class Row(NamedTuple):
    says: str
    code: int


@cache
def table() -> dict[str, Row]:
    """The rows of the table by their first column."""
    section = (ROOT / "mpitune" / "README.md").read_text(encoding="utf-8").partition("\n## What can go wrong\n")[2]
    rows = {}
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and cells[2].isdecimal():
            rows[cells[0]] = Row(cells[1].removeprefix("`").removesuffix("`"), int(cells[2]))
    return rows


class Told(NamedTuple):
    """What a command wrote to standard error, paths shortened as in the table."""

    warnings: list[str]
    """The log's."""
    rest: list[str]
    """All that does not begin with the time, as log lines do."""


def told(errors: str, folder: Path) -> Told:
    warnings, rest = [], []
    for line in errors.replace(f"{folder}/", "").splitlines():
        logged = re.match(r"\d\d:\d\d:\d\d \[\d+/\d+\] (INFO|WARNING) (.*)", line)
        if logged is None:
            rest.append(line)
        elif logged[1] == "WARNING":
            warnings.append(logged[2])
    return Told(warnings, rest)


def check_told(row: Row, code: int, errors: str, folder: Path) -> None:
    """One line, the row's, but for what follows from it: what epochs come to, references of another language; and the
    row's exit code.
    """
    warnings, rest = told(errors, folder)
    assert code == row.code, errors
    following = r"epoch \d+: |.* words of the references in \[data\] are unknown to it"
    said = rest if code else [f"mpitune: {text}" for text in warnings if not re.match(following, text)]
    pattern = re.escape(f"mpitune: {row.says}").replace(re.escape("..."), ".*")
    assert len(said) == 1 and re.fullmatch(pattern, said[0]), (row.says, said)
    assert code or not rest
