"""Stop flag: set by the signals that stop a run, polled between sentences."""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from mpitune.errors import StopRequested


class StopFlag(AbstractContextManager["StopFlag"]):
    """True after SIGTERM, SIGUSR1 or SIGINT has been received. A second SIGINT ends the process at once.

    Signals are caught while the ``with`` block runs. If one was received, SIGTERM and SIGUSR1 stay ignored afterwards.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)

    def __init__(self) -> None:
        self.signal: str | None = None
        """Name of the first signal received; None if there was none."""
        self._first_sigint = float("inf")
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    def stop_error(self, task: str) -> StopRequested:
        """Error to raise on every rank after one rank has received a signal, during ``task``."""
        by = self.signal or "a signal to another rank"
        return StopRequested(
            f"stopped by {by} in {task}; finished work is kept: run the same command again to continue"
        )

    def __enter__(self) -> StopFlag:
        self._previous_handlers = {number: signal.signal(number, self._caught) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            # After a stop request the process ends with its own exit code. Slurm repeats the signal: a second one would
            # kill the process before that.
            ignored = self.signal is not None and number != signal.SIGINT
            signal.signal(number, signal.SIG_IGN if ignored else handler)

    def _caught(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        # Under mpirun, one Ctrl-C arrives twice, from the terminal and from the launcher: only a later SIGINT kills.
        if number == signal.SIGINT and now - self._first_sigint > 1.0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        if number == signal.SIGINT:
            self._first_sigint = min(self._first_sigint, now)
        self.signal = self.signal or signal.Signals(number).name
