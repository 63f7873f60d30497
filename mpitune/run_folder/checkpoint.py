"""Checkpoints: what an epoch has published and all that the next one needs, in one HDF5 file per epoch.

Beside them stand the results of shards: while an epoch runs those that are finished; where shards do not talk (sgd,
mix) those of the last two epochs are kept, for they are what each shard goes on from. Every file appears whole or not
at all (written aside, fsynced, renamed, the folder fsynced), and starts with a digest of the rest in HDF5's user block,
so that a damaged or cut file is known before the HDF5 library sees it; h5py and h5dump skip that block.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mpitune.array_files.atomic import atomic_replace
from mpitune.errors import DataError, MachineError, UsageError

VERSION = 3
"""Raised whenever the meaning of something stored changes; a file of another version is refused, not left out."""

Vector = tuple[np.ndarray, np.ndarray]
"""A sparse weight vector: feature ids (uint64 [n]) and their weights (float64 [n])."""

_NO_COUNTS = np.zeros((0, 11), dtype=np.int32)
_USER_BLOCK = 512  # the smallest that HDF5 knows
_CHECKPOINT = re.compile(r"epoch-(\d{4,})\.h5")
_SHARDS = re.compile(r"epoch-(\d{4,})\.shards")


@dataclass(frozen=True)
class Checkpoint:
    """A run at the end of an epoch."""

    epoch: int
    """How many epochs are done."""
    seed: int
    job: Mapping[str, Any]
    """What of the job the numbers depend on (JSON's types): a changed job can be named key by key."""
    metrics: Mapping[str, Any]
    """The epoch's figures (JSON's types)."""
    weights: Vector
    """The published model."""
    names: list[str]
    """The names of the features of `weights`."""
    start: Vector
    """What every shard starts the next epoch from (itermix, itersel)."""
    learner: tuple[np.ndarray, ...] = ()
    """float64 [n] each: what the learner keeps of the features of `start` beside their weights."""
    shards: int = 0
    """How many shards' results belong to it, kept beside it (sgd, mix): 0 or all. They never meet in one process."""
    total: Vector = field(default_factory=lambda: (np.zeros(0, dtype=np.uint64), np.zeros(0)))
    """The sum over the epochs so far of the weights, where their mean is published (sgd, mix)."""
    met: list[str] = field(default_factory=list)
    """The names of features, of all those vectors, that are not known before training."""
    best: np.ndarray = field(default_factory=lambda: _NO_COUNTS)
    """int32 [sentences, 11]: what of BLEU adds up in their latest 1-best translations, where gold scores need it."""

    scoring: Mapping[str, Any] | None = None
    """What has become of the grammar's scores (JSON's types), where something has: the weights mean nothing without."""

    @property
    def job_digest(self) -> str:
        """Equal for equal jobs."""
        return digest(self.job)


@dataclass(frozen=True)
class ShardResult:
    """What one shard has learned in one epoch."""

    shard: int
    index: np.ndarray
    """uint64 [n]: feature ids."""
    value: np.ndarray
    """float64 [n]: weights."""
    statistics: dict[str, float]
    """Sums over the shard's sentences, by name."""
    names: list[str] = field(default_factory=list)
    """The names of those features that are not known before training."""
    best: np.ndarray = field(default_factory=lambda: _NO_COUNTS)
    """int32 [sentences, 11]: what of BLEU adds up in the 1-best translation of each of the shard's sentences."""
    bleu: np.ndarray = field(default_factory=lambda: np.zeros((3, 11), dtype=np.int64))
    """int64 [3, 11]: its sums over 1-best translations, oracles and predictions."""
    learner: tuple[np.ndarray, ...] = ()
    """float64 [n] each: what the learner keeps of the features beside their weights."""


def digest(job: Mapping[str, Any]) -> str:
    """A digest of a job (JSON's types), independent of the order of its keys."""
    return hashlib.blake2b(json.dumps(job, sort_keys=True).encode(), digest_size=16).hexdigest()


def checkpoint_path(folder: Path, epoch: int) -> Path:
    """The file of the checkpoint after epoch ``epoch``, counted from 1."""
    return folder / f"epoch-{epoch:04d}.h5"


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the epoch's checkpoint; once it stands, remove the shard results that are not needed any more.

    Those are the ones of this epoch and earlier; where they belong to checkpoints (sgd, mix), this one's stay, and the
    ones of the epoch before, in case this checkpoint should come to harm.

    Raises MachineError where it cannot be written (disk full).
    """
    attributes = {
        "job_digest": checkpoint.job_digest,
        "epoch": checkpoint.epoch,
        "seed": checkpoint.seed,
        "job": json.dumps(checkpoint.job),
        "metrics": json.dumps(checkpoint.metrics),
        "shards": checkpoint.shards,
    }
    datasets = {
        "weights/index": checkpoint.weights[0],
        "weights/value": checkpoint.weights[1],
        "weights/name": _strings(checkpoint.names),
        "state/start/index": checkpoint.start[0],
        "state/start/value": checkpoint.start[1],
        "state/start/learner": _stacked(checkpoint.learner, len(checkpoint.start[0])),
        "state/total/index": checkpoint.total[0],
        "state/total/value": checkpoint.total[1],
        "state/met": _strings(checkpoint.met),
        "state/best": checkpoint.best,
    }
    if checkpoint.scoring is not None:
        datasets["scoring"] = _strings([json.dumps(checkpoint.scoring)])
    _write(checkpoint_path(folder, checkpoint.epoch), attributes, datasets)
    superseded = checkpoint.epoch - 2 if checkpoint.shards else checkpoint.epoch
    for path in folder.iterdir():
        match = _SHARDS.fullmatch(path.name)
        if match and int(match[1]) <= superseded:
            # One that cannot be removed does no harm.
            shutil.rmtree(path, ignore_errors=True)


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint at ``path``.

    Raises DataError where it is missing, damaged or cut, UsageError where another version of mpitune made it,
    MachineError where it cannot be read.
    """
    attributes, datasets = _read(path)
    return Checkpoint(
        epoch=int(attributes["epoch"]),
        seed=int(attributes["seed"]),
        job=json.loads(attributes["job"]),
        metrics=json.loads(attributes["metrics"]),
        weights=(datasets["weights/index"], datasets["weights/value"]),
        names=_texts(datasets["weights/name"]),
        start=(datasets["state/start/index"], datasets["state/start/value"]),
        learner=tuple(datasets["state/start/learner"]),
        shards=int(attributes["shards"]),
        total=(datasets["state/total/index"], datasets["state/total/value"]),
        met=_texts(datasets.get("state/met", _strings([]))),
        best=datasets.get("state/best", _NO_COUNTS),
        scoring=json.loads(_texts(datasets["scoring"])[0]) if "scoring" in datasets else None,
    )


def latest_valid_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[DataError]]:
    """The newest checkpoint in ``folder`` that is whole, shards included, and what is wrong with those newer than it.

    No folder and an empty one give None. Raises UsageError where another version of mpitune made it, MachineError where
    a file cannot be read.
    """
    epochs = [int(match[1]) for path in folder.glob("*") if (match := _CHECKPOINT.fullmatch(path.name))]
    unsound: list[DataError] = []
    for epoch in sorted(epochs, reverse=True):
        try:
            checkpoint = read_checkpoint(checkpoint_path(folder, epoch))
        except DataError as error:
            unsound.append(error)
            continue
        if checkpoint.epoch != epoch:
            found, expected = f"what epoch {checkpoint.epoch} has written", f"epoch {epoch}"
        elif (shard := _first_lacking(folder, checkpoint)) is not None:
            found, expected = f"no sound result of shard {shard} beside it", f"those of {checkpoint.shards} shards"
        else:
            return checkpoint, unsound
        unsound.append(DataError.at(checkpoint_path(folder, epoch), None, found=found, expected=expected))
    return None, unsound


def _first_lacking(folder: Path, checkpoint: Checkpoint) -> int | None:
    """The first shard whose result belongs to ``checkpoint`` and is not to be had."""
    shards = range(checkpoint.shards)
    return next((z for z in shards if read_shard(folder, checkpoint.epoch, checkpoint.job_digest, z) is None), None)


def write_shard(folder: Path, epoch: int, job_digest: str, result: ShardResult) -> None:
    """Keep what a shard has learned in an epoch, so that a kill does not lose it and a later epoch can go on from it.

    Raises MachineError where it cannot be written (disk full).
    """
    attributes = {
        "job_digest": job_digest,
        "epoch": epoch,
        "shard": result.shard,
        "statistics": json.dumps(list(result.statistics)),
    }
    datasets = {
        "index": result.index,
        "value": result.value,
        "statistics": np.array(list(result.statistics.values()), dtype=np.float64),
        "names": _strings(result.names),
        "best": result.best,
        "bleu": result.bleu,
        "learner": _stacked(result.learner, len(result.index)),
    }
    _write(_shard_path(folder, epoch, result.shard), attributes, datasets)


def read_shard(folder: Path, epoch: int, job_digest: str, shard: int) -> ShardResult | None:
    """What `write_shard` kept; None where the shard is to be (re)done: none kept, damaged, of another job or version.

    Raises MachineError where it cannot be read.
    """
    try:
        attributes, datasets = _read(_shard_path(folder, epoch, shard))
    except (DataError, UsageError):
        return None
    if (attributes["job_digest"], attributes["epoch"], attributes["shard"]) != (job_digest, epoch, shard):
        return None
    names = json.loads(attributes["statistics"])
    statistics = dict(zip(names, datasets["statistics"].tolist(), strict=True))
    return ShardResult(
        shard,
        datasets["index"],
        datasets["value"],
        statistics,
        _texts(datasets.get("names", _strings([]))),
        datasets.get("best", _NO_COUNTS),
        datasets.get("bleu", np.zeros((3, 11), dtype=np.int64)),
        tuple(datasets["learner"]),
    )


def _stacked(arrays: tuple[np.ndarray, ...], length: int) -> np.ndarray:
    """float64 [arrays, ``length``]"""
    return np.array(arrays, dtype=np.float64).reshape(len(arrays), length)


def _strings(names: list[str]) -> np.ndarray:
    return np.array(names, dtype=h5py.string_dtype())


def _texts(names: np.ndarray) -> list[str]:
    return [name.decode() for name in names.tolist()]


def _shard_path(folder: Path, epoch: int, shard: int) -> Path:
    return folder / f"epoch-{epoch:04d}.shards" / f"shard-{shard:04d}.h5"


def _write(path: Path, attributes: Mapping[str, Any], datasets: Mapping[str, np.ndarray]) -> None:
    # In memory first: on a full disk the HDF5 library does not fail, it crashes.
    with h5py.File(path, "w", driver="core", backing_store=False, userblock_size=_USER_BLOCK) as file:
        file.attrs["version"] = VERSION
        file.attrs.update(attributes)
        for name, array in datasets.items():
            file.create_dataset(name, data=array)
        file.flush()
        image = file.id.get_file_image()
    try:
        with atomic_replace(path) as aside, open(aside, "wb") as written:
            written.write(_user_block(hashlib.blake2b(image)))
            written.write(image)
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror}") from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The attributes and, by path, the datasets of a file that `_write` made."""
    try:
        with open(path, "rb") as file:
            block = file.read(_USER_BLOCK)
            sound = block == _user_block(hashlib.file_digest(file, hashlib.blake2b))
    except FileNotFoundError:
        raise DataError.at(path, None, found="no file", expected="a checkpoint") from None
    except OSError as error:
        raise MachineError(f"{path}: cannot be read: {error.strerror}") from error
    if not sound:
        raise DataError.at(path, None, found="a damaged or cut file", expected="a checkpoint that matches its digest")
    datasets: dict[str, np.ndarray] = {}

    def collect(name: str, node: h5py.Group | h5py.Dataset) -> None:
        if isinstance(node, h5py.Dataset):
            datasets[name] = node[:]

    # Finished files are never written to, so HDF5's file locks, which some network file systems lack, guard nothing.
    with h5py.File(path, "r", locking=False) as file:
        version = int(file.attrs["version"])
        if version != VERSION:
            age, remedy = ("a newer", "update mpitune") if version > VERSION else ("an older", "go on with that one")
            found = f"made by {age} mpitune (version {version}, this one reads {VERSION})"
            raise UsageError(f"{path}: {found}: {remedy}, or start over with --resume never")
        attributes = dict(file.attrs)
        file.visititems(collect)
    return attributes, datasets


def _user_block(content: Any) -> bytes:
    """What a file starts with, given the hash object of all that follows."""
    return f"mpitune: HDF5 data follow, blake2b {content.hexdigest()}\n".encode().ljust(_USER_BLOCK, b"\n")
