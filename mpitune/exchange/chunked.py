"""Collectives over arrays of any length, in chunks.

They use a world's nonblocking collectives, and ``complete`` waits for each: MPI's own waiting never ends if a host is
lost, and nothing interrupts it.

MPI counts and displacements are C ints, and not every library supports the large counts of MPI-4. So each call moves a
bounded number of elements per rank, longer arrays take several calls, and each received chunk is copied to its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Complete = Callable[[Any], None]
"""Waits until a request of MPI is complete."""

CHUNK = 2**24
"""Maximum number of elements that one call sends or receives per rank, and at least one for each peer."""


def bcast(world: Any, complete: Complete, array: np.ndarray) -> None:
    """Copy rank 0's ``array`` into those of all others, of the same length and dtype. ``world``: an MPI world."""
    for start in range(0, len(array), CHUNK):
        complete(world.Ibcast(array[start : start + CHUNK]))


def allgather(world: Any, complete: Complete, mine: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Return, on every rank, the arrays of all ranks (one dtype, ``counts[r]`` elements each), concatenated."""
    result: np.ndarray = np.empty(sum(counts), dtype=mine.dtype)
    step = _elements_per_peer(world)
    for start in range(0, max(counts), step):
        targets = _chunk_slices(counts, start, step)
        received_chunk: np.ndarray = np.empty(sum(map(_size, targets)), dtype=mine.dtype)
        sent_chunk = np.ascontiguousarray(mine[start : start + step])
        complete(world.Iallgatherv(sent_chunk, (received_chunk, list(map(_size, targets)))))
        _scatter(received_chunk, result, targets)
    return result


def alltoall(
    world: Any, complete: Complete, mine: np.ndarray, sent: Sequence[int], received: Sequence[int]
) -> np.ndarray:
    """Return the elements that all ranks send to this one, in rank order: ``received[r]`` elements from rank r.

    ``mine``: the elements that this rank sends, in rank order, ``sent[r]`` of them to rank r.
    """
    result: np.ndarray = np.empty(sum(received), dtype=mine.dtype)
    step = _elements_per_peer(world)
    longest = allgather(world, complete, np.array([max(sent)]), [1] * len(sent))
    for start in range(0, int(longest.max()), step):
        targets, origins = _chunk_slices(received, start, step), _chunk_slices(sent, start, step)
        received_chunk: np.ndarray = np.empty(sum(map(_size, targets)), dtype=mine.dtype)
        sent_chunk = np.concatenate([mine[origin] for origin in origins])
        sizes = (list(map(_size, chunk)) for chunk in (origins, targets))
        complete(world.Ialltoallv(*zip((sent_chunk, received_chunk), sizes, strict=True)))
        _scatter(received_chunk, result, targets)
    return result


def _elements_per_peer(world: Any) -> int:
    """Number of elements that a rank sends to, or receives from, each peer in one call."""
    peers: int = world.Get_size()
    return max(CHUNK // peers, 1)


def _chunk_slices(counts: Sequence[int], start: int, step: int) -> list[slice]:
    """Slices of the elements ``start:start + step`` of each of the concatenated arrays of these ``counts``."""
    targets, begin = [], 0
    for count in counts:
        targets.append(slice(begin + min(start, count), begin + min(start + step, count)))
        begin += count
    return targets


def _size(place: slice) -> int:
    return int(place.stop - place.start)


def _scatter(received_chunk: np.ndarray, result: np.ndarray, targets: Sequence[slice]) -> None:
    begin = 0
    for place in targets:
        result[place] = received_chunk[begin : begin + _size(place)]
        begin += _size(place)
