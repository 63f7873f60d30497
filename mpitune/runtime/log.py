"""Log of a run: a file in the run folder and, on rank 0, standard error."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpitune.corpus.progress import CLEAR_LINE, draw_on
from mpitune.errors import printable
from mpitune.files import writing

LOG = logging.getLogger("mpitune")
"""Logger of all messages about a run."""


def start_logging(file: Path | None, *, rank: int = 0, size: int = 1, quiet: bool = False) -> None:
    """Log to ``file`` (None: to none) and, on rank 0, to standard error (``quiet``: warnings only), as does progress.

    Every line carries rank/size. Rank 0 logs information, the other ranks only warnings and errors. Raises UsageError
    or MachineError if the log file cannot be written.
    """
    for handler in list(LOG.handlers):
        LOG.removeHandler(handler)
        handler.close()
    LOG.setLevel(logging.INFO if rank == 0 else logging.WARNING)
    LOG.propagate = False
    draw_on(sys.stderr if rank == 0 and not quiet and sys.stderr.isatty() else None)
    line = f"%(asctime)s [{rank}/{size}] %(levelname)s %(message)s"
    if file is not None:
        with writing(file.parent):
            to_file = _LogFile(file, encoding="utf-8", errors="backslashreplace")
        to_file.setFormatter(_OneLine(line, "%Y-%m-%d %H:%M:%S"))
        LOG.addHandler(to_file)
    if rank == 0:
        to_screen = logging.StreamHandler(sys.stderr)
        # The codes remove a progress line from the terminal.
        to_screen.setFormatter(_OneLine((CLEAR_LINE if sys.stderr.isatty() else "") + line, "%H:%M:%S"))
        to_screen.setLevel(logging.WARNING if quiet else logging.INFO)
        LOG.addHandler(to_screen)


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
