"""The network between rank 0 and other ranks: time of a message, bandwidth, difference of the clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

ROUNDS = 20
LARGE = 1 << 22
"""Bytes of a large message."""


class Link(NamedTuple):
    """Measured from rank 0."""

    round_trip: float
    """Seconds until a small message is answered, median."""
    bandwidth: float
    """Bytes per second of a large message."""
    clock: float
    """Seconds that the rank's clock is ahead of rank 0's."""


def measure(world: Any, complete: Callable[[Any], None], ranks: Sequence[int]) -> dict[int, Link]:
    """The link to each of ``ranks``, on rank 0; empty on the others. Collective, but for ranks that are not in it.

    ``complete`` waits for a request of MPI.
    """
    me = world.Get_rank()
    if me in ranks:
        _answer(world, complete)
    return {rank: _ask(world, complete, rank) for rank in ranks} if me == 0 else {}


def _answer(world: Any, complete: Callable[[Any], None]) -> None:
    small, large = np.zeros(1), np.zeros(LARGE, dtype=np.uint8)
    for _ in range(ROUNDS):
        complete(world.Irecv(small, 0))
        small[0] = time.time()
        complete(world.Isend(small, 0))
    complete(world.Irecv(large, 0))
    complete(world.Isend(small, 0))


def _ask(world: Any, complete: Callable[[Any], None], rank: int) -> Link:
    small, trips, ahead = np.zeros(1), [], []
    for _ in range(ROUNDS):
        begin = time.time()
        complete(world.Isend(small, rank))
        complete(world.Irecv(small, rank))
        end = time.time()
        trips.append(end - begin)
        ahead.append(small[0] - (begin + end) / 2)
    begin = time.perf_counter()
    complete(world.Isend(np.zeros(LARGE, dtype=np.uint8), rank))
    complete(world.Irecv(small, rank))
    seconds = time.perf_counter() - begin - median(trips) / 2
    return Link(median(trips), LARGE / max(seconds, 1e-9), median(ahead))
