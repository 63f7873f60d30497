"""Progress of a long task: items done, rate, time left.

A task shows its progress wherever it runs: as a line of the terminal that `draw_on` names, updated in place, and as
lines of the log at intervals. Without a terminal and a log, as in a program that only imports a part of mpitune and on
all ranks but rank 0, it shows nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from mpitune.corpus.wording import clock
from mpitune.errors import printable

LOG = logging.getLogger(__name__)

LOG_INTERVAL = 30.0
"""Seconds between two log lines of a task."""
CLEAR_LINE = "\r\x1b[K"
"""Terminal codes that remove the current line."""

_terminal: TextIO | None = None


def draw_on(terminal: TextIO | None) -> None:
    """Draw the progress of all tasks that begin from now on on ``terminal``; None: on none."""
    global _terminal
    _terminal = terminal


class Progress(AbstractContextManager["Progress"]):
    """Progress of a task, to be used in a ``with``."""

    def __init__(self, task: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        """``task`` says what its ``total`` items are, ``clock`` the time in seconds."""
        self.task = task
        self.total = total
        self.done = 0
        self._score: float | None = None
        self._terminal = _terminal
        self._clock = clock
        self._start = self._last_logged = clock()
        self._last_drawn = -1.0

    def advance(self, items: int = 1) -> None:
        """Count ``items`` more as done; 0 only shows that the task goes on. Drawn at most 10 times a second."""
        self.done += items
        now = self._clock()
        if now - self._last_logged >= LOG_INTERVAL:
            self._last_logged = now
            LOG.info("%s", self.line(now))
        if self._terminal is not None and now - self._last_drawn >= 0.1:
            self._last_drawn = now
            self._terminal.write(CLEAR_LINE + printable(self.line(now)))
            self._terminal.flush()

    def reach(self, done: int, score: float | None = None) -> None:
        """Set the number of items done to ``done``, and the sum of their scores, if they have scores."""
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
