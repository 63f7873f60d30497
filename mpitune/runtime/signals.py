"""The stop flag: signals that ask a run to stop, polled between sentences."""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from mpitune.errors import StopRequested


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

    def stop_error(self, what: str) -> StopRequested:
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
