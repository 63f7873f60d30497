"""An epoch of a batch method: decode all sentences with the same weights, then optimise on all lists so far.

Lists are kept by shard; shard z is on rank z mod size. The optimiser runs on rank 0. The shards evaluate its points,
and their replies are read in shard order, so the result does not depend on the number of ranks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from mpitune.errors import MachineError
from mpitune.learner.base import (
    BatchLearner,
    ChainLearner,
    Counts,
    ForestLearner,
    OptimizerResult,
    Reply,
    ShardObjective,
)
from mpitune.learner.forests import Forests, forests_of
from mpitune.learner.pool import NBestPool, empty, merged, pool_of
from mpitune.learner.weights import SparseWeights, Weights
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.run_folder.layout import checkpoint_path, remove_shards
from mpitune.run_folder.nbest_store import ShardLists, read_lists, write_lists
from mpitune.runtime.signals import stop_flag
from mpitune.training.epoch_statistics import EpochResult, ShardStatistics, StatisticsAccumulator
from mpitune.training.online_epoch import check_finite
from mpitune.training.scheduler import check_stop, draw_shards, process_shards
from mpitune.training.session import TrainingRun
from mpitune.training.state import State

LOG = logging.getLogger(__name__)

INTERVAL = 30.0
"""Seconds between two log lines of the optimiser; the number of its evaluations is not known in advance."""


class Space(NamedTuple):
    """Features to be optimised: those in any list of any rank, and those with a weight."""

    ids: np.ndarray
    """uint64 [features], ascending."""
    weights: np.ndarray
    """float64 [features]: the weights that the epoch decoded with."""
    free: np.ndarray
    """bool [features]: True if not frozen."""

    def place(self, ids: np.ndarray) -> np.ndarray:
        """int64: indices of the features ``ids``."""
        return np.searchsorted(self.ids, ids)

    def sparse(self, weights: np.ndarray) -> SparseWeights:
        """The free weights other than 0 of ``weights`` (float64 [features])."""
        learned = self.free & (weights != 0)
        return SparseWeights(self.ids[learned], weights[learned])


def batch_epoch(run: TrainingRun, state: State) -> EpochResult:
    """Decode all sentences with the weights of ``state``, then optimise them. Collective.

    Raises StopRequested on every rank if one was asked to stop.
    """
    epoch, tuner = state.epoch + 1, run.learner
    assert isinstance(tuner, BatchLearner)  # the loop sees to it
    # Lists are kept by shard, so each sentence stays in its shard in all epochs.
    shards = draw_shards(run.corpus.size, run.job.parallel.shards, run.job.run.seed, 0)
    lists = _collect(run, state, shards)
    run.comm.on_root(_forget, run, epoch)
    for each in lists:
        run.features.slots(each.names)
    occurring = [kind.feature_id for each in lists for kind in (each.pool, each.forests) if kind is not None]
    of_all = run.comm.gather(np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *occurring])))
    ids = run.comm.bcast(np.unique(np.concatenate(of_all)) if of_all else None)
    assert ids is not None  # rank 0 has them
    space = feature_space(tuner, run.first.load(state.shared_weights), ids)
    seeds = [run.job.run.seed, epoch]
    parts = {each.shard: objective(tuner, space, each.pool, each.forests, seeds, shards[each.shard]) for each in lists}
    tuned = _optimise(run, tuner, space, epoch, parts, len(shards))
    if tuned is not None:
        check_finite(run, epoch, tuned.weights)
    index, value = run.comm.bcast_sparse(*(space.sparse(tuned.weights)[:2] if tuned else (None, None)))
    weights = SparseWeights(index, value)
    run.share_names(index)
    pairs = run.comm.sum(sum(part.pairs for part in parts.values()))
    entries = run.comm.sum(sum(len(each.pool.fingerprint) for each in lists))
    metrics = {
        "active_features": len(index),
        "selected_features": len(index),
        "lambda": None,
        "pairs": pairs,
        "updates": tuned.steps if tuned else 0,
        "objective": tuned.objective if tuned else 0.0,
        "list_entries": entries,
    }
    return EpochResult(
        weights, metrics, [ShardStatistics(each.shard, each.statistics, each.bleu, each.choices) for each in lists]
    )


def _collect(run: TrainingRun, state: State, shards: Sequence[np.ndarray]) -> list[ShardLists]:
    """Lists up to this epoch of the shards that this rank evaluates, whichever rank decoded them."""
    epoch, job_digest = state.epoch + 1, run.identity_digest
    forests = isinstance(run.learner, ForestLearner)

    def kept(z: int) -> ShardLists | None:
        return read_lists(run.folder.checkpoints, epoch, job_digest, z, forests=forests)

    def decode(z: int, advance: Callable[[float], None]) -> ShardLists:
        _lists(run, state, epoch, z, shards[z], advance, forests=forests)
        # Mapped from its file, it needs no memory of this process.
        return _found(kept(z), run, epoch, z)

    seconds = state.history[-1]["shard_seconds"] if state.history else ()
    process_shards(run, f"epoch {epoch} of {run.job.learner.epochs}", shards, kept, decode, seconds)
    return [_found(kept(z), run, epoch, z) for z in range(run.comm.rank, len(shards), run.comm.size)]


def _found(lists: ShardLists | None, run: TrainingRun, epoch: int, z: int) -> ShardLists:
    if lists is None:
        raise MachineError(f"{run.folder.checkpoints}: the lists of shard {z}, epoch {epoch}, are missing")
    return lists


def _forget(run: TrainingRun, epoch: int) -> None:
    """Remove files that no epoch after ``epoch`` needs, even if lists of ``epoch`` are lost."""
    remove_shards(run.folder.checkpoints, "lists", epoch - 2)
    remove_shards(run.folder.checkpoints, "forests", epoch - 1)


def _lists(
    run: TrainingRun,
    state: State,
    epoch: int,
    z: int,
    shard: np.ndarray,
    advance: Callable[[float], None],
    *,
    forests: bool,
) -> ShardLists:
    """Lists of shard ``z`` up to ``epoch``: those of the epoch before merged with new ones; with ``forests`` too.

    Lost lists are decoded again, as far back as necessary. Raises StopRequested if a stop was requested.
    """
    job_digest = run.identity_digest
    pool, known = empty(len(shard), run.metric.width), list[str]()
    if epoch > 1:
        before = read_lists(run.folder.checkpoints, epoch - 1, job_digest, z, forests=False)
        before = before or _lists(run, state, epoch - 1, z, shard, lambda gold: None, forests=False)
        pool, known = before.pool, before.names
    weights = run.first.load(_weights_before(run, state, epoch))
    check = partial(check_finite, run, epoch)
    new = decode_shard(run, epoch, z, shard, weights, advance, check, forests=forests)
    lists = replace(new, pool=merged(pool, new.pool), names=sorted({*known, *new.names}))
    write_lists(run.folder.checkpoints, epoch, job_digest, lists)
    return lists


def _weights_before(run: TrainingRun, state: State, epoch: int) -> SparseWeights:
    """Weights that ``epoch`` decodes with."""
    if epoch > state.epoch:
        return state.shared_weights
    if epoch == 1:
        return run.first.sparse()
    checkpoint = read_checkpoint(checkpoint_path(run.folder.checkpoints, epoch - 1))
    # Features whose weights have become 0 since are not in the checkpoint that the run continues from.
    run.features.slots(checkpoint.dynamic_names)
    return checkpoint.start


def decode_shard(
    run: TrainingRun,
    epoch: int,
    z: int,
    shard: np.ndarray,
    weights: Weights,
    advance: Callable[[float], None],
    check: Callable[[np.ndarray], None],
    *,
    forests: bool,
) -> ShardLists:
    """Lists of a shard's sentences, with forests if asked for.

    Raises StopRequested if a stop was requested. ``check`` raises DataError for the scores of a list with NaN.
    """
    sums, lists, graphs = StatisticsAccumulator(run.decoder, run.metric), [], []
    for each in run.lists(shard, weights, epoch, forests=forests):
        check(each.kbest.score)
        lists.append((each.kbest, each.statistics))
        if each.forest is not None:
            graphs.append(each.forest)
        sums.add(each, Counts(0, 0))
        advance(each.best)
    references = [run.corpus.references(i) for i in shard.tolist()]
    pool = pool_of(lists, run.features.ids, run.metric.width)
    found = forests_of(graphs, references, run.features.ids) if forests else None
    names = run.first.discovered(pool.feature_id, *([found.feature_id] if found else []))
    _, counted, bleu, choices = sums.statistics(z)
    return ShardLists(z, pool, counted, names, bleu, choices, found)


def feature_space(tuner: BatchLearner, weights: Weights, ids: np.ndarray) -> Space:
    """The features to be optimised by ``tuner``, which gets to know their order; ``ids``: uint64, of the lists."""
    chained = tuner.chained if isinstance(tuner, ChainLearner) else np.zeros(0, dtype=np.uint64)
    space = Space(*weights.optimised(np.concatenate([ids, chained])))
    if isinstance(tuner, ChainLearner):
        tuner.set_feature_order(space.ids)
    return space


def objective(
    tuner: BatchLearner,
    space: Space,
    pool: NBestPool,
    forests: Forests | None,
    seeds: Sequence[int],
    sentences: np.ndarray,
) -> ShardObjective:
    """A shard's objective, with random numbers by ``seeds`` and the number of each of its ``sentences`` (int64)."""

    def random(s: int) -> np.random.Generator:
        return np.random.default_rng([*seeds, int(sentences[s])])

    if forests is not None:
        assert isinstance(tuner, ForestLearner)
        return tuner.forest_objective(pool, space.place(pool.feature_id), forests, space.place(forests.feature_id))
    return tuner.shard_objective(pool, space.place(pool.feature_id), random)


def _optimise(
    run: TrainingRun, tuner: BatchLearner, space: Space, epoch: int, objectives: dict[int, ShardObjective], count: int
) -> OptimizerResult | None:
    """Result of ``tuner`` on rank 0; the other ranks evaluate its points until it ends, and get None."""
    comm, evaluations, last_logged = run.comm, 0, time.monotonic()

    def replies_to(point: np.ndarray) -> Iterator[Reply]:
        # As many shards at a time as there are ranks: no rank ever holds the replies of all.
        for first in range(0, count, comm.size):
            mine = objectives.get(first + comm.rank)
            replies = comm.gather(mine.evaluate(point) if mine else None)
            yield from (reply for reply in replies or [] if reply is not None)

    def evaluate(point: np.ndarray) -> Iterator[Reply]:
        nonlocal evaluations, last_logged
        evaluations += 1
        if time.monotonic() - last_logged >= INTERVAL:
            last_logged = time.monotonic()
            LOG.info("epoch %d: optimising weights: %d evaluations", epoch, evaluations)
        comm.bcast(point)
        check_stop(run, f"epoch {epoch}", bool(stop_flag()))
        return replies_to(point)

    if comm.root:
        random = np.random.default_rng([run.job.run.seed, epoch])
        tuned = tuner.optimise(space.weights, space.free, evaluate, random)
        comm.bcast(None)
        return tuned
    while (point := comm.bcast(None)) is not None:
        check_stop(run, f"epoch {epoch}", bool(stop_flag()))
        for _ in replies_to(point):
            pass
    return None
