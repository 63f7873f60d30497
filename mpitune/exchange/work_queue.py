"""Dynamic scheduling: each free rank draws the next item of work from a counter that all ranks share.

Over MPI the counter lies in rank 0's memory; ranks increment it by one-sided get-accumulate, without rank 0's help.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

_NEXT, _DONE = range(2)  # indices of the counters; the sum of scores follows at index 2
_SCORE_UNIT = 1e-6
"""Scores are summed as integers, in this unit."""
_MAX_UNITS = 2**53
"""Largest score that is added, in units: a user's metric may have any size, and progress may show it too small."""


class QueueProgress(NamedTuple):
    """Finished work of all ranks."""

    items: int
    score: float
    """Sum of the items' scores, to about six digits."""


class WorkQueue(Protocol):
    """A queue of numbered items of work, and its progress."""

    def next(self) -> int:
        """Return the number of the next item: 0, 1, 2, ..., each on one rank only."""
        ...

    def done(self, items: int = 1, score: float = 0.0) -> QueueProgress:
        """Add ``items`` finished items of total score ``score``; returns the progress of all ranks.

        Call it regularly during long items too: on some networks, one-sided operations wait until rank 0 calls MPI.
        """
        ...


class SerialWorkQueue:
    """The queue of a run of one process."""

    def __init__(self) -> None:
        self._taken, self._done = -1, QueueProgress(0, 0.0)

    def next(self) -> int:
        self._taken += 1
        return self._taken

    def done(self, items: int = 1, score: float = 0.0) -> QueueProgress:
        self._done = QueueProgress(self._done.items + items, self._done.score + score)
        return self._done


class SharedWorkQueue:
    """The queue of an MPI world. Construction and `free` are collective."""

    def __init__(self, mpi: Any, world: Any, root: bool) -> None:
        """``mpi``: the module mpi4py.MPI; ``root``: true on the rank whose memory holds the counters."""
        self._sum = mpi.SUM
        counters: np.ndarray = np.zeros(3, dtype=np.int64)
        self._window = mpi.Win.Allocate(counters.nbytes if root else 0, counters.itemsize, comm=world)
        if root:
            self._window.Lock(0)
            self._window.Put(counters, 0)
            self._window.Unlock(0)
        world.Barrier()
        self._window.Lock_all()

    def next(self) -> int:
        return self._add(_NEXT, 1)[0] - 1

    def done(self, items: int = 1, score: float = 0.0) -> QueueProgress:
        # One message for both: each message may have to wait for rank 0.
        units = round(max(-_MAX_UNITS, min(score / _SCORE_UNIT, _MAX_UNITS)))
        all_items, all_scores = self._add(_DONE, items, units)
        return QueueProgress(all_items, _SCORE_UNIT * all_scores)

    def free(self) -> None:
        self._window.Unlock_all()
        self._window.Free()

    def _add(self, place: int, *numbers: int) -> list[int]:
        """Add ``numbers`` to the counters from index ``place`` on; returns their new values."""
        added = np.array(numbers, dtype=np.int64)
        before = np.empty_like(added)
        self._window.Get_accumulate(added, before, 0, place, self._sum)
        self._window.Flush(0)
        return (before + added).tolist()  # type: ignore[no-any-return]
