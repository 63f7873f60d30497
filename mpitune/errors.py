"""Errors reported to the user, each with the exit code of the program; text of others in messages.

Any other exception that reaches the command line is a bug and is reported with its traceback.
"""

from __future__ import annotations

from pathlib import Path

UNPRINTABLE = (
    *(*range(0x20), *range(0x7F, 0xA0)),  # control characters
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # direction, line ends
    *range(0xD800, 0xE000),  # bytes of names that are not UTF-8
)
"""Characters with which text could hide or change what stands around it on a terminal, or begin a line of its own."""
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in UNPRINTABLE}


def printable(text: object) -> str:
    """``text``, a path or another text of the user's, in one line, with `UNPRINTABLE` characters as ``repr`` has them.

    For what people read: messages, logs, tables. Files of data have the characters themselves.
    """
    return str(text).translate(_ESCAPES)


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
