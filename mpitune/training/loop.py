"""Training: algorithms 1 to 4 of SRD12 (SGD, MixSGD, IterMixSGD, IterSelSGD).

Every shard is learned on its own; after each epoch the shards' weights are exchanged and mixed. Which rank learned
which shard, and whether one rank or each mixes, leaves no trace: results are keyed by (epoch, shard) and reduced in
shard order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.config import load
from mpitune.config.spec import Job
from mpitune.corpus.vocabulary import feature_id
from mpitune.errors import DataError
from mpitune.exchange import mixing, selection
from mpitune.exchange.comm import Comm
from mpitune.exchange.reduction import Mix, reduce
from mpitune.exchange.sparse_rows import SparseVectors, values_of
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.metrics.bleu import WIDTH
from mpitune.run_folder.best_epoch import chosen_epoch, devtest_bleus
from mpitune.run_folder.checkpoint import ShardResult, Vector, checkpoint_path, digest, read_shard, write_shard
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import largest_of_each
from mpitune.run_folder.versions import versions
from mpitune.runtime.log import start_logging
from mpitune.runtime.memory import machine_memory, peak_memory
from mpitune.runtime.run_lock import RunLock
from mpitune.runtime.signals import StopFlag
from mpitune.training import early_stopping
from mpitune.training.batch_epoch import tune_epoch
from mpitune.training.dense_start import dense_start
from mpitune.training.devtest import watch_epoch, watch_start
from mpitune.training.epoch_statistics import EpochResult, ShardStatistics, log_epoch, norm, summary, timeline
from mpitune.training.parallel_map import check_failed
from mpitune.training.scheduler import draw_shards, process_shards, reordered
from mpitune.training.session import TrainingRun, open_run
from mpitune.training.shard_pass import check_finite, learn_shard
from mpitune.training.state import State, begin, write_epoch

LOG = logging.getLogger(__name__)

LARGEST = 15
"""Of how many features of each template metrics tell the column norm."""


def train(job: Job, comm: Comm, *, resume: str = "auto", quiet: bool = False) -> None:
    """Run the job to its last epoch, or as far as ``learner.patience`` goes.

    ``resume``: ``auto`` (from the newest checkpoint, if any), ``never`` or ``must``.
    Raises UsageError, DataError and MachineError for what the user has to mend, StopRequested after a signal.
    """
    comm.on_root(load.require_data, job)
    folder = RunFolder(job.run.dir)
    lock = RunLock(folder.path)
    comm.on_root(lock.acquire)
    try:
        start_logging(folder.path, rank=comm.rank, size=comm.size, quiet=quiet)
        LOG.info("%s; ranks: %d", ", ".join(f"{name} {number}" for name, number in versions().items()), comm.size)
        with StopFlag() as stop:
            run = open_run(job, comm, stop, quiet)
            state = begin(run, resume)
            comm.on_root(folder.write_config, job.to_toml())
            scoring = run.store.scoring
            comm.on_root(folder.write_scoring, scoring.as_json() if scoring else None)
            comm.on_root(folder.make_checkpoints)
            # Earlier versions chose otherwise for some algorithms.
            comm.on_root(folder.choose, chosen_epoch(devtest_bleus(state.history)))
            if run.store.devtest is None:
                LOG.info("no [data.devtest] to choose an epoch on: the weights of the last one will be the result")
            if state.epoch == 0:
                state.before = watch_start(run, state.start).bleu
                if state.before is not None:
                    LOG.info("before training: devtest BLEU %.2f", state.before)
                dense_start(run, state)
            while early_stopping.goes_on(job, state.history):
                _learn_epoch(run, state, lock)
            LOG.info("done: %s holds the weights of %s", folder.result, early_stopping.ending(job, state.history))
    finally:
        lock.release()


def _learn_epoch(run: TrainingRun, state: State, lock: RunLock) -> None:
    """One pass of every shard over its sentences, the exchange, and what is written down of it."""
    epoch, began, waited = state.epoch + 1, time.perf_counter(), run.comm.waited
    run.comm.waits.clear()
    if isinstance(run.learner, BatchLearner):
        learned = _learn_batch(run, run.learner, state)
    else:
        learned = _learn_online(run, run.learner, state)
    weights = learned.weights
    if run.mixes_each_epoch:
        state.start = weights
    state.epoch = epoch
    watched = watch_epoch(run, epoch, weights)
    parts = run.comm.gather(learned.shards)
    ended = time.perf_counter()
    spent, wait = ended - began, run.comm.waited - waited
    ranks = run.comm.gather((spent - wait, wait, timeline(began, ended, run.comm.waits), peak_memory()))

    def write() -> dict[str, Any]:
        model = run.model(weights)
        busy, waiting, timelines, memory = zip(*(ranks or []), strict=True)
        shards = sorted((told for part in parts or [] for told in part), key=attrgetter("shard"))
        summed = summary(shards)
        check_failed(summed["failed_sentences"], summed["sentences"])
        metrics = {
            "epoch": epoch,
            "seconds": spent,
            **summed,
            "devtest_bleu": watched.bleu,
            "devtest_length_ratio": watched.length_ratio,
            **({"devtest_bleu_before": state.before} if epoch == 1 else {}),
            **learned.metrics,
            "weight_norm": norm(weights[1]),
            "largest_norms": largest_of_each(model.names, run.by_slot(learned.norms)[model.slots], LARGEST),
            "busy_seconds": busy,
            "wait_seconds": waiting,
            "timeline": timelines,
            "shard_seconds": [told.sums["seconds"] for told in shards],
            "peak_memory_bytes": memory,
        }
        state.history.append(metrics)
        metrics["warnings"] = early_stopping.warnings(run, state.history, model)
        for warning in metrics["warnings"]:
            LOG.warning("epoch %d: %s", epoch, warning)
        lock.check()
        write_epoch(run, state, model)
        return metrics

    metrics = run.comm.on_root(write)
    state.history[epoch - 1 :] = [metrics]
    log_epoch(metrics)


def _learn_online(run: TrainingRun, learner: OnlineLearner, state: State) -> EpochResult:
    epoch = state.epoch + 1
    parallel, seed = run.job.parallel, run.job.run.seed
    if parallel.reshuffle and run.mixes_each_epoch:
        shards = draw_shards(run.corpus.size, parallel.shards, seed, epoch)
    else:
        shards = draw_shards(run.corpus.size, parallel.shards, seed, 0)
        if parallel.reshuffle:
            shards = reordered(shards, seed, epoch)
    run.gold.start_epoch(state.best)
    results = _learn_shards(run, learner, state, shards)
    kept, weights, norms = _mix(run, learner, state, results)
    _meet(run, results, weights)
    if run.gold.needs_previous_epoch:
        state.best = _best_of_all(run, shards, results)
    told = [ShardStatistics(result.shard, result.statistics, result.bleu) for result in results]
    return EpochResult(weights, kept, told, norms)


def _learn_batch(run: TrainingRun, learner: BatchLearner, state: State) -> EpochResult:
    # Lists are kept by shard, so that a sentence stays in its own.
    return tune_epoch(run, learner, state, draw_shards(run.corpus.size, run.job.parallel.shards, run.job.run.seed, 0))


def _learn_shards(
    run: TrainingRun, learner: OnlineLearner, state: State, shards: list[np.ndarray]
) -> list[ShardResult]:
    """What this rank learns of the shards that come to it."""
    epoch, job_digest = state.epoch + 1, digest(run.identity)

    def learn(z: int, advance: Callable[[float], None]) -> ShardResult | None:
        start, kept = _shard_start(run, state, z)
        by_slot = [run.by_slot((start[0], array)) for array in kept]
        result = learn_shard(run, learner, epoch, z, shards[z], run.dense(start), by_slot, advance)
        if result is not None:
            write_shard(run.folder.checkpoints, epoch, job_digest, result)
        return result

    what = f"epoch {epoch} of {run.job.learner.epochs}"
    return process_shards(
        run, state, what, shards, lambda z: read_shard(run.folder.checkpoints, epoch, job_digest, z), learn
    )


def _shard_start(run: TrainingRun, state: State, z: int) -> tuple[Vector, tuple[np.ndarray, ...]]:
    """The weights that shard ``z`` starts from, and what its learner keeps of their features.

    They are the common ones (algorithms 3 and 4), or those that it ended with (1 and 2).
    """
    if run.mixes_each_epoch or state.epoch == 0:
        return state.start, state.learner
    kept = read_shard(run.folder.checkpoints, state.epoch, digest(run.identity), z)
    if kept is None:
        found, expected = f"no sound result of shard {z} beside it", "what the shard goes on from"
        raise DataError.at(checkpoint_path(run.folder.checkpoints, state.epoch), None, found=found, expected=expected)
    return (kept.index, kept.value), kept.learner


def _mix(
    run: TrainingRun, learner: OnlineLearner, state: State, results: list[ShardResult]
) -> tuple[dict[str, Any], Vector, Vector]:
    """What metrics say of the epoch's weights, these weights out of all shards', and column norms (on rank 0).

    They are the mean over shards (algorithm 3), that of the selected columns (4), or the mean over shards and epochs
    (1 and 2), which rank 0 keeps.
    """
    job = run.job
    mix: Mix = partial(mixing.mean, mixing=job.parallel.mixing)
    if job.learner.algorithm == "itersel":
        select = job.select
        mix = partial(
            selection.select, norm=select.norm, k=select.k, threshold=select.lambda_, mixing=job.parallel.mixing
        )
    vectors = _stacked(state, results, learner.state_width)
    mixed = reduce(run.comm, vectors, mix, exchange=job.parallel.exchange, memory=machine_memory())
    weights: Vector = mixed.index, mixed.value
    if run.mixes_each_epoch:
        before = _kept_before(state, mixed.index, len(mixed.state))
        state.learner = tuple(array + added for array, added in zip(before, mixed.state, strict=True))
    else:
        if run.comm.root:
            state.mean.add(*weights)
        index, value = run.comm.bcast_sparse(state.mean.index, state.mean.value)
        weights = index, value
    run.comm.on_root(check_finite, run, state.epoch + 1, weights[1])
    kept = {
        "active_features": mixed.active,
        "lambda": mixed.threshold,
        "selected_features": len(weights[0]),
        "column_norms": mixed.profile,
    }
    return kept, weights, (mixed.index, mixed.norm) if len(mixed.norm) else EpochResult.norms


def _meet(run: TrainingRun, results: Sequence[ShardResult], weights: Vector) -> None:
    """All ranks get to know the features of ``weights`` that nobody knew before; other names stay where they are."""
    names = [name for result in results for name in result.names]
    ids = np.array([feature_id(name) for name in names], dtype=np.uint64)
    # The weights ascend in their ids.
    first, end = (np.searchsorted(weights[0], ids, side=side) for side in ("left", "right"))
    run.meet(run.comm.union(names[i] for i in np.flatnonzero(first < end)))


def _best_of_all(run: TrainingRun, shards: list[np.ndarray], results: Sequence[ShardResult]) -> np.ndarray:
    """int32 [sentences, 11]: statistics of all 1-best translations of the epoch, by sentence."""
    best = np.zeros((run.corpus.size, WIDTH), dtype=np.int32)
    for result in results:
        best[shards[result.shard]] = result.best
    return run.comm.sum(best)


def _stacked(state: State, results: list[ShardResult], width: int) -> SparseVectors:
    """The vectors of ``results``, which lose them: they are larger than all else of an epoch, and held once.

    ``width``: arrays that the learner keeps beside the weights; what the epoch has added to them goes along.
    """
    ptr = row_ends([len(result.index) for result in results])
    index, value = np.empty(ptr[-1], dtype=np.uint64), np.empty(ptr[-1])
    added = tuple(np.empty(ptr[-1]) for _ in range(width))
    for row, (result, first, last) in enumerate(zip(results, ptr[:-1], ptr[1:], strict=True)):
        index[first:last], value[first:last] = result.index, result.value
        before = _kept_before(state, result.index, width)
        for array, now, then in zip(added, result.learner, before, strict=True):
            array[first:last] = now - then
        results[row] = replace(result, index=np.zeros(0, np.uint64), value=np.zeros(0), learner=())
    return SparseVectors(np.array([result.shard for result in results], dtype=np.int64), ptr, index, value, added)


def _kept_before(state: State, index: np.ndarray, width: int) -> list[np.ndarray]:
    """What the learner kept of the features ``index`` as the epoch began; where shards do not talk, as all began."""
    if not state.learner:
        return [np.zeros(len(index))] * width
    return [values_of(index, state.start[0], array) for array in state.learner]
