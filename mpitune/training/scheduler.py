"""Shards: partition of the sentences, and work on shards and sentences, dealt to the ranks by a work queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol, TypeVar

import numpy as np

from mpitune.corpus.progress import Progress
from mpitune.decoder.base import check_failed
from mpitune.errors import StopRequested
from mpitune.exchange.comm import Comm
from mpitune.runtime.signals import stop_flag
from mpitune.training.session import TrainingRun


class CompletedShard(Protocol):
    """Result of an epoch on a shard."""

    @property
    def shard(self) -> int:
        """Number of the shard."""

    @property
    def statistics(self) -> dict[str, float]:
        """Sums over its sentences, by name: `mpitune.training.epoch_statistics.ShardStatistics`."""


class Advance(Protocol):
    """Counts finished sentences of a shard."""

    def __call__(self, score: float, sentences: int = 1, /) -> None:
        """``score``: the sum of their gold scores."""


_Done = TypeVar("_Done", bound=CompletedShard)


def draw_shards(sentences: int, shards: int, seed: int, draw: int) -> list[np.ndarray]:
    """Cut a seeded permutation of the sentences into ``shards`` parts whose sizes differ by at most 1.

    ``draw`` numbers the permutations of a seed. Returns int64 arrays of sentence numbers.
    """
    return np.array_split(np.random.default_rng([seed, draw]).permutation(sentences), shards)


def reordered(shards: Sequence[np.ndarray], seed: int, draw: int) -> list[np.ndarray]:
    """The same ``shards``, the sentences of each in a new random order."""
    return [np.random.default_rng([seed, draw, z]).permutation(shard) for z, shard in enumerate(shards)]


def process_shards(
    run: TrainingRun,
    what: str,
    shards: Sequence[np.ndarray],
    kept: Callable[[int], _Done | None],
    make: Callable[[int, Advance], _Done],
    seconds: Sequence[float] = (),
) -> list[_Done]:
    """Process shards from the work queue until all are done. All ranks call this.

    ``what`` names the work in progress lines. ``kept(z)`` returns the result of shard z that an interrupted run left,
    or None; then ``make(z, advance)`` computes it, calls ``advance`` after each sentence or some of them, and raises
    StopRequested if a stop was requested. ``seconds``: what the same shards took in the epoch before.

    Returns this rank's results, by shard. Raises StopRequested on every rank if one was asked to stop and shards are
    left; the caller calls `check_stop` once the work of all shards is saved.
    """
    done: list[_Done] = []
    order = _longest_first(run, shards, seconds)
    with (
        Progress(what, run.corpus.size) as shown,
        run.comm.work_queue([len(shards[z]) for z in order]) as queue,
    ):
        for place in queue:
            if stop_flag():
                break
            z = order[place]
            result = kept(z)
            if result is not None and not result.statistics["failed"]:
                shown.reach(*queue.done(len(shards[z]), result.statistics["gold"]))
            else:
                try:
                    result = make(z, lambda gold, sentences=1: shown.reach(*queue.done(sentences, gold)))
                except StopRequested:
                    break
            done.append(result)
            check_failed(sum(int(each.statistics["failed"]) for each in done), run.corpus.size)
    check_stop(run, what, run.comm.sum(len(done)) < len(shards))
    return sorted(done, key=lambda result: result.shard)


def check_stop(run: TrainingRun, what: str, stopped: bool, *, resumable: bool = True) -> None:
    """Raise StopRequested on every rank if any rank ``stopped`` while doing ``what``.

    ``resumable``: see `StopFlag.stop_error`.
    """
    if run.comm.any(stopped):
        raise stop_flag().stop_error(what, resumable=resumable)


def _longest_first(run: TrainingRun, shards: Sequence[np.ndarray], seconds: Sequence[float]) -> list[int]:
    """The shards, longest first, so that no rank waits long at the end.

    The length is the time that a shard took, ``seconds``, or else the number of its words. The assignment of shards to
    ranks changes no result.
    """
    words = np.diff(run.corpus.source_ptr)
    length = seconds or [float(words[shard].sum()) for shard in shards]
    return sorted(range(len(shards)), key=lambda z: -length[z])


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
