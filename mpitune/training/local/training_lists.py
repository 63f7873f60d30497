"""Phase 1 of local training: the training data are decoded with the global weights, and their lists are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.config.spec import Job, LearnerKeys, ParallelKeys
from mpitune.errors import DataError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.learner.local.examples import TrainingLists
from mpitune.ownership import locked, remove
from mpitune.run_folder.checkpoint import digest
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.nbest_store import ShardLists, lists_made_from, open_lists, read_lists, write_lists
from mpitune.runtime.signals import StopFlag, stop_flag
from mpitune.training.batch_epoch import decode_shard
from mpitune.training.local.learning import TrainingData
from mpitune.training.open_run import InitialModel, open_run
from mpitune.training.scheduler import check_stop, process_shards
from mpitune.training.session import TrainingRun

BLOCK = 200
"""Sentences whose lists are kept in one file: a killed run loses at most one file per rank."""
_EPOCH = 0
"""Epoch number of lists that belong to no epoch, in `mpitune.run_folder.nbest_store`."""
_WHAT = "decoding the training data"
_NOT_OF_LISTS = ("run.seed", "learner.", "parallel.", "select.")
"""Prefixes of keys that lists under given weights do not depend on."""


def training_data(job: Job, comm: Comm, given: InitialModel) -> TrainingData:
    """The job's training data with their lists under the weights ``given``; missing lists are decoded.

    Method ``retrain`` needs no lists.

    Raises UsageError if existing lists are of another job or other weights, StopRequested after a signal.
    """
    # Of the learner's keys, lists depend on what is left out of language models alone: the default one will do.
    learner = LearnerKeys(frozen=job.learner.frozen, lm_leave_one_out=job.learner.lm_leave_one_out)
    parallel = ParallelKeys(shards=1)
    wanted, decoder = job.local, replace(job.decoder, sample="none")
    job = replace(job, learner=learner, parallel=parallel, decoder=decoder)
    folder = RunFolder(job.run.dir).local
    with ExitStack() as held:
        # Other processes wait for the lock until the lists are complete.
        comm.on_root(held.enter_context, locked(folder, "store"))
        with StopFlag():
            run = open_run(job, comm, given)
            made_from = _made_from(run, given.weights)
            comm.on_root(_check_same, folder, made_from)
            comm.on_root(remove, folder, "made-from.json", "epoch-*.lists/shard-*.h5")  # of earlier versions
            size = 0 if wanted.method == "retrain" else run.corpus.size
            shards = [np.arange(n, min(n + BLOCK, size)) for n in range(0, size, BLOCK)]
            names = _decode(run, folder, made_from, shards)
            # Of lists that other ranks decoded, or an earlier run, too.
            run.features.slots(names)
        pools = [open_lists(folder, _EPOCH, z) for z in range(len(shards))]
    ids, first = run.features.ids, run.first
    lists_of = partial(
        TrainingLists,
        index=ids[: len(first.value)],
        value=first.value,
        frozen=ids[np.flatnonzero(first.frozen)],
        hope=wanted.method == "mbuu" and wanted.oracle == "M-C",
    )
    return TrainingData(run, pools, lists_of, names, lists_of(pools))


def _made_from(run: TrainingRun, weights: Mapping[str, float]) -> dict[str, Any]:
    """Keys and digests that the lists depend on (JSON types)."""
    kept = {key: value for key, value in run.identity.items() if not key.startswith(_NOT_OF_LISTS)}
    return {**kept, "weights": digest(weights)}


def _check_same(folder: Path, made_from: Mapping[str, Any]) -> None:
    """Raise UsageError if the lists in ``folder`` are made from something else."""
    before = lists_made_from(folder) or made_from
    changed = sorted(key for key in made_from.keys() | before.keys() if made_from.get(key) != before.get(key))
    if changed:
        way = "remove the folder to have them made anew, or name another run.dir"
        raise UsageError(f"{folder}: found lists made with other {', '.join(changed)}: {way}")


def _check_finite(scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        raise DataError(f"{_WHAT}: found NaN or infinite scores, expected numbers: weights are too large")


def _decode(run: TrainingRun, folder: Path, made_from: Mapping[str, Any], shards: Sequence[np.ndarray]) -> list[str]:
    """Complete the lists in ``folder``; returns names of the features discovered while decoding."""

    def kept(z: int) -> ShardLists | None:
        return read_lists(folder, _EPOCH, made_from, z, forests=False)

    def make(z: int, advance: Callable[[float], None]) -> ShardLists:
        weights = run.first.copy()
        lists = decode_shard(run, _EPOCH, z, shards[z], weights, advance, _check_finite, forests=False)
        write_lists(folder, _EPOCH, made_from, lists)
        # Mapped from its file, where it takes no memory of ours.
        return replace(lists, pool=open_lists(folder, _EPOCH, z))

    done = process_shards(run, _WHAT, shards, kept, make)
    check_stop(run, _WHAT, bool(stop_flag()))
    return run.comm.union(name for lists in done for name in lists.names)
