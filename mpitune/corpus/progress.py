"""Progress of a long task, as the code that does the task reports it; `mpitune.runtime.progress` displays it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager


class Progress(AbstractContextManager["Progress"]):
    """Progress that is not displayed."""

    def advance(self, items: int = 1) -> None:
        """Count ``items`` more as done; 0 only shows that the task goes on."""

    def reach(self, done: int, score: float | None = None) -> None:
        """Set the number of items done to ``done``, and the sum of their scores, if they have scores."""

    def __exit__(self, *_: object) -> None:
        """End of the task."""


StartProgress = Callable[[str, int], Progress]
"""Starts a task: from a name that says what its items are, and their number."""


def no_progress(task: str, total: int) -> Progress:
    """A `StartProgress` that displays nothing."""
    return Progress()
