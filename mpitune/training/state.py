"""The state of a run: what changes from epoch to epoch, and how it gets to disk and back."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.config.effective_keys import describe_changes, effective_keys
from mpitune.config.spec import Job
from mpitune.corpus.weights import read_weights
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.exchange.mixing import RunningMean
from mpitune.files import is_file, matching
from mpitune.learner.weights import NamedWeights, SparseWeights
from mpitune.metrics.bleu import WIDTH
from mpitune.run_folder.checkpoint import Checkpoint, latest_valid_checkpoint, read_checkpoint, write_checkpoint
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.layout import checkpoint_path as path_of
from mpitune.run_folder.run_state import chosen_epoch, dense_start_is_best, devtest_scores
from mpitune.schema import values
from mpitune.training.epoch_statistics import NOT_SCORED, Scores
from mpitune.training.session import TrainingRun

LOG = logging.getLogger(__name__)


@dataclass
class State:
    """The state that changes from epoch to epoch: a resumed run needs no more to give the same result.

    Exception: in algorithms 1 and 2 each shard continues from its own weights, which stay in the file of the shard's
    result.
    """

    shared_weights: SparseWeights
    """Weights and learner's state that every shard starts the next epoch from (algorithms 3 and 4)."""
    epoch: int = 0
    mean: RunningMean = field(default_factory=RunningMean)
    """The mean over the epochs (algorithms 1 and 2); rank 0 keeps it."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """The metrics of the epochs so far."""
    before: float | None = None
    """Devtest BLEU before training, up to the first epoch, whose metrics keep it."""
    dense_start: Scores = NOT_SCORED
    """Devtest scores of the dense start's weights, if the epochs learn sparse features on top of them."""
    previous_1best: np.ndarray = field(default_factory=lambda: np.zeros((0, WIDTH), dtype=np.int32))
    """int32 [sentences, 11]: statistics of the latest epoch's 1-best translations, for gold scores that need them."""


def check_keys(job: Job, folder: RunFolder, resume: str) -> None:
    """Raise UsageError if ``job`` continues a run with other keys, before its store is made anew for the changed job.

    `begin` compares the content of the files too, and reports damaged checkpoints.
    """
    files = matching(folder.checkpoints, "epoch-*.h5")
    newest = max(files, key=lambda path: (len(path.name), path.name), default=None)
    if resume == "never" or newest is None:
        return
    with suppress(DataError):
        checkpoint = read_checkpoint(newest)
        now = json.loads(json.dumps(effective_keys(job)))
        keys = {key for key, kind, _ in values(job) if kind is not Path} | now.keys()
        known = {key: value for key, value in checkpoint.job.items() if key in keys}
        _refuse_changes(folder, describe_changes(known, now))


def begin(run: TrainingRun, resume: str) -> State:
    """The state to continue from: that of the newest valid checkpoint, or the initial state.

    ``resume``: ``auto``, ``never`` or ``must``.

    Raises UsageError where the checkpoints are of another job, or where there must be one and is none; DataError where
    there are checkpoints and none is sound.
    """
    folder = run.folder.checkpoints
    epoch = run.comm.on_root(_epoch_to_resume, run, resume)
    if epoch == 0:
        return State(shared_weights=run.first.sparse(), mean=RunningMean(rising=run.averages_sentences))
    checkpoint = read_checkpoint(path_of(folder, epoch))
    run.features.slots(checkpoint.dynamic_names)
    published = SparseWeights(checkpoint.weights.ids, checkpoint.weights.value)
    if run.learns == "sparse":
        run.first.freeze_dense(published)
    elif run.learns == "dense":
        run.first.freeze_sparse(published)
    LOG.info("going on after epoch %d", epoch)
    return State(
        shared_weights=checkpoint.start,
        epoch=epoch,
        mean=RunningMean(epoch, checkpoint.total, rising=run.averages_sentences),
        history=list(checkpoint.metrics["epochs"]),
        previous_1best=checkpoint.best,
    )


def _epoch_to_resume(run: TrainingRun, resume: str) -> int:
    folder = run.folder.checkpoints
    if resume == "never":
        run.folder.clear()
        return 0
    checkpoint, unsound = latest_valid_checkpoint(folder)
    for error in unsound:
        LOG.warning("%s; left out", error)
    if checkpoint is None:
        if unsound:
            raise DataError(f"{folder}: found no sound checkpoint, expected one; to start over: --resume never")
        if resume == "must":
            raise UsageError(f"{folder}: found no checkpoint, but --resume must asks for one")
        return 0
    _refuse_changes(run.folder, describe_changes(checkpoint.job, json.loads(json.dumps(run.identity))))
    return checkpoint.epoch


def _refuse_changes(folder: RunFolder, changes: Sequence[str]) -> None:
    if changes:
        instead = "set another run.dir for another run; --resume never starts this one over"
        raise UsageError(
            f"{folder.path}: the job has changed since its last checkpoint: {', '.join(changes)}; {instead}"
        )


def restore_result(run: TrainingRun, state: State) -> None:
    """`write_result` when a run is opened: an interrupted one may lack its result, and files may be damaged since.

    The weights are those in the checkpoint of the best epoch, if it is there and sound.
    """
    best = _best_weights(run, state)
    if state.history and best != run.folder.dense_start_weights:
        with suppress(DataError):
            checkpoint = read_checkpoint(path_of(run.folder.checkpoints, chosen_epoch(devtest_scores(state.history))))
            run.folder.write_weights(best, checkpoint.weights.named)
    try:
        if is_file(best):
            read_weights(best)
        write_result(run, state)
    except DataError as error:
        LOG.warning("%s: %s stays as it is", error, run.folder.result)


def write_result(run: TrainingRun, state: State) -> None:
    """Write the result so far on rank 0: the weights of the best epoch, or of the dense start if that is better; and
    the metrics of all epochs.
    """
    if state.history:
        run.folder.write_metrics(state.history)
    run.folder.set_result(_best_weights(run, state))


def _best_weights(run: TrainingRun, state: State) -> Path:
    """The file of the weights that are the result so far."""
    if dense_start_is_best(state.history):
        return run.folder.dense_start_weights
    return run.folder.epoch_weights(chosen_epoch(devtest_scores(state.history)))


def check_result(run: TrainingRun, state: State) -> None:
    """Raise MachineError if the result, read back from disk on rank 0, lacks a weight that the run holds, or differs.

    It holds those of the best epoch in that epoch's checkpoint, and those of the dense start as what the epochs keep.
    """
    held: dict[str, float] = {}
    if dense_start_is_best(state.history):
        dense = run.first.value[: run.first.first_sparse]
        held = {run.features.name(slot): float(dense[slot]) for slot in np.flatnonzero(dense).tolist()}
    else:
        with suppress(DataError):  # damaged since: nothing is left to compare with
            checkpoint = read_checkpoint(path_of(run.folder.checkpoints, chosen_epoch(devtest_scores(state.history))))
            held = dict(checkpoint.weights.named)
    try:
        found = read_weights(run.folder.result)
    except DataError as error:
        raise MachineError(f"{error}, as this run has written") from None
    if wrong := next((name for name, value in held.items() if found.get(name) != value), None):
        what = f"{run.folder.result}: found {found.get(wrong, 'no weight')} of {wrong!r}"
        raise MachineError(f"{what} when it was read back, expected {held[wrong]}, as this run has written")


def write_epoch(run: TrainingRun, state: State, model: NamedWeights) -> None:
    """Write the files of the latest epoch on rank 0: weights, metrics, and last the checkpoint."""
    run.folder.write_weights(run.folder.epoch_weights(state.epoch), model.named)
    write_result(run, state)
    checkpoint = Checkpoint(
        epoch=state.epoch,
        seed=run.job.run.seed,
        job=run.identity,
        metrics={"epochs": state.history},
        weights=model,
        start=state.shared_weights,
        shards=0 if run.mixes_each_epoch else run.job.parallel.shards,
        total=state.mean.total,
        dynamic_names=run.first.discovered(state.shared_weights.ids, state.mean.total.ids),
        best=state.previous_1best,
        scoring=run.store.scoring.as_json() if run.store.scoring else None,
    )
    write_checkpoint(run.folder.checkpoints, checkpoint)
