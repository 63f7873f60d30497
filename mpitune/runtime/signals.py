"""Signals that stop a command: raised as an error, or a flag that is polled between sentences."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, ClassVar

from mpitune.early_signals import AGAIN, stop_signals
from mpitune.errors import StopRequested


class _Stopped(BaseException):
    """Raised wherever the code is: no Exception, since code that expects some of what it calls must not catch it."""


@contextmanager
def raised_signals() -> Iterator[None]:
    """Raise StopRequested in the block as soon as a signal arrives that asks to stop, unless a `StopFlag` catches it.

    Compiled code and calls of libraries are not interrupted: the error is raised when they return. If a signal was
    received, by the block or by a StopFlag in it, all stay ignored afterwards.
    """

    def stop(number: int, _: FrameType | None) -> None:
        for each in before:
            # A further signal must not interrupt the clearing up.
            signal.signal(each, signal.SIG_IGN)
        raise _Stopped(signal.Signals(number).name)

    before: dict[signal.Signals, Any] = {}
    try:
        try:
            for number in stop_signals():
                before[number] = signal.getsignal(number)
                signal.signal(number, stop)
            yield
        finally:
            for number, handler in before.items():
                if signal.getsignal(number) is stop:
                    signal.signal(number, handler)
    except _Stopped as stopped:
        error = StopRequested(f"stopped by {stopped}: {AGAIN}")
        error.on_all_ranks = False
        raise error from None


class StopFlag(AbstractContextManager["StopFlag"]):
    """True after this process, or another rank, has received one of `SIGNALS`. A second SIGINT ends the
    process at once.

    Signals are caught while the ``with`` block runs; SIGHUP, which a closed terminal sends, unless it is ignored, as
    under nohup. If one was received, all but SIGINT stay ignored afterwards.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)
    current: ClassVar[StopFlag]
    """The flag whose ``with`` block runs, or one that nobody sets."""
    catches: ClassVar[bool] = True
    """False in a program that imports mpitune: signals are its own, and Ctrl-C is its KeyboardInterrupt."""

    def __init__(self, continues: str = AGAIN) -> None:
        """``continues``: what continues the stopped task, for its error."""
        self._continues = continues
        self.signal: str | None = None
        """Name of the first signal received; None if there was none."""
        self.since = float("inf")
        """Time of the first request to stop (`time.monotonic`)."""
        self._elsewhere = False
        self._first_sigint = float("inf")
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._interrupt: Callable[[], StopRequested] | None = None

    def __bool__(self) -> bool:
        return self.signal is not None or self._elsewhere

    def asked_elsewhere(self) -> None:
        """Another rank was asked to stop: so is this one, if the ``with`` block runs."""
        if StopFlag.current is self:
            self._elsewhere = True
            self.since = min(self.since, time.monotonic())

    def stop_error(self, task: str, *, resumable: bool = True) -> StopRequested:
        """Error to raise on every rank after one rank has received a signal, during ``task``.

        ``resumable``: the task goes on from its finished work, instead of beginning again.
        """
        by = self.signal or "a signal to another rank"
        if not resumable:
            return StopRequested(f"stopped by {by} in {task}; nothing of it is written: {AGAIN}")
        return StopRequested(f"stopped by {by} in {task}; finished work is kept: {self._continues} to continue")

    @contextmanager
    def interrupts(self, task: str, *, resumable: bool = True) -> Iterator[None]:
        """Raise `stop_error` in the block as soon as a signal arrives, wherever its code is.

        For long work of one process that writes its files atomically, and so need not poll. Compiled code and calls of
        libraries are not interrupted: the error is raised when they return.
        """
        self._interrupt = lambda: self.stop_error(task, resumable=resumable)
        try:
            if not self:
                yield
        finally:
            self._interrupt = None
        if self:
            raise self.stop_error(task, resumable=resumable)

    def __enter__(self) -> StopFlag:
        caught = (*stop_signals(), signal.SIGINT) if StopFlag.catches else ()
        self._previous_handlers = {number: signal.signal(number, self._caught) for number in caught}
        StopFlag.current = self
        return self

    def __exit__(self, *_: object) -> None:
        StopFlag.current = StopFlag()
        for number, handler in self._previous_handlers.items():
            # After a stop request the process ends with its own exit code. Slurm repeats the signal: a second one would
            # kill the process before that.
            ignored = bool(self) and number != signal.SIGINT
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
        self.since = min(self.since, now)
        if self._interrupt is not None:
            # Once: a further signal must not interrupt the clearing up.
            make_error, self._interrupt = self._interrupt, None
            raise make_error()


StopFlag.current = StopFlag()


def stop_flag() -> StopFlag:
    """The flag of the command that runs: true after this process, or another rank, was asked to stop."""
    return StopFlag.current
