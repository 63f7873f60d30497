"""What a process needs around its work: log, progress, stop flag, the run folder's lock."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, TextIO

from mpitune.corpus.text import clock
from mpitune.errors import MachineError, StopRequested, UsageError

LOG = logging.getLogger("mpitune")

_CLEAR_LINE = "\r\x1b[K"


def start_logging(folder: Path | None, *, rank: int = 0, size: int = 1, quiet: bool = False) -> None:
    """Log to ``folder``/log.txt (None: to no file) and, on rank 0, to standard error (``quiet``: warnings only).

    Every line carries rank/size. Rank 0 tells what happens; from the others come warnings and errors. Raises
    UsageError where the log cannot be written.
    """
    for handler in list(LOG.handlers):
        LOG.removeHandler(handler)
        handler.close()
    LOG.setLevel(logging.INFO if rank == 0 else logging.WARNING)
    LOG.propagate = False
    line = f"%(asctime)s [{rank}/{size}] %(levelname)s %(message)s"
    if folder is not None:
        try:
            to_file = _LogFile(folder / "log.txt", encoding="utf-8")
        except OSError as error:
            raise _unwritable(folder, error) from None
        to_file.setFormatter(logging.Formatter(line, "%Y-%m-%d %H:%M:%S"))
        LOG.addHandler(to_file)
    if rank == 0:
        to_screen = logging.StreamHandler(sys.stderr)
        # A progress line may stand there.
        to_screen.setFormatter(logging.Formatter((_CLEAR_LINE if sys.stderr.isatty() else "") + line, "%H:%M:%S"))
        to_screen.setLevel(logging.WARNING if quiet else logging.INFO)
        LOG.addHandler(to_screen)


class _LogFile(logging.FileHandler):
    """A log that does without what it cannot write: on a full disk, the work itself tells."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass

    def close(self) -> None:
        with suppress(OSError):
            super().close()


def keep_in_log(text: str) -> None:
    """Write an error to the log file, where one is open, and not to the screen: there it is said otherwise."""
    record = LOG.makeRecord(LOG.name, logging.ERROR, __file__, 0, text, (), None)
    for handler in LOG.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)


class Progress(AbstractContextManager["Progress"]):
    """How far the work is: here, for all who have nothing to say, without a word."""

    def advance(self, items: int = 1) -> None:
        """``items`` more are done."""

    def reach(self, done: int, score: float | None = None) -> None:
        """``done`` items are done in all, and ``score`` is the sum of their scores, where they have any."""

    def __exit__(self, *_: object) -> None:
        """The work is over."""


class SpokenProgress(Progress):
    """Items done, rate and time left: on a terminal one line kept up to date, and a logged line now and then."""

    def __init__(
        self,
        what: str,
        total: int,
        terminal: TextIO | None = None,
        every: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``total`` items; a line in the log ``every`` so many seconds, on ``terminal`` 10 times a second at most."""
        self.what = what
        self.total = total
        self.done = 0
        self._score: float | None = None
        self._terminal = terminal
        self._every = every
        self._clock = clock
        self._start = self._logged = clock()
        self._drawn = -1.0

    def advance(self, items: int = 1) -> None:
        self.done += items
        now = self._clock()
        if now - self._logged >= self._every:
            self._logged = now
            LOG.info("%s", self.line(now))
        if self._terminal is not None and now - self._drawn >= 0.1:
            self._drawn = now
            self._terminal.write(_CLEAR_LINE + self.line(now))
            self._terminal.flush()

    def reach(self, done: int, score: float | None = None) -> None:
        self._score = score
        self.advance(done - self.done)

    def __exit__(self, *_: object) -> None:
        if self._terminal is not None:
            self._terminal.write(_CLEAR_LINE)
            self._terminal.flush()

    def line(self, now: float) -> str:
        """What is said at time ``now``."""
        seconds = now - self._start
        text = f"{self.what}: {self.done}/{self.total}"
        if self.done == 0 or seconds <= 0:
            return text
        left = seconds / self.done * max(self.total - self.done, 0)
        text += f", {self.done / seconds:.3g}/s, {clock(left)} left"
        return text if self._score is None else f"{text}, mean gold score {self._score / self.done:.4f}"


def progress(what: str, total: int, *, rank: int = 0, quiet: bool = False) -> Progress:
    """The progress of ``total`` items: spoken on rank 0, ``quiet`` to the log file alone; use it in a ``with``."""
    if rank != 0:
        return Progress()
    return SpokenProgress(what, total, sys.stderr if sys.stderr.isatty() and not quiet else None)


class StopFlag(AbstractContextManager["StopFlag"]):
    """True once SIGTERM, SIGUSR1 or SIGINT has come; to be polled. A second SIGINT ends the process at once.

    Signals are caught while the ``with`` block runs. If one came, SIGTERM and SIGUSR1 are ignored from then on.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)

    def __init__(self) -> None:
        self.signal: str | None = None
        """The name of the first signal that came."""
        self._interrupted = float("inf")
        self._before: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    def heeded(self, what: str) -> StopRequested:
        """What to raise on every rank once one was asked to stop; ``what`` was being done."""
        by = self.signal or "a signal to another rank"
        return StopRequested(
            f"stopped by {by} in {what}; what is finished is kept: the same command goes on from there"
        )

    def __enter__(self) -> StopFlag:
        self._before = {number: signal.signal(number, self._caught) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            # Asked to stop, the process is on its way out, with its own exit code. SLURM asks more than once: the next
            # request would kill the process meanwhile.
            ignored = self.signal is not None and number != signal.SIGINT
            signal.signal(number, signal.SIG_IGN if ignored else handler)

    def _caught(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        # One Ctrl-C comes twice under mpirun, from the terminal and from the launcher: not yet a second wish.
        if number == signal.SIGINT and now - self._interrupted > 1.0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        if number == signal.SIGINT:
            self._interrupted = min(self._interrupted, now)
        self.signal = self.signal or signal.Signals(number).name


class RunLock:
    """The right to write to a run folder: one process at a time has it, until it releases it or dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Make the folder if need be and lock it. Rank 0 does this for all.

        Raises UsageError where the folder cannot be written to or another process has it.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(self.folder / "lock", "a+", encoding="utf-8")  # noqa: SIM115 (closed by release)
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            file.close()
            raise UsageError(f"{self.folder}: the run folder is in use by {owner}") from None
        except OSError as error:
            LOG.warning("%s: no lock (%s): see to it that no other run writes there", self.folder, error.strerror)
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
        except OSError as error:
            with suppress(OSError):
                file.close()
            raise _unwritable(self.folder, error) from None
        self._file = file

    def check(self) -> None:
        """Raise MachineError where the folder is no more, or another one has taken its place since it was locked."""
        if self._file is None:
            return
        with suppress(OSError):
            if os.path.samestat(os.stat(self.folder / "lock"), os.fstat(self._file.fileno())):
                return
        raise MachineError(f"{self.folder}: the run folder has been removed or replaced while the run was using it")

    def release(self) -> None:
        """Give the right back; nothing happens where it was not had."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _unwritable(folder: Path, error: OSError) -> UsageError | MachineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return MachineError(f"{folder}: {error.strerror}")
    return UsageError(f"{folder}: cannot write to the run folder: {error.strerror}")


def peak_memory() -> int:
    """The largest resident memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine_memory(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """How many bytes of memory this machine has, or less where a control group (a container, a job) allows less.

    ``groups`` names this process's control groups below ``root``, where systems without them have nothing.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                file = "memory.limit_in_bytes" if controllers else "memory.max"
                folder = root / controllers / group.lstrip("/")
                for place in (folder, *folder.parents):
                    with suppress(OSError, ValueError):
                        # A group without a limit says "max", or (version 1) a number beyond all memory.
                        limits.append(int((place / file).read_text()))
    return min(limits)


def keep_traceback(error: BaseException, folder: Path, rank: int = 0) -> Path | None:
    """Write the traceback of a bug to ``folder``/traceback-<rank>.txt; None where that cannot be done."""
    path = folder / f"traceback-{rank}.txt"
    try:
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError:
        return None
    return path
