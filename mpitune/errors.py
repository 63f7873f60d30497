"""Errors reported to the user, each with the exit code of the program; text of others in messages.

Any other exception that reaches the command line is a bug and is reported with its traceback.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Self

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


_PARTS = re.compile(
    r"(?:(?P<file>(?!--)[^:]+)(?::(?P<line>\d+))?: )?(?:(?P<key>\w+(?:\.\w+)*): )?"
    r"(?:.*\b)?found (?P<found>.*), expected (?P<expected>.*)",
    re.DOTALL,
)
"""A message that names the place, what was found there and what was expected."""


class MpituneError(Exception):
    """An error reported to the user in one line, without a traceback.

    ``DataError.at("g.gz", 7, found="2 fields", expected="3 to 5 fields")`` has the message
    ``g.gz:7: found 2 fields, expected 3 to 5 fields``.
    """

    exit_code = 1
    on_all_ranks = False
    """True if every rank raises it at the same point: rank 0 alone reports it, and no rank aborts the others."""
    file: str | None = None
    """The file with the fault; this and the next four are None where the message does not tell them."""
    line: int | None = None
    """Its line, from 1."""
    key: str | None = None
    """The dotted key of the job."""
    found: str | None = None
    expected: str | None = None

    def __init__(self, *message: object) -> None:
        super().__init__(*message)
        if match := _PARTS.fullmatch(str(self)):
            parts: dict[str, str | None] = match.groupdict()
            self.line = int(parts.pop("line") or 0) or None
            vars(self).update(parts)

    @classmethod
    def at(cls, file: str | Path, line: int | None = None, *, key: str = "", found: str, expected: str) -> Self:
        """The error of a ``line`` of a ``file``, or of a ``key`` of a job file."""
        where = str(file) if line is None else f"{file}:{line}"
        error = cls(f"{where}: {f'{key}: ' if key else ''}found {found}, expected {expected}")
        # Names may contain colons.
        error.file, error.line, error.key, error.found, error.expected = str(file), line, key or None, found, expected
        return error


class UsageError(MpituneError):
    """Bad usage or configuration: the user corrects the command line or the job file."""

    exit_code = 2


class DataError(MpituneError):
    """Bad or missing data: the user corrects a file."""

    exit_code = 3


class MachineError(MpituneError):
    """A failure of the machine: the disk is full, memory is exhausted, the external decoder has died."""

    exit_code = 4


class StopRequested(MpituneError):
    """Stopped on request, with all finished work on disk (EX_TEMPFAIL: a batch system may requeue the job)."""

    exit_code = 75
    on_all_ranks = True


def raised_on_all_ranks(error: MpituneError) -> MpituneError:
    """Mark ``error`` as one that every rank raises at this point, so that only rank 0 reports it."""
    error.on_all_ranks = True
    return error


def as_told(error: BaseException) -> BaseException:
    """``error`` as the user is told of it: a MachineError for a failure of the system, a bug as it is."""
    if isinstance(error, MpituneError):
        return error
    if lack := _lack_of_memory(error):
        return MachineError(f"not enough memory{f': {lack}' if str(lack) else ''}")
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        # Of a library's own files: the others go through mpitune.files.
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return MachineError(f"{where}{error.strerror or error}")
    return error


def _lack_of_memory(error: BaseException | None) -> BaseException | None:
    """The error that tells of too little memory: ``error``, or one that it follows from; libraries say it in words."""
    words = "failed to map segment from shared object", "Cannot allocate memory"
    if error is None or isinstance(error, MemoryError) or str(error).endswith(words):
        return error
    return _lack_of_memory(error.__context__)
