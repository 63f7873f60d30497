"""An epoch of an online learner: a pass over each shard, then the exchange and mixing of the shards' weights.

Algorithms 1 to 4 of Simianer, Riezler and Dyer, ACL 2012, differ in the weights that a shard starts from and in how the
results are mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.errors import DataError
from mpitune.exchange import mixing, selection
from mpitune.exchange.mixing import Mixing
from mpitune.exchange.reduction import Mix, reduce
from mpitune.exchange.sparse_rows import SparseVectors
from mpitune.learner.base import EvidenceLearner
from mpitune.learner.weights import SparseWeights, Weights
from mpitune.metrics.bleu import WIDTH
from mpitune.run_folder.checkpoint import ShardResult, read_shard, write_shard
from mpitune.run_folder.layout import checkpoint_path
from mpitune.runtime.memory import machine_memory
from mpitune.training import factory
from mpitune.training.epoch_statistics import SUMS, Change, EpochResult, ShardStatistics, StatisticsAccumulator
from mpitune.training.list_pass import AT_ONCE
from mpitune.training.scheduler import Advance, draw_shards, process_shards, reordered
from mpitune.training.session import TrainingRun
from mpitune.training.state import State

KEPT_FROM = 1.0
"""Seconds that learning a shard of given lists must take for its result to be kept during the epoch."""


def online_epoch(run: TrainingRun, state: State) -> EpochResult:
    """Learn all shards from the weights of ``state``, exchange the results and mix them. Collective.

    Raises StopRequested on every rank if one was asked to stop.
    """
    epoch = state.epoch + 1
    parallel, seed = run.job.parallel, run.job.run.seed
    if parallel.reshuffle and run.mixes_each_epoch:
        shards = draw_shards(run.corpus.size, parallel.shards, seed, epoch)
    else:
        shards = draw_shards(run.corpus.size, parallel.shards, seed, 0)
        if parallel.reshuffle:
            shards = reordered(shards, seed, epoch)
    run.gold.start_epoch(state.previous_1best)
    results = _learn_shards(run, state, shards)
    metrics, weights, norms = _mix(run, state, results)
    run.share_names(weights.ids)
    if run.gold.needs_previous_epoch:
        state.previous_1best = _best_of_all(run, shards, results)
    statistics = [ShardStatistics(result.shard, result.statistics, result.bleu, result.choices) for result in results]
    return EpochResult(weights, metrics, statistics, norms)


def learn_shard(
    run: TrainingRun,
    epoch: int,
    z: int,
    shard: np.ndarray,
    weights: Weights,
    advance: Advance,
) -> ShardResult:
    """Inner loop of algorithm 1: decode each sentence with the current weights, then update them from its list.

    ``epoch``: from 1; 0: the dense start. ``z``: the shard's number; ``shard``: int64, its sentence numbers;
    ``weights``: changed in place, with the learner's state. Raises StopRequested if a stop was requested.

    The result has the features with a weight or with learner state. Where the exchange mixes state (algorithms 3 and
    4), all shards begin with that of the features seen by any: those without a weight whose state did not change are
    left out.
    """
    sums, best = StatisticsAccumulator(run.decoder, run.metric), np.zeros((len(shard), WIDTH), dtype=np.int32)
    learner = run.online
    learner.start_shard(weights, passes=max(epoch - 1, 0))
    if (given := run.list_pass) is not None:
        for first in range(0, len(shard), AT_ONCE):
            run.check_stop(epoch)
            part = shard[first : first + AT_ONCE]
            found = given.learn(part, weights)
            if len(found.numbers) < len(part):
                raise _not_finite(run, epoch)
            best[first : first + len(part)] = found.hypotheses[:, 0]
            sums.add_lists(found)
            advance(float(found.numbers[:, SUMS.index("gold")].sum()), len(part))
    else:
        for n, each in enumerate(run.lists(shard, weights, epoch)):
            check_finite(run, epoch, each.kbest.score)
            random = np.random.default_rng([run.job.run.seed, epoch, each.number])
            change = Change(each.kbest, weights.value, changes_all=learner.learner.changes_all)
            counts = learner.update(each.kbest, each.gold, weights, random)
            best[n] = each.statistics[0, :WIDTH]
            sums.add(each, counts, change.norm(weights.value))
            advance(each.best)
    learner.end_shard(weights)
    check_finite(run, epoch, weights.value)
    learned = weights.sparse(learner.state, changed=epoch > 0 and run.mixes_each_epoch)
    counts_of_shard = sums.statistics(z, learned.value)
    return ShardResult(
        shard=z,
        weights=learned,
        statistics=counts_of_shard.sums,
        best=best,
        bleu=counts_of_shard.bleu,
        choices=counts_of_shard.choices,
    )


def check_finite(run: TrainingRun, epoch: int, numbers: np.ndarray) -> None:
    """Raise DataError unless all ``numbers`` (float64 [n], weights or scores of ``epoch``) are finite."""
    if not np.isfinite(numbers).all():
        raise _not_finite(run, epoch)


def _not_finite(run: TrainingRun, epoch: int) -> DataError:
    last = checkpoint_path(run.folder.checkpoints, epoch - 1)
    return DataError(
        f"{f'epoch {epoch}' if epoch else 'dense start'}: found NaN or infinite weights, expected numbers: "
        f"{run.job.learner.own.remedy()}; "
        + (f"the last sound checkpoint is {last}" if epoch > 1 else "there is no checkpoint yet")
    )


def _learn_shards(run: TrainingRun, state: State, shards: list[np.ndarray]) -> list[ShardResult]:
    """Results of the shards that this rank takes from the work queue."""
    epoch = state.epoch + 1

    def learn(z: int, advance: Advance) -> ShardResult:
        weights = run.first.load(_shard_start(run, state, z), run.online.state)
        result = learn_shard(run, epoch, z, shards[z], weights, advance)
        # Given lists are learned from again faster than a file is written; the next epoch may begin with its weights.
        if run.list_pass is None or not run.mixes_each_epoch or result.statistics["seconds"] > KEPT_FROM:
            keep_shard(run, epoch, result)
        return result

    # Of shards that are drawn anew, nobody knows yet how long they take.
    drawn_anew = run.job.parallel.reshuffle and run.mixes_each_epoch
    seconds = state.history[-1]["shard_seconds"] if state.history and not drawn_anew else ()
    what = f"epoch {epoch} of {run.job.learner.epochs}"
    return process_shards(run, what, shards, partial(kept_shard, run, epoch), learn, seconds)


def kept_shard(run: TrainingRun, epoch: int, z: int) -> ShardResult | None:
    """The result of shard ``z`` that `keep_shard` has written, if there is one."""
    result = read_shard(run.folder.checkpoints, epoch, run.identity_digest, z)
    if result is None:
        return None
    run.features.slots(result.names)
    # The feature table has them now, and takes less space.
    return replace(result, names=[])


def keep_shard(run: TrainingRun, epoch: int, result: ShardResult) -> None:
    """Write the result of a shard, with the names of the features that were discovered while decoding."""
    named = replace(result, names=run.first.discovered(result.weights.ids))
    write_shard(run.folder.checkpoints, epoch, run.identity_digest, named)


def _shard_start(run: TrainingRun, state: State, z: int) -> SparseWeights:
    """Weights and learner state that shard ``z`` starts from.

    They are the shared ones (algorithms 3 and 4), or those at the shard's end in the epoch before (1 and 2).
    """
    if run.mixes_each_epoch or state.epoch == 0:
        return state.shared_weights
    kept = kept_shard(run, state.epoch, z)
    if kept is None:
        found, expected = f"no valid result of shard {z} beside it", "the weights that the shard continues from"
        raise DataError.at(checkpoint_path(run.folder.checkpoints, state.epoch), None, found=found, expected=expected)
    return kept.weights


def _mix(
    run: TrainingRun, state: State, results: list[ShardResult]
) -> tuple[dict[str, Any], SparseWeights, SparseWeights]:
    """Metrics, mixed weights with the learner's state, and column norms (on rank 0) of the epoch.

    Mixed weights are the mean over shards (algorithm 3), the mean in selected columns (4), or the mean over shards and
    epochs (1 and 2), which rank 0 keeps.
    """
    job, select = run.job, run.job.select
    how = _mixing(run)
    mix: Mix = partial(mixing.mean, mixing=how)
    if job.learner.algorithm == "itersel":
        mix = partial(selection.select, norm=select.norm, k=select.k, threshold=select.lambda_, mixing=how)
    vectors = _stacked(state, results, len(run.online.state))
    mixed = reduce(run.comm, vectors, mix, exchange=job.parallel.exchange, memory=machine_memory())
    if run.mixes_each_epoch:
        weights = _merged(run, state, mixed.weights)
    else:
        if run.comm.root:
            state.mean.add(mixed.weights)
        mean = state.mean.mean if run.comm.root else SparseWeights()
        index, value = run.comm.bcast_sparse(mean.ids, mean.value)
        weights = SparseWeights(index, value)
    run.comm.on_root(check_finite, run, state.epoch + 1, weights.value)
    metrics = {
        "active_features": mixed.active,
        "lambda": mixed.threshold,
        "selected_features": int(np.count_nonzero(mixed.norm)) if job.learner.algorithm == "itersel" else mixed.active,
        "column_norms": mixed.profile,
    }
    norms = SparseWeights(mixed.index[: len(mixed.norm)], mixed.norm)
    return metrics, weights, norms


def _mixing(run: TrainingRun) -> Mixing:
    """``parallel.mixing``: the same combination of shards for all bins of a smooth curve, or the mean would not be."""
    mean: Mixing = mixing.uniform_mean
    if run.job.parallel.mixing == "active":
        smoothness = factory.smoothness(run.job, run.store.scoring)
        mean = partial(mixing.active_mean, evenly=None if smoothness is None else smoothness.features)
    if run.mixes_each_epoch and isinstance(run.online.learner, EvidenceLearner):
        return partial(mixing.summed_evidence, mixing=mean, dense=run.first.dense_ids)
    return mean


def _best_of_all(run: TrainingRun, shards: list[np.ndarray], results: Sequence[ShardResult]) -> np.ndarray:
    """int32 [sentences, 11]: statistics of the epoch's 1-best translations, by sentence."""
    best = np.zeros((run.corpus.size, WIDTH), dtype=np.int32)
    for result in results:
        best[shards[result.shard]] = result.best
    return run.comm.sum(best)


def _stacked(state: State, results: list[ShardResult], width: int) -> SparseVectors:
    """Move the vectors of ``results`` into sparse rows, without a second copy: they are the largest data of an epoch.

    ``width``: number of the learner's state arrays; the epoch's additions to them are part of the rows.
    """
    ptr = row_ends([len(result.weights.ids) for result in results])
    index, value = np.empty(ptr[-1], dtype=np.uint64), np.empty(ptr[-1])
    added = tuple(np.empty(ptr[-1]) for _ in range(width))
    for row, (result, first, last) in enumerate(zip(results, ptr[:-1], ptr[1:], strict=True)):
        index[first:last], value[first:last] = result.weights.ids, result.weights.value
        before = _before(state, result.weights.ids, width)
        for array, now, then in zip(added, result.weights.state, before.state, strict=True):
            array[first:last] = now - then
        results[row] = replace(result, weights=SparseWeights())
    return SparseVectors(np.array([result.shard for result in results], dtype=np.int64), ptr, index, value, added)


def _merged(run: TrainingRun, state: State, mixed: SparseWeights) -> SparseWeights:
    """The ``mixed`` weights, with the learner's state and what the epoch has added to it.

    Features that no shard has returned keep their state: they have no weight (`learn_shard`). Weights that follow from
    the state do so from that of all shards together.
    """
    learner = run.online.learner
    if not learner.state:
        return mixed
    ids = np.union1d(mixed.ids, state.shared_weights.ids)
    before, mixed = _before(state, ids, len(learner.state)), mixed.at(ids)
    kept = tuple(array + more for array, more in zip(before.state, mixed.state, strict=True))
    merged = mixed._replace(state=kept)
    if isinstance(learner, EvidenceLearner):
        # Algorithm 3 selects nothing: gradients of two shards that cancel may be evidence with those of other epochs.
        follows = ~np.isin(ids, run.first.dense_ids)
        if run.job.learner.algorithm == "itersel":
            follows &= mixed.value != 0.0
        value = np.where(follows, learner.merge(before, merged, state.epoch + 1), mixed.value)
        merged = merged._replace(value=value)
    return merged


def _before(state: State, ids: np.ndarray, width: int) -> SparseWeights:
    """Weights and state of the features ``ids`` that the epoch began with (algorithms 1 and 2: training)."""
    before = state.shared_weights.at(ids)
    return before if before.state else before._replace(state=(np.zeros(len(ids)),) * width)
