"""Work handed out one item after the other, to whichever rank comes next: a counter that all ranks add to.

Over MPI it lies in rank 0's memory and is added to one-sidedly (get-accumulate): nobody has to answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

_TAKEN, _DONE = range(2)  # and what is done is worth, behind that
_SMALLEST = 1e-6
"""What scores are counted in."""


class QueueProgress(NamedTuple):
    """What is done, over all ranks."""

    items: int
    score: float
    """The sum of what items are worth, to about six digits."""


class WorkQueue(Protocol):
    """What is handed out, and what is done of it."""

    def take(self) -> int:
        """The next turn: 0, 1, 2, ..., each of them given to one rank only."""
        ...

    def done(self, items: int = 1, score: float = 0.0) -> QueueProgress:
        """Note that ``items`` more are done, which are worth ``score``; returns what all are.

        To be called between takes that lie far apart: a network may wait for rank 0 to call MPI now and then.
        """
        ...


class OwnTurns:
    """The turns of a run of one process."""

    def __init__(self) -> None:
        self._taken, self._done = -1, QueueProgress(0, 0.0)

    def take(self) -> int:
        self._taken += 1
        return self._taken

    def done(self, items: int = 1, score: float = 0.0) -> QueueProgress:
        self._done = QueueProgress(self._done.items + items, self._done.score + score)
        return self._done


class SharedTurns:
    """The turns of an MPI world; to make and to free them is collective."""

    def __init__(self, mpi: Any, world: Any, root: bool) -> None:
        """``mpi``: the module mpi4py.MPI; ``root``: whether this rank keeps the counters."""
        self._sum = mpi.SUM
        counters: np.ndarray = np.zeros(3, dtype=np.int64)
        self._window = mpi.Win.Allocate(counters.nbytes if root else 0, counters.itemsize, comm=world)
        if root:
            self._window.Lock(0)
            self._window.Put(counters, 0)
            self._window.Unlock(0)
        world.Barrier()
        self._window.Lock_all()

    def take(self) -> int:
        return self._add(_TAKEN, 1)[0] - 1

    def done(self, items: int = 1, score: float = 0.0) -> QueueProgress:
        # In one message: each may have to wait for rank 0.
        all_items, all_scores = self._add(_DONE, items, round(score / _SMALLEST))
        return QueueProgress(all_items, _SMALLEST * all_scores)

    def free(self) -> None:
        self._window.Unlock_all()
        self._window.Free()

    def _add(self, place: int, *numbers: int) -> list[int]:
        """Add to the counters from ``place`` on; returns what they are then."""
        added = np.array(numbers, dtype=np.int64)
        before = np.empty_like(added)
        self._window.Get_accumulate(added, before, 0, place, self._sum)
        self._window.Flush(0)
        return (before + added).tolist()  # type: ignore[no-any-return]
