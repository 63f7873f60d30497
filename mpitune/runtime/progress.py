"""Progress of long work: items done, rate, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from mpitune.corpus.text import clock
from mpitune.runtime.log import CLEAR_LINE, LOG


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
            self._terminal.write(CLEAR_LINE + self.line(now))
            self._terminal.flush()

    def reach(self, done: int, score: float | None = None) -> None:
        self._score = score
        self.advance(done - self.done)

    def __exit__(self, *_: object) -> None:
        if self._terminal is not None:
            self._terminal.write(CLEAR_LINE)
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
