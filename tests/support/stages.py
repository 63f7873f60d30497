"""The stages of a command that runs in this process: their progress is logged at once, and a signal arrives in one."""

from __future__ import annotations

import os
import signal

import pytest

from mpitune.corpus import progress


class Stages:
    """The tasks that display progress, each with its last line; ``stop`` sends a signal in one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: dict[str, str] = {}
        self.done: dict[str, tuple[int, int]] = {}
        """Items done, and their number."""
        self._stop: tuple[str, signal.Signals] | None = None
        advance = progress.Progress.advance

        def watched(shown: progress.Progress, items: int = 1) -> None:
            advance(shown, items)
            self.lines[shown.task] = shown.line(shown._start + 1)
            self.done[shown.task] = shown.done, shown.total
            if self._stop is not None and self._stop[0] == shown.task:
                number, self._stop = self._stop[1], None
                os.kill(os.getpid(), number)

        monkeypatch.setattr(progress.Progress, "advance", watched)
        monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)

    def stop(self, task: str, number: signal.Signals) -> None:
        """Send the signal when ``task`` first reports progress."""
        # An earlier stop leaves the signals ignored: the process was to end.
        signal.signal(number, signal.SIG_DFL)
        self._stop = task, number
