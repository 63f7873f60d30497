"""Collectives over arrays of any length, in chunks.

MPI's counts and displacements are C ints, and in MPI-4's large counts not every library can be relied on. So each call
moves a bounded number of elements of a rank, and longer arrays take several calls; what arrives is put into its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

CHUNK = 2**24
"""How many elements one call sends from, and receives on, a rank at most; but one for each of its peers."""


def bcast(world: Any, array: np.ndarray) -> None:
    """Rank 0's ``array`` into those of all others, which are of the same length and dtype. ``world``: an MPI world."""
    for start in range(0, len(array), CHUNK):
        world.Bcast(array[start : start + CHUNK])


def allgather(world: Any, mine: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """On every rank the arrays of all ranks (of one dtype, ``counts`` elements each), one after the other."""
    everything: np.ndarray = np.empty(sum(counts), dtype=mine.dtype)
    share = _share(world)
    for start in range(0, max(counts), share):
        places = _places(counts, start, share)
        arrived: np.ndarray = np.empty(sum(map(_size, places)), dtype=mine.dtype)
        world.Allgatherv(np.ascontiguousarray(mine[start : start + share]), (arrived, list(map(_size, places))))
        _put(arrived, everything, places)
    return everything


def alltoall(world: Any, mine: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> np.ndarray:
    """On every rank what each rank has for it, in rank order: ``received[r]`` elements from rank r.

    ``mine`` holds what this rank has for the others in rank order, ``sent[r]`` elements for rank r.
    """
    everything: np.ndarray = np.empty(sum(received), dtype=mine.dtype)
    share = _share(world)
    for start in range(0, max(world.allgather(max(sent))), share):
        places, origins = _places(received, start, share), _places(sent, start, share)
        arrived: np.ndarray = np.empty(sum(map(_size, places)), dtype=mine.dtype)
        leaving = np.concatenate([mine[origin] for origin in origins])
        world.Alltoallv((leaving, list(map(_size, origins))), (arrived, list(map(_size, places))))
        _put(arrived, everything, places)
    return everything


def _share(world: Any) -> int:
    """How many elements a rank has for, or from, each of its peers in one call."""
    peers: int = world.Get_size()
    return max(CHUNK // peers, 1)


def _places(counts: Sequence[int], start: int, share: int) -> list[slice]:
    """Where the elements from ``start`` on, at most ``share``, of arrays that lie end to end are."""
    places, begin = [], 0
    for count in counts:
        places.append(slice(begin + min(start, count), begin + min(start + share, count)))
        begin += count
    return places


def _size(place: slice) -> int:
    return int(place.stop - place.start)


def _put(arrived: np.ndarray, everything: np.ndarray, places: Sequence[slice]) -> None:
    begin = 0
    for place in places:
        everything[place] = arrived[begin : begin + _size(place)]
        begin += _size(place)
