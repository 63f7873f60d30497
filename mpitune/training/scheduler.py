"""Shards: how sentences are cut into them, and how they come to the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from mpitune.runtime.progress import progress
from mpitune.training.parallel_map import check_failed
from mpitune.training.session import TrainingRun
from mpitune.training.state import State


class CompletedShard(Protocol):
    """What an epoch has made of a shard."""

    @property
    def shard(self) -> int:
        """Its number."""

    @property
    def statistics(self) -> dict[str, float]:
        """Sums over its sentences, by name: `mpitune.training.epoch_statistics.ShardStatistics`."""


_Done = TypeVar("_Done", bound=CompletedShard)


def draw_shards(sentences: int, shards: int, seed: int, draw: int) -> list[np.ndarray]:
    """A seeded permutation of the sentences in ``shards`` parts whose sizes differ by at most 1; its order stays.

    ``draw`` tells one drawing under the same seed from the next. Returns int64 arrays of sentence numbers.
    """
    return np.array_split(np.random.default_rng([seed, draw]).permutation(sentences), shards)


def reordered(shards: Sequence[np.ndarray], seed: int, draw: int) -> list[np.ndarray]:
    """The same ``shards``, the sentences of each in an order that is drawn anew."""
    return [np.random.default_rng([seed, draw, z]).permutation(shard) for z, shard in enumerate(shards)]


def process_shards(
    run: TrainingRun,
    state: State,
    what: str,
    shards: Sequence[np.ndarray],
    kept: Callable[[int], _Done | None],
    make: Callable[[int, Callable[[float], None]], _Done | None],
) -> list[_Done]:
    """Work on shards as long as there are any that no rank has taken.

    ``what`` is what that is called. ``kept(z)`` is what an interrupted run has kept of shard z, if anything; else
    ``make(z, advance)`` does its work, calling ``advance`` with the gold score of each sentence done, and returns None
    where a stop was asked for. Returns what fell to this rank, in the order of the shards. Raises StopRequested on
    every rank where one was asked to stop before all were done.
    """
    done: list[_Done] = []
    order = _longest_first(run, state, shards)
    with (
        progress(what, run.corpus.size, rank=run.comm.rank, quiet=run.quiet) as told,
        run.comm.work_queue() as queue,
    ):
        while not run.stop and (turn := queue.next()) < len(shards):
            z = order[turn]
            result = kept(z)
            if result is not None and not result.statistics["failed"]:
                told.reach(*queue.done(len(shards[z]), result.statistics["gold"]))
            else:
                result = make(z, lambda gold: told.reach(*queue.done(1, gold)))
                if result is None:
                    break
            done.append(result)
            check_failed(sum(int(each.statistics["failed"]) for each in done), run.corpus.size)
    check_stop(run, what, run.comm.sum(len(done)) < len(shards))
    return sorted(done, key=lambda result: result.shard)


def check_stop(run: TrainingRun, what: str, stopped: bool) -> None:
    """Raise StopRequested on every rank where one has ``stopped``; ``what`` was being done."""
    if run.comm.any(stopped):
        raise run.stop.stop_error(what)


def _longest_first(run: TrainingRun, state: State, shards: Sequence[np.ndarray]) -> list[int]:
    """The shards in the order in which they are handed out: what is begun last is soon done, and no rank waits long.

    By their time in the epoch before, or else by their words; which rank gets which shard changes no result.
    """
    length: Sequence[Any]
    if state.history and not run.job.parallel.reshuffle:
        length = state.history[-1]["shard_seconds"]
    else:
        words = np.diff(run.corpus.source_ptr)
        length = [int(words[shard].sum()) for shard in shards]
    return sorted(range(len(shards)), key=lambda z: -length[z])
