"""Standard output and standard error: UTF-8 in every locale, and errors in writing to them."""

from __future__ import annotations

import io
import sys
from typing import Any, TextIO

from mpitune.errors import MachineError


def open_streams() -> None:
    """Replace the streams that Python has opened.

    Raises MachineError if one is closed: the next file that is opened would get its number, and messages of libraries.
    """
    for name, stream in (("output", sys.stdout), ("error", sys.stderr)):
        if stream is None:
            raise MachineError(f"standard {name}: found it closed, expected an open file (to discard it: /dev/null)")
    # A caller in the same process may have put other streams in their place. Names of files that are not UTF-8 are
    # printed as they are.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        sys.stdout = _reopened(sys.stdout, _Output(sys.stdout.fileno(), "w", closefd=False), "surrogateescape")
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        sys.stderr = _reopened(sys.stderr, _Messages(sys.stderr.fileno(), "w", closefd=False), "backslashreplace")


def _reopened(stream: io.TextIOWrapper, raw: io.FileIO, errors: str) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        errors=errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Output(io.FileIO):
    """Standard output. After a failed write, all output is discarded: Python would write it again at its end."""

    _failed = False

    def write(self, data: Any) -> int:
        """Write ``data``. Raises MachineError if that fails, BrokenPipeError if the reader has gone."""
        try:
            return len(data) if self._failed else super().write(data)
        except OSError as error:
            self._failed = True
            if isinstance(error, BrokenPipeError):
                raise
            raise MachineError(f"standard output: cannot be written: {error.strerror}") from None


class _Messages(io.FileIO):
    """Standard error."""

    def write(self, data: Any) -> int:
        """Write ``data``, or discard it if that fails: there is nowhere to report it."""
        try:
            return super().write(data)
        except OSError:
            return len(data)
