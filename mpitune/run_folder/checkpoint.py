"""Checkpoints: the published weights of an epoch and the state that the next one needs, in one HDF5 file per epoch.

Beside them stand the results of shards: the finished ones of a running epoch and, for algorithms that do not mix after
each epoch (sgd, mix), those of the last two epochs, from which the shards resume. Files are written atomically (to a
temporary file, fsync, rename, fsync of the folder). Each starts with a digest of the rest in HDF5's user block, so that
a damaged or truncated file is detected before the HDF5 library opens it; h5py and h5dump skip that block.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mpitune.array_files.atomic import atomic_replace
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.files import exists, matching, open_regular, writing
from mpitune.learner.weights import NamedWeights, SparseWeights
from mpitune.metrics.bleu import WIDTH
from mpitune.run_folder.layout import checkpoint_path, remove_shards, shard_path

VERSION = 5
"""Raised whenever the meaning of stored data changes; a file of another version is an error, it is not skipped."""

_NO_COUNTS = np.zeros((0, WIDTH), dtype=np.int32)
_USER_BLOCK = 512  # bytes; HDF5's minimum
_CHECKPOINT = re.compile(r"epoch-(\d{4,})\.h5")


@dataclass(frozen=True)
class Checkpoint:
    """A run at the end of an epoch."""

    epoch: int
    """Number of finished epochs."""
    seed: int
    job: Mapping[str, Any]
    """The job's values that results depend on (JSON types); an error about a changed job names its keys."""
    metrics: Mapping[str, Any]
    """The metrics of all epochs so far (JSON types)."""
    weights: NamedWeights
    """The published weights."""
    start: SparseWeights
    """The weights and the learner's state that all shards start the next epoch from (itermix, itersel)."""
    shards: int = 0
    """Number of shard results stored beside it (sgd, mix): 0 or all. No process ever holds them all."""
    total: SparseWeights = field(default_factory=SparseWeights)
    """The sum of the weights over the epochs so far, if their mean is published (sgd, mix)."""
    dynamic_names: list[str] = field(default_factory=list)
    """Names of the features, in all these vectors, that were discovered while decoding (dataset ``state/met``)."""
    best: np.ndarray = field(default_factory=lambda: _NO_COUNTS)
    """int32 [sentences, 11]: BLEU statistics of the latest 1-best translations, if the gold score needs them."""
    scoring: Mapping[str, Any] | None = None
    """Bins and transforms of the grammar's scores (JSON types), if any: the weights are valid only with them."""

    @property
    def job_digest(self) -> str:
        """Equal for equal jobs."""
        return digest(self.job)


@dataclass(frozen=True)
class ShardResult:
    """The result of one shard in one epoch."""

    shard: int
    weights: SparseWeights
    """With the learner's state."""
    statistics: dict[str, float]
    """Sums over the shard's sentences, by name."""
    names: list[str] = field(default_factory=list)
    """Names of the features that were discovered while decoding."""
    best: np.ndarray = field(default_factory=lambda: _NO_COUNTS)
    """int32 [sentences, 11]: BLEU statistics of the 1-best translation of each sentence of the shard."""
    bleu: np.ndarray = field(default_factory=lambda: np.zeros((3, WIDTH), dtype=np.int64))
    """int64 [3, 11]: BLEU statistics summed over 1-best translations, oracles and predictions."""
    choices: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))
    """float64 [3, columns]: statistics of the metric, see `mpitune.training.epoch_statistics.ShardStatistics`."""


def digest(job: Mapping[str, Any]) -> str:
    """Digest of a job (JSON types), independent of the order of its keys."""
    return hashlib.blake2b(json.dumps(job, sort_keys=True).encode(), digest_size=16).hexdigest()


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the epoch's checkpoint, then remove the shard results that are no longer needed.

    Those are the results of this epoch and earlier ones. If they belong to checkpoints (sgd, mix), the results of this
    epoch stay, and those of the epoch before in case this checkpoint is damaged later.

    Raises MachineError if it cannot be written (disk full).
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
        "weights/index": checkpoint.weights.ids,
        "weights/value": checkpoint.weights.value,
        "weights/name": _strings(checkpoint.weights.names),
        "state/start/index": checkpoint.start.ids,
        "state/start/value": checkpoint.start.value,
        "state/start/learner": _stacked(checkpoint.start),
        "state/total/index": checkpoint.total.ids,
        "state/total/value": checkpoint.total.value,
        "state/met": _strings(checkpoint.dynamic_names),
        "state/best": checkpoint.best,
    }
    if checkpoint.scoring is not None:
        datasets["scoring"] = _strings([json.dumps(checkpoint.scoring)])
    _write(checkpoint_path(folder, checkpoint.epoch), attributes, datasets)
    superseded = checkpoint.epoch - 2 if checkpoint.shards else checkpoint.epoch
    # Passes of the dense start are those of epoch 0, which no shard goes on from.
    remove_shards(folder, "shards", max(superseded, 0))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read the checkpoint at ``path``.

    Raises DataError if it is missing, damaged or truncated, UsageError if another version of mpitune made it,
    MachineError if it cannot be read.
    """
    with _refuse_malformed(path):
        attributes, datasets = _read(path)
        return Checkpoint(
            epoch=int(attributes["epoch"]),
            seed=int(attributes["seed"]),
            job=json.loads(attributes["job"]),
            metrics=json.loads(attributes["metrics"]),
            weights=NamedWeights(
                datasets["weights/index"], _texts(datasets["weights/name"]), datasets["weights/value"]
            ),
            start=SparseWeights(
                datasets["state/start/index"], datasets["state/start/value"], tuple(datasets["state/start/learner"])
            ),
            shards=int(attributes["shards"]),
            total=SparseWeights(datasets["state/total/index"], datasets["state/total/value"]),
            dynamic_names=_texts(datasets["state/met"]),
            best=datasets["state/best"],
            scoring=json.loads(_texts(datasets["scoring"])[0]) if "scoring" in datasets else None,
        )


def latest_valid_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[DataError]]:
    """The newest valid checkpoint in ``folder``, its shard results included, and the errors of newer ones.

    None for a missing or empty folder. Raises UsageError if another version of mpitune made a checkpoint, MachineError
    if a file cannot be read.
    """
    files = matching(folder, "epoch-*.h5")
    epochs = [int(match[1]) for path in files if (match := _CHECKPOINT.fullmatch(path.name))]
    invalid: list[DataError] = []
    for epoch in sorted(epochs, reverse=True):
        try:
            checkpoint = read_checkpoint(checkpoint_path(folder, epoch))
        except DataError as error:
            invalid.append(error)
            continue
        if checkpoint.epoch != epoch:
            found, expected = f"a checkpoint of epoch {checkpoint.epoch}", f"epoch {epoch}"
        elif (shard := _first_missing_shard(folder, checkpoint)) is not None:
            found, expected = f"no sound result of shard {shard} beside it", f"those of {checkpoint.shards} shards"
        else:
            return checkpoint, invalid
        invalid.append(DataError.at(checkpoint_path(folder, epoch), None, found=found, expected=expected))
    return None, invalid


def _first_missing_shard(folder: Path, checkpoint: Checkpoint) -> int | None:
    """The first shard without a valid result, of those that belong to ``checkpoint``; None if all are there."""
    shards = range(checkpoint.shards)
    return next((z for z in shards if read_shard(folder, checkpoint.epoch, checkpoint.job_digest, z) is None), None)


def write_shard(folder: Path, epoch: int, job_digest: str, result: ShardResult) -> None:
    """Write the result of a shard, so that a killed run does not lose it and the next epoch can start from it.

    Raises MachineError if it cannot be written (disk full).
    """
    attributes = {
        "job_digest": job_digest,
        "epoch": epoch,
        "shard": result.shard,
        "statistics": json.dumps(list(result.statistics)),
    }
    datasets = {
        "index": result.weights.ids,
        "value": result.weights.value,
        "statistics": np.array(list(result.statistics.values()), dtype=np.float64),
        "names": _strings(result.names),
        "best": result.best,
        "bleu": result.bleu,
        "choices": result.choices,
        "learner": _stacked(result.weights),
    }
    _write(shard_path(folder, epoch, "shards", result.shard), attributes, datasets)


def read_shard(folder: Path, epoch: int, job_digest: str, shard: int) -> ShardResult | None:
    """Read the result of `write_shard`; None if the shard must be learned (again): the file is missing, damaged, or of
    another job or version.

    Raises MachineError if it cannot be read.
    """
    path = shard_path(folder, epoch, "shards", shard)
    try:
        with _refuse_malformed(path):
            attributes, datasets = _read(path)
            if (attributes["job_digest"], attributes["epoch"], attributes["shard"]) != (job_digest, epoch, shard):
                return None
            names = json.loads(attributes["statistics"])
            return ShardResult(
                shard,
                SparseWeights(datasets["index"], datasets["value"], tuple(datasets["learner"])),
                dict(zip(names, datasets["statistics"].tolist(), strict=True)),
                _texts(datasets["names"]),
                datasets["best"],
                datasets["bleu"],
                datasets["choices"],
            )
    except (DataError, UsageError):
        return None


def _stacked(weights: SparseWeights) -> np.ndarray:
    """The arrays of its state as rows: float64 [arrays, n]."""
    return np.array(weights.state, dtype=np.float64).reshape(len(weights.state), len(weights.ids))


def _strings(names: list[str]) -> np.ndarray:
    return np.array(names, dtype=h5py.string_dtype())


def _texts(names: np.ndarray) -> list[str]:
    return [name.decode() for name in names.tolist()]


def _write(path: Path, attributes: Mapping[str, Any], datasets: Mapping[str, np.ndarray]) -> None:
    # Built in memory first: on a full disk, the HDF5 library crashes.
    with h5py.File(path, "w", driver="core", backing_store=False, userblock_size=_USER_BLOCK) as file:
        file.attrs["version"] = VERSION
        file.attrs.update(attributes)
        for name, array in datasets.items():
            file.create_dataset(name, data=array)
        file.flush()
        image = file.id.get_file_image()
    with writing(path, MachineError), atomic_replace(path) as aside, open(aside, "wb") as written:
        written.write(_user_block(hashlib.blake2b(image)))
        written.write(image)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The attributes and, by path, the datasets of a file of `_write`."""
    if not exists(path):
        raise DataError.at(path, None, found="no file", expected="a checkpoint")
    try:
        raw = open_regular(path)
    except DataError as error:
        # An older checkpoint must not take the place of one that is there and may not be read.
        raise MachineError(str(error)) from None
    with raw:
        block = raw.read(_USER_BLOCK)
        if block != _user_block(hashlib.file_digest(raw, hashlib.blake2b)):
            expected = "a checkpoint that matches its digest"
            raise DataError.at(path, None, found="a damaged or cut file", expected=expected)
    # Files are never changed once written: HDF5's file locks, which some network file systems lack, are not needed.
    with h5py.File(path, "r", locking=False) as file:
        version = int(file.attrs["version"])
        if version != VERSION:
            age, remedy = ("a newer", "update mpitune") if version > VERSION else ("an older", "go on with that one")
            found = f"made by {age} mpitune (version {version}, this one reads {VERSION})"
            raise UsageError(f"{path}: {found}: {remedy}, or start over with --resume never")
        try:
            return dict(file.attrs), {name: dataset[:] for name, dataset in _local_datasets(file).items()}
        except ValueError as error:
            raise DataError.at(path, None, found=str(error), expected="arrays in the file itself") from None


def _local_datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """The datasets of ``file`` by path.

    Raises ValueError for links, and for datasets whose bytes are not in the file as they are: external storage, which
    may name any file of the reader, virtual and compressed datasets, and datasets without storage.
    """
    links: list[tuple[str, Any]] = []
    file.visititems_links(lambda name, link: links.append((name, link)))
    if others := [name for name, link in links if not isinstance(link, h5py.HardLink)]:
        raise ValueError(f"{others[0]} is a link")
    datasets = {name: node for name, _ in links if isinstance(node := file[name], h5py.Dataset)}
    for name, dataset in datasets.items():
        plan = dataset.id.get_create_plist()
        if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count() > 0:
            raise ValueError(f"{name} is stored in other files")
        if plan.get_nfilters() > 0 or dataset.id.get_storage_size() < dataset.nbytes:
            raise ValueError(f"{name} is not stored in full")
    return datasets


@contextmanager
def _refuse_malformed(path: Path) -> Iterator[None]:
    """Raise DataError where the content of ``path`` matches its digest but is not what this module writes."""
    try:
        yield
    except (OSError, LookupError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        found = f"other content than a run writes ({error})"
        raise DataError.at(path, None, found=found, expected="a checkpoint") from None


def _user_block(content: Any) -> bytes:
    """The user block of a file, given the hash object of all following bytes."""
    return f"mpitune: HDF5 data follow, blake2b {content.hexdigest()}\n".encode().ljust(_USER_BLOCK, b"\n")
