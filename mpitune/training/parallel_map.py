"""Parallel map over sentences by a work queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from operator import itemgetter
from typing import TypeVar

from mpitune.corpus.progress import Progress
from mpitune.exchange.comm import Comm

T = TypeVar("T")


def parallel_map(
    comm: Comm, count: int, work: Callable[[int], T], what: str, *, at_once: int | None = None
) -> Iterator[T]:
    """Yield ``work(0)`` to ``work(count - 1)`` in order on rank 0; any free rank computes the next item.

    Other ranks yield nothing, but must exhaust the iterator. ``at_once``: approximate number of results that a rank
    collects before it sends them to rank 0 (None: all); small if results are large.
    """
    step = (at_once or count) * comm.size
    with Progress(what, count) as shown:
        for first in range(0, count, max(step, 1)):
            last = min(first + step, count)
            done = []
            with comm.work_queue([1] * (last - first)) as queue:
                for i in queue:
                    done.append((first + i, work(first + i)))
                    shown.reach(first + queue.done().units)
            parts = comm.gather(done)
            if parts is not None:
                yield from (result for _, result in sorted(chain(*parts), key=itemgetter(0)))
