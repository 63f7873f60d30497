"""Log of a run: a file in the run folder; of the program, on rank 0, standard error; of a library, its host's log."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mpitune.corpus.progress import CLEAR_LINE, draw_on
from mpitune.errors import printable
from mpitune.files import writing

LOG = logging.getLogger("mpitune")
"""Logger of all messages about a run."""


def start_logging(*, rank: int = 0, size: int = 1, quiet: bool = False) -> None:
    """Let rank 0 of a program log to standard error (``quiet``: warnings only), and show progress there.

    Every line carries rank/size. Rank 0 logs information, the other ranks only warnings and errors.
    """
    for handler in list(LOG.handlers):
        LOG.removeHandler(handler)
    LOG.setLevel(_level(rank))
    LOG.propagate = False
    draw_on(sys.stderr if rank == 0 and not quiet and sys.stderr.isatty() else None)
    if rank == 0:
        LOG.addHandler(_to_screen(size, logging.WARNING if quiet else logging.INFO))


@contextmanager
def logged_to(file: Path, *, rank: int = 0, size: int = 1) -> Iterator[None]:
    """Log to ``file`` too in the block. Raises UsageError or MachineError if it cannot be written."""
    with writing(file.parent):
        to_file = _LogFile(file, encoding="utf-8", errors="backslashreplace")
    to_file.setFormatter(_OneLine(_line(rank, size), "%Y-%m-%d %H:%M:%S"))
    to_file.setLevel(_level(rank))
    level = LOG.level
    # The file has all that it should have, whoever has begun the run.
    LOG.setLevel(min(level or logging.CRITICAL, _level(rank)))
    LOG.addHandler(to_file)
    try:
        yield
    finally:
        LOG.removeHandler(to_file)
        LOG.setLevel(level)
        to_file.close()


@contextmanager
def logged_to_host(*, rank: int = 0, size: int = 1, verbose: bool = False) -> Iterator[None]:
    """Log in the block as the library of another program: to its handlers, if it has any, from its level on.

    ``verbose``: rank 0 to standard error instead, with progress.
    """
    level, propagate = LOG.level, LOG.propagate
    handler = _to_screen(size, logging.INFO) if verbose and rank == 0 else _ToHost(LOG.getEffectiveLevel())
    LOG.setLevel(_level(rank))
    LOG.propagate = False
    LOG.addHandler(handler)
    draw_on(sys.stderr if verbose and rank == 0 and sys.stderr.isatty() else None)
    try:
        yield
    finally:
        draw_on(None)
        LOG.removeHandler(handler)
        LOG.setLevel(level)
        LOG.propagate = propagate


def _to_screen(size: int, level: int) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    # The codes remove a progress line from the terminal.
    before = CLEAR_LINE if sys.stderr.isatty() else ""
    handler.setFormatter(_OneLine(before + _line(0, size), "%H:%M:%S"))
    handler.setLevel(level)
    return handler


def _level(rank: int) -> int:
    return logging.INFO if rank == 0 else logging.WARNING


def _line(rank: int, size: int) -> str:
    return f"%(asctime)s [{rank}/{size}] %(levelname)s %(message)s"


class _ToHost(logging.Handler):
    """Passes records on to the handlers of the program that has imported mpitune."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.root.handlers:
            logging.root.callHandlers(record)


class _OneLine(logging.Formatter):
    """Every record is one line, whatever names and texts of others its message has."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)


class _LogFile(logging.FileHandler):
    """A log file that ignores write errors: on a full disk, the work itself fails and reports the error."""

    def _open(self) -> Any:
        # A link could lead to a file of somebody else.
        def opener(name: str, flags: int) -> int:
            return os.open(name, flags | os.O_NOFOLLOW, 0o666)

        return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=opener)

    def handleError(self, record: logging.LogRecord) -> None:
        pass

    def close(self) -> None:
        with suppress(OSError):
            super().close()


def log_to_file(text: str) -> None:
    """Write an error to the log file, if one is open, but not to standard error, where the caller reports it."""
    record = LOG.makeRecord(LOG.name, logging.ERROR, __file__, 0, text, (), None)
    for handler in LOG.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)


def write_traceback(error: BaseException, folder: Path, rank: int = 0) -> Path | None:
    """Write the traceback of a bug to ``folder``/traceback-<rank>.txt; returns None if that is impossible."""
    path = folder / f"traceback-{rank}.txt"
    try:
        text = "".join(traceback.format_exception(error))
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return None
    return path
