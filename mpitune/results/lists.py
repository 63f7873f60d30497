"""The k-best lists that batch methods accumulate, beside the checkpoints: a file for each shard, of two epochs.

The arrays are mapped into memory when they are read, so that what they take of it is up to the operating system.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.corpus.store import open_arrays, read_attributes, write_arrays
from mpitune.errors import DataError
from mpitune.learner.pool import Pool


@dataclass(frozen=True)
class ShardLists:
    """The lists of one shard, after an epoch has added its own."""

    shard: int
    pool: Pool
    statistics: dict[str, float]
    """Sums over what the epoch has translated, by name."""
    names: list[str]
    """The names of those features in the lists that are not known before training."""
    bleu: np.ndarray
    """int64 [3, 10]: as in `mpitune.results.checkpoint.ShardResult`."""


def write_lists(folder: Path, epoch: int, job_digest: str, lists: ShardLists) -> None:
    """Keep a shard's lists. Raises MachineError where they cannot be written (disk full)."""
    attributes = {
        "job_digest": job_digest,
        "epoch": epoch,
        "shard": lists.shard,
        "statistics": lists.statistics,
        "names": lists.names,
        "bleu": lists.bleu.tolist(),
    }
    written = {**attributes, "digest": _digest(attributes, lists.pool)}
    write_arrays(_path(folder, epoch, lists.shard), lists.pool._asdict(), written)


def read_lists(folder: Path, epoch: int, job_digest: str, shard: int) -> ShardLists | None:
    """What `write_lists` kept, mapped; None where it is to be made (again): not there, damaged, of another job.

    Raises UsageError where a newer version of mpitune made it.
    """
    path = _path(folder, epoch, shard)
    attributes = read_attributes(path)
    if attributes is None:
        return None
    try:
        pool = Pool(**open_arrays(path))
    except (DataError, TypeError):
        return None
    digest = attributes.pop("digest", None)
    known = tuple(attributes.get(key) for key in ("job_digest", "epoch", "shard"))
    if known != (job_digest, epoch, shard) or digest != _digest(attributes, pool):
        return None
    return ShardLists(shard, pool, attributes["statistics"], attributes["names"], np.array(attributes["bleu"]))


def forget_lists(folder: Path, epoch: int) -> None:
    """Remove the lists after ``epoch``."""
    # What cannot be removed does no harm.
    shutil.rmtree(_folder(folder, epoch), ignore_errors=True)


def _digest(attributes: dict[str, Any], pool: Pool) -> str:
    digest = hashlib.blake2b(json.dumps(attributes, sort_keys=True).encode(), digest_size=16)
    for array in pool:
        digest.update(array.data)
    return digest.hexdigest()


def _folder(folder: Path, epoch: int) -> Path:
    return folder / f"epoch-{epoch:04d}.lists"


def _path(folder: Path, epoch: int, shard: int) -> Path:
    return _folder(folder, epoch) / f"shard-{shard:04d}.h5"
