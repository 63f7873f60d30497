"""Ranks as threads of one process: `MpiComm` over a world that checks what it is told, quick enough for many trials."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from mpitune.exchange.comm import Comm, MpiComm

T = TypeVar("T")
Counted = tuple[np.ndarray, list[int]]
"""An array and how many of its elements are each rank's, from its beginning on."""


class ThreadWorld:
    """What `MpiComm` uses of an MPI world; a rank that fails ends the calls of all others."""

    def __init__(self, rank: int, board: list[Any], meeting: threading.Barrier) -> None:
        self.rank = rank
        self.board = board
        self.meeting = meeting

    def Get_size(self) -> int:
        return len(self.board)

    def Test(self) -> bool:
        """Of a request: all operations are done when they return."""
        return True

    def Ibarrier(self) -> ThreadWorld:
        return self  # the operation that follows waits for all

    def Ibcast(self, array: np.ndarray) -> ThreadWorld:
        sent = self._all(array.copy())[0]
        if self.rank != 0:  # where it may be read-only
            array[:] = sent
        return self

    def Iallgatherv(self, sent: np.ndarray, received: Counted) -> ThreadWorld:
        self._take(self._all(sent.copy()), *received)
        return self

    def Igatherv(self, sent: np.ndarray, received: Counted | None) -> ThreadWorld:
        arrays = self._all(sent.copy())
        if received is not None:
            self._take(arrays, *received)
        return self

    def Iallreduce(self, sent: np.ndarray, received: np.ndarray, op: Callable[[Any, Any], Any]) -> ThreadWorld:
        received[...] = reduce(op, self._all(sent.copy()))
        return self

    def Ialltoallv(self, sent: Counted, received: Counted) -> ThreadWorld:
        array, counts = sent
        assert len(array) == sum(counts)
        pieces = np.split(array.copy(), np.cumsum(counts)[:-1])
        self._take([pieces[self.rank] for pieces in self._all(pieces)], *received)
        return self

    def _all(self, obj: Any) -> list[Any]:
        self.board[self.rank] = obj
        self.meeting.wait()
        everyone = list(self.board)
        self.meeting.wait()
        return everyone

    def _take(self, arrays: list[np.ndarray], into: np.ndarray, counts: list[int]) -> None:
        assert [len(array) for array in arrays] == counts and {array.dtype for array in arrays} == {into.dtype}
        into[:] = np.concatenate(arrays)


class ThreadComm(MpiComm):
    """One rank of it."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._mpi = SimpleNamespace(SUM=operator.add)  # type: ignore[assignment]
        self.rank, self.size = world.rank, world.Get_size()
        self.root, self.ranks_on_node, self.waited, self.waits = self.rank == 0, self.size, 0.0, []


def on_ranks(size: int, function: Callable[[Comm], T]) -> list[T]:
    """What ``function`` returns on each of ``size`` ranks; raises what it raises on any."""
    meeting = threading.Barrier(size)
    board: list[Any] = [None] * size

    def rank(number: int) -> T:
        try:
            return function(ThreadComm(ThreadWorld(number, board, meeting)))
        except BaseException:
            meeting.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(rank, number) for number in range(size)]
        errors = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]
