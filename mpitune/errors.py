"""The errors that a user may meet, each with the exit code that it ends the program with.

Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

from pathlib import Path


class MpituneError(Exception):
    """An error that is told to the user in one line, without a traceback."""

    exit_code = 1
    on_all_ranks = False
    """Whether every rank raises it at the same point: then one tells it and none has to end the others."""


class UsageError(MpituneError):
    """Bad usage or configuration: the user changes the call or the job file."""

    exit_code = 2


class DataError(MpituneError):
    """Bad or missing data: the user mends a file.

    ``DataError.at("g.gz", 7, found="2 fields", expected="3 to 5 fields")`` reads
    ``g.gz:7: found 2 fields, expected 3 to 5 fields``.
    """

    exit_code = 3

    @classmethod
    def at(cls, path: str | Path, line: int | None, *, found: str, expected: str) -> DataError:
        where = str(path) if line is None else f"{path}:{line}"
        return cls(f"{where}: found {found}, expected {expected}")


class MachineError(MpituneError):
    """The machine failed us: disk full, external decoder gone."""

    exit_code = 4


class StopRequested(MpituneError):
    """Stopped on request, all finished work on disk (EX_TEMPFAIL: requeue me)."""

    exit_code = 75
    on_all_ranks = True
