"""Batch tuning: an epoch decodes all sentences with the same weights, and learns from all lists so far.

Shards are the parts in which lists are kept and questions are answered; shard z is at rank z mod size. Rank 0 leads the
optimiser and hears the shards' answers in their order, so that the number of ranks leaves no trace.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpitune.errors import DataError, StopRequested
from mpitune.learner.base import BatchLearner, Part, Reply, Tuned
from mpitune.learner.pool import Pool, empty, merged, pool_of
from mpitune.pairs.bleu import LENGTH, REFERENCE, statistics
from mpitune.results.checkpoint import Vector, checkpoint_path, digest, read_checkpoint
from mpitune.results.lists import ShardLists, forget_lists, read_lists, write_lists
from mpitune.run import Run, State
from mpitune.runtime import progress
from mpitune.translate import check_failed


@dataclass(frozen=True)
class Learned:
    """What an epoch has learned."""

    weights: Vector
    metrics: dict[str, Any]
    """What is said of the weights; on rank 0."""
    shards: list[tuple[int, dict[str, float]]]
    """The sums over the sentences of each of this rank's shards, by name."""


@dataclass(frozen=True)
class _Space:
    """What is optimised over: the features that occur in any list or have a weight, on all ranks."""

    ids: np.ndarray
    """uint64 [features], ascending."""
    weights: np.ndarray
    """float64 [features]: what the epoch has decoded with."""
    free: np.ndarray
    """bool [features]: those that are not frozen."""

    def place(self, ids: np.ndarray) -> np.ndarray:
        """int64: where these features stand."""
        return np.searchsorted(self.ids, ids)

    def sparse(self, weights: np.ndarray) -> Vector:
        """The free weights other than 0 of ``weights`` (float64 [features])."""
        learned = self.free & (weights != 0)
        return self.ids[learned], weights[learned]


def tune_epoch(run: Run, tuner: BatchLearner, state: State, shards: Sequence[np.ndarray]) -> Learned:
    """Decode all sentences with the weights that ``state`` has come to, then learn new ones.

    ``shards``: int64, sentence numbers, the same in every epoch. Raises StopRequested on every rank where one was asked
    to stop.
    """
    epoch = state.epoch + 1
    lists = _collect(run, state, epoch, shards)
    run.comm.at_root(lambda: forget_lists(run.folder.lists, epoch - 2))
    _meet(run, lists)
    space = _space(run, state.start, [each.pool for each in lists])
    parts = {each.shard: _part(run, tuner, space, epoch, shards[each.shard], each.pool) for each in lists}
    tuned = _optimise(run, tuner, space, epoch, parts, len(shards))
    if tuned is not None and not np.isfinite(tuned.weights).all():
        raise DataError(f"epoch {epoch}: found NaN or infinite weights, expected numbers")
    weights = run.comm.bcast_sparse(*(space.sparse(tuned.weights) if tuned else (None, None)))
    pairs = run.comm.sum(sum(part.pairs for part in parts.values()))
    entries = run.comm.sum(sum(len(each.pool.fingerprint) for each in lists))
    metrics = {
        "active_features": len(space.ids),
        "selected_features": len(weights[0]),
        "lambda": None,
        "pairs": pairs,
        "updates": tuned.steps if tuned else 0,
        "objective": tuned.objective if tuned else 0.0,
        "list_entries": entries,
    }
    return Learned(weights, metrics, [(each.shard, each.statistics) for each in lists])


def _collect(run: Run, state: State, epoch: int, shards: Sequence[np.ndarray]) -> list[ShardLists]:
    """The lists of this rank's shards up to ``epoch``."""
    collected: list[ShardLists] = []
    mine = range(run.comm.rank, len(shards), run.comm.size)
    what = f"epoch {epoch} of {run.job.learner.epochs}" + (" (rank 0)" if run.comm.size > 1 else "")
    with progress(what, len(mine), rank=run.comm.rank, quiet=run.quiet) as told:
        for z in mine:
            lists = _lists(run, state, epoch, z, shards[z])
            if lists is None:
                break
            collected.append(lists)
            told.advance()
    _check_stop(run, epoch, len(collected) < len(mine))
    failed = run.comm.sum(int(sum(each.statistics["failed"] for each in collected)))
    check_failed(failed, run.corpus.size)
    return collected


def _lists(run: Run, state: State, epoch: int, z: int, shard: np.ndarray) -> ShardLists | None:
    """Shard ``z``'s lists up to ``epoch``: those that are kept, or those of the epoch before and what it decodes now.

    So what was lost is decoded again, as far back as need be. None where a stop was asked for.
    """
    job_digest = digest(run.identity)
    kept = read_lists(run.folder.lists, epoch, job_digest, z)
    if kept is not None and not (kept.statistics["failed"] and epoch > state.epoch):
        return kept
    before = _lists(run, state, epoch - 1, z, shard) if epoch > 1 else ShardLists(z, empty(len(shard)), {}, [])
    if before is None:
        return None
    decoded = _decode(run, epoch, shard, run.dense(_weights_before(run, state, epoch)))
    if decoded is None:
        return None
    new, sums, names = decoded
    lists = ShardLists(z, merged(before.pool, new), sums, sorted({*before.names, *names}))
    write_lists(run.folder.lists, epoch, job_digest, lists)
    # From the file, where they take no memory of ours.
    return read_lists(run.folder.lists, epoch, job_digest, z) or lists


def _weights_before(run: Run, state: State, epoch: int) -> Vector:
    """What ``epoch`` decodes with."""
    if epoch > state.epoch:
        return state.start
    if epoch == 1:
        return run.sparse(run.first.weights)
    return read_checkpoint(checkpoint_path(run.folder.checkpoints, epoch - 1)).start


def _decode(
    run: Run, epoch: int, shard: np.ndarray, weights: np.ndarray
) -> tuple[Pool, dict[str, float], list[str]] | None:
    """The lists of a shard's sentences, sums over these, and the names of their features that nobody knew before."""
    began, lists = time.monotonic(), []
    sums = dict.fromkeys(("sentences", "gold", "pairs", "updates", "length", "reference", "empty"), 0.0)
    sums["failed"] = float(-run.decoder.failed)
    run.gold.start_shard()
    for i in shard.tolist():
        if run.stop:
            return None
        sentence = run.corpus.sentence(i)
        kbest = run.decoder.decode(sentence, weights, run.job.decoder.kbest)
        if not np.isfinite(kbest.score).all():
            raise DataError(f"epoch {epoch}: found NaN or infinite scores, expected numbers: weights are too large")
        counted = statistics(kbest, run.corpus.references(i))
        lists.append((kbest, counted))
        sums["sentences"] += 1
        sums["gold"] += run.gold.report(counted)
        sums["length"] += float(counted[0, LENGTH])
        sums["reference"] += float(counted[0, REFERENCE])
        sums["empty"] += float(len(sentence.words) > 0 and len(kbest.translation(0)) == 0)
    sums["failed"] += run.decoder.failed
    sums["seconds"] = time.monotonic() - began
    slots = {slot for kbest, _ in lists for slot in np.unique(kbest.feature_index).tolist() if slot >= run.known}
    return pool_of(lists, run.features.ids), sums, [run.features.name(slot) for slot in slots]


def _meet(run: Run, lists: Sequence[ShardLists]) -> None:
    """All ranks get to know the features of all lists."""
    named = run.comm.gather(sorted({name for each in lists for name in each.names}))
    run.meet(run.comm.at_root(lambda: sorted({name for part in named or [] for name in part})))


def _space(run: Run, start: Vector, pools: Sequence[Pool]) -> _Space:
    frozen = np.flatnonzero(run.first.frozen)
    mine = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *(pool.feature_id for pool in pools)]))
    everyones = run.comm.gather(mine)
    ids = run.comm.bcast(np.unique(np.concatenate([*(everyones or []), start[0], run.features.ids[frozen]])))
    space = _Space(ids, np.zeros(len(ids)), np.ones(len(ids), dtype=np.bool_))
    space.weights[space.place(start[0])] = start[1]
    fixed = space.place(run.features.ids[frozen])
    space.weights[fixed] = run.first.weights[frozen]
    space.free[fixed] = False
    return space


def _part(run: Run, tuner: BatchLearner, space: _Space, epoch: int, shard: np.ndarray, pool: Pool) -> Part:
    def random(s: int) -> np.random.Generator:
        return np.random.default_rng([run.job.run.seed, epoch, int(shard[s])])

    return tuner.part(pool, space.place(pool.feature_id), space.free, random)


def _optimise(
    run: Run, tuner: BatchLearner, space: _Space, epoch: int, parts: dict[int, Part], count: int
) -> Tuned | None:
    """What ``tuner`` finds, on rank 0; the other ranks answer its questions until it has no more, and get None."""
    comm = run.comm

    def answers(question: np.ndarray) -> Iterator[Reply]:
        # As many shards at a time as there are ranks: no rank ever holds the answers of all.
        for first in range(0, count, comm.size):
            mine = parts.get(first + comm.rank)
            replies = comm.gather(mine.answer(question) if mine else None)
            yield from (reply for reply in replies or [] if reply is not None)

    def ask(question: np.ndarray) -> Iterator[Reply]:
        comm.bcast(question)
        _check_stop(run, epoch, bool(run.stop))
        return answers(question)

    if comm.root:
        random = np.random.default_rng([run.job.run.seed, epoch])
        tuned = tuner.optimise(space.weights, space.free, ask, random)
        comm.bcast(None)
        return tuned
    while (question := comm.bcast(None)) is not None:
        _check_stop(run, epoch, bool(run.stop))
        for _ in answers(question):
            pass
    return None


def _check_stop(run: Run, epoch: int, stopped: bool) -> None:
    """Raise StopRequested on every rank where one has ``stopped``."""
    if run.comm.any(stopped):
        raise StopRequested(
            f"stopped by {run.stop.signal or 'a signal to another rank'} in epoch {epoch}; what is finished is kept: "
            "the same command goes on from there"
        )
