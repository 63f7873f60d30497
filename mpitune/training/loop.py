"""Training: algorithms 1 to 4 of Simianer, Riezler and Dyer, ACL 2012 (SGD, MixSGD, IterMixSGD, IterSelSGD).

Each shard is learned separately; after each epoch the shards' weights are exchanged and mixed. Results are keyed by
(epoch, shard) and reduced in shard order, so they do not depend on the assignment of shards to ranks.
"""

from __future__ import annotations

import logging
import os
import shlex
from itertools import chain
from pathlib import Path
from typing import Any

from mpitune.config.checks import require_data
from mpitune.config.spec import Job
from mpitune.early_signals import AGAIN
from mpitune.errors import MpituneError, as_told
from mpitune.exchange.comm import Comm
from mpitune.learner.base import BatchLearner
from mpitune.ownership import FolderLock
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.run_state import RunState, devtest_scores, ended_state, versions, write_error, write_state
from mpitune.runtime.log import log_to_file, logged_to
from mpitune.runtime.signals import StopFlag, stop_flag
from mpitune.training import early_stopping
from mpitune.training.batch_epoch import batch_epoch
from mpitune.training.dense_start import dense_start, keep_sparse
from mpitune.training.devtest import watch_epoch, watch_start
from mpitune.training.epoch_clock import EpochClock
from mpitune.training.epoch_metrics import metrics_of_epoch
from mpitune.training.epoch_statistics import log_epoch
from mpitune.training.metric_spreads import fit_metric
from mpitune.training.online_epoch import online_epoch
from mpitune.training.open_run import open_run
from mpitune.training.sanity_checks import warnings_of_epoch
from mpitune.training.scheduler import check_stop
from mpitune.training.session import TrainingRun
from mpitune.training.state import State, begin, check_keys, check_result, restore_result, write_epoch

LOG = logging.getLogger(__name__)

CONTINUES = {"auto": AGAIN, "must": AGAIN, "never": f"{AGAIN}, without --resume never,"}
"""The command that continues a stopped run, by the value of ``resume`` that it was begun with."""


def train(job: Job, comm: Comm, *, resume: str = "auto") -> None:
    """Run the job to its last epoch, or until ``learner.patience`` ends it.

    ``resume``: ``auto`` (from the newest checkpoint, if any), ``never`` or ``must``. Raises UsageError, DataError and
    MachineError for errors that the user can correct, StopRequested after a signal. The run goes on after any of these,
    also after a KeyboardInterrupt.
    """
    comm.on_root(require_data, job)
    folder = RunFolder(job.run.dir)
    lock = FolderLock(folder.path, "run")
    lock.inode = comm.on_root(lock.acquire, wait=False)
    try:
        with logged_to(folder.log, rank=comm.rank, size=comm.size):
            _run(job, comm, folder, lock, resume)
    finally:
        lock.release()


def _run(job: Job, comm: Comm, folder: RunFolder, lock: FolderLock, resume: str) -> None:
    """The run in its locked ``folder``, with a record of how it ends."""
    earlier: RunState | None = None
    try:
        if lock.fault:
            LOG.warning(lock.fault)
        LOG.info("%s; ranks: %d", ", ".join(f"{name} {number}" for name, number in versions().items()), comm.size)
        earlier = comm.on_root(ended_state, folder)
        comm.on_root(write_state, folder, "running", job.learner.epochs)
        with StopFlag(CONTINUES[resume]):
            comm.on_root(check_keys, job, folder, resume)
            run = open_run(job, comm)
            fit_metric(run)
            state = begin(run, resume)
            earlier = None
            comm.on_root(_write_settings, run, state)
            if run.store.devtest is None:
                LOG.info("no [data.devtest]: the result will be the weights of the last epoch, not of the best one")
            _learn(run, state, lock)
            scores = devtest_scores(state.history)
            reason = early_stopping.early_end_reason(scores, job.learner.epochs, job.learner.patience)
            comm.on_root(write_state, folder, "done", job.learner.epochs, state.epoch, reason)
    except (Exception, KeyboardInterrupt) as error:
        told = as_told(error)
        # An error of one rank ends all others: that rank records it.
        if comm.root or not getattr(told, "on_all_ranks", False):
            if isinstance(told, MpituneError):
                log_to_file(str(told))
            write_error(folder, job.learner.epochs, told, lock.check, earlier)
        if told is error:
            raise
        raise told from error


def _learn(run: TrainingRun, state: State, lock: FolderLock) -> None:
    """The epochs that are left, after the dense start if there was none yet, and a look at the result on disk."""
    if state.epoch == 0:
        _start(run, state)
    while early_stopping.goes_on(run.job, state.history):
        # A signal may reach one rank only: the others do its shards, and all agree here.
        check_stop(run, f"epoch {state.epoch + 1}", bool(stop_flag()))
        _learn_epoch(run, state, lock)
        run.comm.on_root(write_state, run.folder, "running", run.job.learner.epochs, state.epoch)
    run.comm.on_root(check_result, run, state)
    LOG.info("done: %s holds the weights of %s", run.folder.result, early_stopping.ending(run.job, state.history))
    _log_next_steps(run.folder, run.job)


def _start(run: TrainingRun, state: State) -> None:
    """Score the devtest set before training, learn the dense start, and freeze sparse features that are not learned."""
    state.before = watch_start(run, state.shared_weights).bleu
    if state.before is not None:
        LOG.info("before training: devtest BLEU %.2f", state.before)
    dense_start(run, state)
    keep_sparse(run, state)


def _learn_epoch(run: TrainingRun, state: State, lock: FolderLock) -> None:
    """One pass over all shards, the exchange, and the files of the epoch."""
    clock = EpochClock(run.comm)
    learn = batch_epoch if isinstance(run.learner, BatchLearner) else online_epoch
    result = learn(run, state)
    if run.mixes_each_epoch:
        state.shared_weights = result.weights
    state.epoch += 1
    scores = watch_epoch(run, state.epoch, result.weights)
    shards, usage = run.comm.gather(result.shards), run.comm.gather(clock.usage())
    model = run.first.publish(result.weights) if run.comm.root else None

    def metrics() -> dict[str, Any]:
        assert model is not None and shards is not None and usage is not None  # rank 0 has them
        found = metrics_of_epoch(run, state, result, scores, model, list(chain(*shards)), usage)
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


def _write_settings(run: TrainingRun, state: State) -> None:
    """Write the files of the run that no epoch changes, and again what an epoch has written."""
    folder, scoring = run.folder, run.store.scoring
    write_state(folder, "running", run.job.learner.epochs, state.epoch)
    folder.write_config(run.job.to_toml())
    folder.write_scoring(scoring.as_json() if scoring else None)
    folder.make_checkpoints()
    # Killed in the middle of writing an epoch, a run has its weights and metrics, but not its checkpoint.
    restore_result(run, state)


def _log_next_steps(folder: RunFolder, job: Job) -> None:
    LOG.info("next, to see curves, translations and features: mpitune report %s", _argument(folder.path))
    if job.decoder.backend == "lists":
        LOG.info("next, to rerank: mpitune rerank %s --input LISTS", _argument(folder.config))
    else:
        LOG.info("next, to translate: mpitune decode %s --input TEXT", _argument(folder.config))


def _argument(path: Path) -> str:
    """``path`` as an argument of a command: relative to the working folder where that is shorter."""
    return shlex.quote(min(str(path), os.path.relpath(path), key=len))
