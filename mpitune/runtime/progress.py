"""Progress of a long task: items done, rate, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from mpitune.corpus.progress import Progress
from mpitune.corpus.wording import clock
from mpitune.errors import printable
from mpitune.runtime.log import CLEAR_LINE, LOG

LOG_INTERVAL = 30.0
"""Seconds between two log lines of a task."""


class ReportedProgress(Progress):
    """Items done, rate and time left: a line updated in place on a terminal, and a log line at intervals."""

    def __init__(
        self,
        task: str,
        total: int,
        terminal: TextIO | None = None,
        log_interval: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``log_interval``: seconds between log lines, by default `LOG_INTERVAL`.

        ``terminal`` is updated at most 10 times a second.
        """
        self.task = task
        self.total = total
        self.done = 0
        self._score: float | None = None
        self._terminal = terminal
        self._log_interval = LOG_INTERVAL if log_interval is None else log_interval
        self._clock = clock
        self._start = self._last_logged = clock()
        self._last_drawn = -1.0

    def advance(self, items: int = 1) -> None:
        self.done += items
        now = self._clock()
        if now - self._last_logged >= self._log_interval:
            self._last_logged = now
            LOG.info("%s", self.line(now))
        if self._terminal is not None and now - self._last_drawn >= 0.1:
            self._last_drawn = now
            self._terminal.write(CLEAR_LINE + printable(self.line(now)))
            self._terminal.flush()

    def reach(self, done: int, score: float | None = None) -> None:
        self._score = score
        self.advance(done - self.done)

    def __exit__(self, *_: object) -> None:
        if self._terminal is not None:
            self._terminal.write(CLEAR_LINE)
            self._terminal.flush()

    def line(self, now: float) -> str:
        """The text to report at time ``now`` (seconds, of the clock)."""
        seconds = now - self._start
        text = f"{self.task}: {self.done}/{self.total}"
        if self.done == 0 or seconds <= 0:
            return text
        left = seconds / self.done * max(self.total - self.done, 0)
        rate = self.done / seconds
        text += f", {rate:.0f}/s" if rate >= 1000 else f", {rate:.3g}/s"
        text += f", {clock(left)} left"
        return text if self._score is None else f"{text}, mean gold score {self._score / self.done:.4f}"


def progress(task: str, total: int, *, rank: int = 0, quiet: bool = False) -> Progress:
    """Progress of ``total`` items, to be used in a ``with``: reported on rank 0, if ``quiet`` in the log file only."""
    if rank != 0:
        return Progress()
    return ReportedProgress(task, total, sys.stderr if sys.stderr.isatty() and not quiet else None)
