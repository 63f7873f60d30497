"""Training: algorithms 1 to 4 of Simianer, Riezler and Dyer, ACL 2012 (SGD, MixSGD, IterMixSGD, IterSelSGD).

Each shard is learned separately; after each epoch the shards' weights are exchanged and mixed. Results are keyed by
(epoch, shard) and reduced in shard order, so they do not depend on the assignment of shards to ranks.
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
from mpitune.exchange.sparse_rows import SparseVectors, look_up
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.metrics.bleu import WIDTH
from mpitune.run_folder.best_epoch import chosen_epoch, devtest_bleus, early_end_reason
from mpitune.run_folder.checkpoint import ShardResult, Vector, checkpoint_path, digest, read_shard, write_shard
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import largest_by_template
from mpitune.run_folder.run_state import write_error, write_state
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
"""Number of features of each template whose column norm is in the metrics."""


def train(job: Job, comm: Comm, *, resume: str = "auto", quiet: bool = False) -> None:
    """Run the job to its last epoch, or until ``learner.patience`` ends it.

    ``resume``: ``auto`` (from the newest checkpoint, if any), ``never`` or ``must``. Raises UsageError, DataError and
    MachineError for errors that the user can correct, StopRequested after a signal.
    """
    comm.on_root(load.require_data, job)
    folder = RunFolder(job.run.dir)
    lock = RunLock(folder.path)
    comm.on_root(lock.acquire)
    try:
        start_logging(folder.path, rank=comm.rank, size=comm.size, quiet=quiet)
        LOG.info("%s; ranks: %d", ", ".join(f"{name} {number}" for name, number in versions().items()), comm.size)
        comm.on_root(write_state, folder, "running", job.learner.epochs)
        with StopFlag() as stop:
            run = open_run(job, comm, stop, quiet)
            state = begin(run, resume)
            comm.on_root(write_state, folder, "running", job.learner.epochs, state.epoch)
            comm.on_root(folder.write_config, job.to_toml())
            scoring = run.store.scoring
            comm.on_root(folder.write_scoring, scoring.as_json() if scoring else None)
            comm.on_root(folder.make_checkpoints)
            # Earlier versions chose the epoch otherwise for some algorithms.
            comm.on_root(folder.set_result, chosen_epoch(devtest_bleus(state.history)))
            if run.store.devtest is None:
                LOG.info("no [data.devtest]: the result will be the weights of the last epoch, not of the best one")
            if state.epoch == 0:
                state.before = watch_start(run, state.shared_weights).bleu
                if state.before is not None:
                    LOG.info("before training: devtest BLEU %.2f", state.before)
                dense_start(run, state)
            while early_stopping.goes_on(job, state.history):
                _learn_epoch(run, state, lock)
                comm.on_root(write_state, folder, "running", job.learner.epochs, state.epoch)
            LOG.info("done: %s holds the weights of %s", folder.result, early_stopping.ending(job, state.history))
            reason = early_end_reason(devtest_bleus(state.history), job.learner.epochs, job.learner.patience)
            comm.on_root(write_state, folder, "done", job.learner.epochs, state.epoch, reason)
    except Exception as error:
        # An error of one rank ends all others: that rank records it.
        if comm.root or not getattr(error, "on_all_ranks", False):
            write_error(folder, job.learner.epochs, error, lock.check)
        raise
    finally:
        lock.release()


def _learn_epoch(run: TrainingRun, state: State, lock: RunLock) -> None:
    """One pass over all shards, the exchange, and the files of the epoch."""
    epoch, began, waited = state.epoch + 1, time.perf_counter(), run.comm.waited
    run.comm.waits.clear()
    if isinstance(run.learner, BatchLearner):
        result = _learn_batch(run, run.learner, state)
    else:
        result = _learn_online(run, run.learner, state)
    weights = result.weights
    if run.mixes_each_epoch:
        state.shared_weights = weights
    state.epoch = epoch
    watched = watch_epoch(run, epoch, weights)
    parts = run.comm.gather(result.shards)
    ended = time.perf_counter()
    spent, wait = ended - began, run.comm.waited - waited
    ranks = run.comm.gather((spent - wait, wait, timeline(began, ended, run.comm.waits), peak_memory()))

    def write() -> dict[str, Any]:
        model = run.model(weights)
        busy, waiting, timelines, memory = zip(*(ranks or []), strict=True)
        shards = sorted((shard for part in parts or [] for shard in part), key=attrgetter("shard"))
        summed = summary(shards)
        check_failed(summed["failed_sentences"], summed["sentences"])
        metrics = {
            "epoch": epoch,
            "seconds": spent,
            **summed,
            "devtest_bleu": watched.bleu,
            "devtest_length_ratio": watched.length_ratio,
            **({"devtest_bleu_before": state.before} if epoch == 1 else {}),
            **result.metrics,
            "weight_norm": norm(weights[1]),
            "largest_norms": largest_by_template(model.names, run.by_slot(result.norms)[model.slots], LARGEST),
            "busy_seconds": busy,
            "wait_seconds": waiting,
            "timeline": timelines,
            "shard_seconds": [shard.sums["seconds"] for shard in shards],
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
    run.gold.start_epoch(state.previous_1best)
    results = _learn_shards(run, learner, state, shards)
    kept, weights, norms = _mix(run, learner, state, results)
    _register(run, results, weights)
    if run.gold.needs_previous_epoch:
        state.previous_1best = _best_of_all(run, shards, results)
    statistics = [ShardStatistics(result.shard, result.statistics, result.bleu) for result in results]
    return EpochResult(weights, kept, statistics, norms)


def _learn_batch(run: TrainingRun, learner: BatchLearner, state: State) -> EpochResult:
    # Lists are kept by shard, so each sentence must stay in its shard.
    return tune_epoch(run, learner, state, draw_shards(run.corpus.size, run.job.parallel.shards, run.job.run.seed, 0))


def _learn_shards(
    run: TrainingRun, learner: OnlineLearner, state: State, shards: list[np.ndarray]
) -> list[ShardResult]:
    """Results of the shards that this rank takes from the work queue."""
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
    """Weights and learner state that shard ``z`` starts from.

    They are the shared ones (algorithms 3 and 4), or those at the shard's end in the epoch before (1 and 2).
    """
    if run.mixes_each_epoch or state.epoch == 0:
        return state.shared_weights, state.learner
    kept = read_shard(run.folder.checkpoints, state.epoch, digest(run.identity), z)
    if kept is None:
        found, expected = f"no valid result of shard {z} beside it", "the weights that the shard continues from"
        raise DataError.at(checkpoint_path(run.folder.checkpoints, state.epoch), None, found=found, expected=expected)
    return (kept.index, kept.value), kept.learner


def _mix(
    run: TrainingRun, learner: OnlineLearner, state: State, results: list[ShardResult]
) -> tuple[dict[str, Any], Vector, Vector]:
    """Metrics, mixed weights, and column norms (on rank 0) of the epoch.

    Mixed weights are the mean over shards (algorithm 3), the mean in selected columns (4), or the mean over shards and
    epochs (1 and 2), which rank 0 keeps.
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


def _register(run: TrainingRun, results: Sequence[ShardResult], weights: Vector) -> None:
    """Register the discovered features that have ``weights`` on all ranks."""
    names = [name for result in results for name in result.names]
    ids = np.array([feature_id(name) for name in names], dtype=np.uint64)
    # Ids of weights ascend.
    first, end = (np.searchsorted(weights[0], ids, side=side) for side in ("left", "right"))
    run.register_features(run.comm.union(names[i] for i in np.flatnonzero(first < end)))


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
    """Learner state of the features ``index`` at the start of the epoch (algorithms 1 and 2: of training)."""
    if not state.learner:
        return [np.zeros(len(index))] * width
    return [look_up(index, state.shared_weights[0], array) for array in state.learner]
