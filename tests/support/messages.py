"""Messages and exit codes for what users meet, and checks that a command says so; `...` stands for any text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

REMOVED = "a run folder that is removed or moved away while a run uses it"


class Row(NamedTuple):
    says: str
    """The line on standard error, or the warning in the log, after `mpitune: `; paths are shortened."""
    code: int
    """The exit code: 0 with a warning."""


_LINES = (Path(__file__).parent / "messages.tsv").read_text(encoding="utf-8").splitlines()[1:]
MESSAGES = {what: Row(says, int(code)) for code, what, says in (line.split("\t") for line in _LINES)}
"""By what is wrong."""


class Told(NamedTuple):
    """What a command wrote to standard error, paths shortened as in `MESSAGES`."""

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
