"""Work handed out one item after the other, to whichever rank comes next: a counter that all ranks add to.

Over MPI it lies in rank 0's memory and is added to one-sidedly (fetch-and-add): nobody has to answer.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

_TAKEN, _DONE, _SCORE = range(3)
_SMALLEST = 1e-6
"""What scores are counted in."""


class Turns(Protocol):
    """What is handed out, and what is done of it."""

    def take(self) -> int:
        """The next turn: 0, 1, 2, ..., each of them given to one rank only."""
        ...

    def done(self, items: int = 1) -> int:
        """Note that ``items`` more are done; returns how many are, over all ranks.

        To be called between takes that lie far apart: a network may wait for rank 0 to call MPI now and then.
        """
        ...

    def score(self, amount: float) -> float:
        """Note ``amount`` more of what items are worth; returns the sum over all ranks, to about six digits."""
        ...


class OwnTurns:
    """The turns of a run of one process."""

    def __init__(self) -> None:
        self._counts = [0, 0, 0]

    def take(self) -> int:
        return self._add(_TAKEN, 1) - 1

    def done(self, items: int = 1) -> int:
        return self._add(_DONE, items)

    def score(self, amount: float) -> float:
        return _SMALLEST * self._add(_SCORE, round(amount / _SMALLEST))

    def _add(self, place: int, number: int) -> int:
        self._counts[place] += number
        return self._counts[place]


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
        return self._add(_TAKEN, 1) - 1

    def done(self, items: int = 1) -> int:
        return self._add(_DONE, items)

    def score(self, amount: float) -> float:
        return _SMALLEST * self._add(_SCORE, round(amount / _SMALLEST))

    def free(self) -> None:
        self._window.Unlock_all()
        self._window.Free()

    def _add(self, place: int, number: int) -> int:
        added, before = np.array([number], dtype=np.int64), np.empty(1, dtype=np.int64)
        self._window.Fetch_and_op(added, before, 0, place, self._sum)
        self._window.Flush(0)
        return int(before[0]) + number
