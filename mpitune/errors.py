"""Errors reported to the user, each with the exit code of the program.

Any other exception that reaches the command line is a bug and is reported with its traceback.
"""

from __future__ import annotations

from pathlib import Path


class MpituneError(Exception):
    """An error reported to the user in one line, without a traceback."""

    exit_code = 1
    on_all_ranks = False
    """True if every rank raises it at the same point: rank 0 alone reports it, and no rank aborts the others."""


class UsageError(MpituneError):
    """Bad usage or configuration: the user corrects the command line or the job file."""

    exit_code = 2


class DataError(MpituneError):
    """Bad or missing data: the user corrects a file.

    ``DataError.at("g.gz", 7, found="2 fields", expected="3 to 5 fields")`` has the message
    ``g.gz:7: found 2 fields, expected 3 to 5 fields``.
    """

    exit_code = 3

    @classmethod
    def at(cls, path: str | Path, line: int | None, *, found: str, expected: str) -> DataError:
        where = str(path) if line is None else f"{path}:{line}"
        return cls(f"{where}: found {found}, expected {expected}")


class MachineError(MpituneError):
    """A failure of the machine: the disk is full, memory is exhausted, the external decoder has died."""

    exit_code = 4


class StopRequested(MpituneError):
    """Stopped on request, with all finished work on disk (EX_TEMPFAIL: a batch system may requeue the job)."""

    exit_code = 75
    on_all_ranks = True
