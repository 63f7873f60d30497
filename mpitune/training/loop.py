"""Training: algorithms 1 to 4 of Simianer, Riezler and Dyer, ACL 2012 (SGD, MixSGD, IterMixSGD, IterSelSGD).

Each shard is learned separately; after each epoch the shards' weights are exchanged and mixed. Results are keyed by
(epoch, shard) and reduced in shard order, so they do not depend on the assignment of shards to ranks.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.config import load
from mpitune.config.spec import Job
from mpitune.decoder.base import check_failed
from mpitune.exchange.comm import Comm
from mpitune.exchange.sparse_rows import look_up
from mpitune.learner.base import BatchLearner
from mpitune.run_folder.best_epoch import devtest_scores, early_end_reason
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import largest_by_template
from mpitune.run_folder.run_state import RunState, ended_state, write_error, write_state
from mpitune.run_folder.versions import versions
from mpitune.runtime.log import start_logging
from mpitune.runtime.run_lock import RunLock
from mpitune.runtime.signals import StopFlag
from mpitune.training import early_stopping
from mpitune.training.batch_epoch import batch_epoch
from mpitune.training.dense_start import dense_start, keep_sparse
from mpitune.training.devtest import watch_epoch, watch_start
from mpitune.training.epoch_clock import EpochClock, RankUsage
from mpitune.training.epoch_statistics import EpochResult, Scores, ShardStatistics, log_epoch, norm, summary
from mpitune.training.metric_spreads import fit_metric
from mpitune.training.online_epoch import online_epoch
from mpitune.training.sanity_checks import warnings_of_epoch
from mpitune.training.scheduler import check_stop
from mpitune.training.session import NamedWeights, TrainingRun, open_run
from mpitune.training.state import State, begin, write_epoch, write_result

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
    earlier: RunState | None = None
    # Not to the log of an earlier run: `--seeds` makes several.
    start_logging(None, rank=comm.rank, size=comm.size, quiet=quiet)
    lock.inode = comm.on_root(lock.acquire)
    try:
        start_logging(folder.log, rank=comm.rank, size=comm.size, quiet=quiet)
        if lock.fault:
            LOG.warning(lock.fault)
        LOG.info("%s; ranks: %d", ", ".join(f"{name} {number}" for name, number in versions().items()), comm.size)
        earlier = comm.on_root(ended_state, folder)
        comm.on_root(write_state, folder, "running", job.learner.epochs)
        with StopFlag() as stop:
            run = open_run(job, comm, stop, quiet)
            fit_metric(run)
            state = begin(run, resume)
            earlier = None
            comm.on_root(write_state, folder, "running", job.learner.epochs, state.epoch)
            comm.on_root(folder.write_config, job.to_toml())
            scoring = run.store.scoring
            comm.on_root(folder.write_scoring, scoring.as_json() if scoring else None)
            comm.on_root(folder.make_checkpoints)
            # Killed in the middle of writing an epoch, a run has its weights and metrics, but not its checkpoint.
            comm.on_root(write_result, run, state)
            if run.store.devtest is None:
                LOG.info("no [data.devtest]: the result will be the weights of the last epoch, not of the best one")
            if state.epoch == 0:
                state.before = watch_start(run, state.shared_weights).bleu
                if state.before is not None:
                    LOG.info("before training: devtest BLEU %.2f", state.before)
                dense_start(run, state)
                keep_sparse(run, state)
            while early_stopping.goes_on(job, state.history):
                # A signal may reach one rank only: the others do its shards, and all agree here.
                check_stop(run, f"epoch {state.epoch + 1}", bool(stop))
                _learn_epoch(run, state, lock)
                comm.on_root(write_state, folder, "running", job.learner.epochs, state.epoch)
            LOG.info("done: %s holds the weights of %s", folder.result, early_stopping.ending(job, state.history))
            _log_next_steps(folder, job)
            reason = early_end_reason(devtest_scores(state.history), job.learner.epochs, job.learner.patience)
            comm.on_root(write_state, folder, "done", job.learner.epochs, state.epoch, reason)
    except Exception as error:
        # An error of one rank ends all others: that rank records it.
        if comm.root or not getattr(error, "on_all_ranks", False):
            write_error(folder, job.learner.epochs, error, lock.check, earlier)
        raise
    finally:
        lock.release()


def _log_next_steps(folder: RunFolder, job: Job) -> None:
    LOG.info("next, to see curves, translations and features: mpitune report %s", _argument(folder.path))
    if job.decoder.backend == "lists":
        LOG.info("next, to rerank: mpitune rerank %s --input LISTS", _argument(folder.config))
    else:
        LOG.info("next, to translate: mpitune decode %s --input TEXT", _argument(folder.config))


def _argument(path: Path) -> str:
    """``path`` as an argument of a command: relative to the working folder where that is shorter."""
    return shlex.quote(min(str(path), os.path.relpath(path), key=len))


def _learn_epoch(run: TrainingRun, state: State, lock: RunLock) -> None:
    """One pass over all shards, the exchange, and the files of the epoch."""
    clock = EpochClock(run.comm)
    if isinstance(run.learner, BatchLearner):
        result = batch_epoch(run, run.learner, state)
    else:
        result = online_epoch(run, run.learner, state)
    if run.mixes_each_epoch:
        state.shared_weights = result.weights
    state.epoch += 1
    scores = watch_epoch(run, state.epoch, result.weights)
    shards, usage = run.comm.gather(result.shards), run.comm.gather(clock.usage())
    model = run.model(result.weights) if run.comm.root else None

    def metrics() -> dict[str, Any]:
        assert model is not None and shards is not None and usage is not None  # rank 0 has them
        found = _metrics(run, state, result, scores, model, list(chain(*shards)), usage)
        found["warnings"] = warnings_of_epoch(run, [*state.history, found], model)
        for warning in found["warnings"]:
            LOG.warning("epoch %d: %s", state.epoch, warning)
        return found

    def write() -> None:
        assert model is not None  # rank 0 has it
        lock.check()
        write_epoch(run, state, model)

    state.history.append(run.comm.on_root(metrics))
    run.comm.on_root(write)
    log_epoch(state.history[-1])


def _before(state: State) -> dict[str, Any]:
    """Scores of the devtest set before the first epoch, which that epoch's metrics keep."""
    dense = state.dense_start
    return {
        "devtest_bleu_before": state.before,
        "devtest_bleu_dense": dense.bleu,
        "devtest_metric_dense": dense.metric,
    }


def _cancelled(result: EpochResult) -> int:
    """Number of selected features whose weights cancel out over the shards: they have none in the result."""
    index, norm = result.norms
    return int(np.count_nonzero(look_up(index[norm > 0.0], *result.weights) == 0.0))


def _metrics(
    run: TrainingRun,
    state: State,
    result: EpochResult,
    scores: Scores,
    model: NamedWeights,
    shards: list[ShardStatistics],
    usage: Sequence[RankUsage],
) -> dict[str, Any]:
    """The epoch's line in metrics.jsonl; ``shards``: of all ranks; ``usage``: by rank."""
    shards.sort(key=attrgetter("shard"))
    summed = summary(shards, run.metric)
    check_failed(summed["failed_sentences"], summed["sentences"])
    return {
        "epoch": state.epoch,
        "seconds": usage[0].busy + usage[0].waited,
        **summed,
        "devtest_bleu": scores.bleu,
        "devtest_length_ratio": scores.length_ratio,
        "devtest_metric": scores.metric,
        **(_before(state) if state.epoch == 1 else {}),
        **result.metrics,
        "cancelled_features": _cancelled(result),
        "weight_norm": norm(result.weights[1]),
        "largest_norms": largest_by_template(model.names, run.by_slot(result.norms)[model.slots], LARGEST),
        "busy_seconds": [rank.busy for rank in usage],
        "wait_seconds": [rank.waited for rank in usage],
        "timeline": [rank.timeline for rank in usage],
        "shard_seconds": [shard.sums["seconds"] for shard in shards],
        "peak_memory_bytes": [rank.peak_memory for rank in usage],
    }
