"""What batch methods learn from, beside the checkpoints, a file for each shard: k-best lists, of two epochs; forests.

The arrays are mapped into memory when they are read, so that what they take of it is up to the operating system.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mpitune.array_files.arrays import open_arrays, read_attributes, write_arrays
from mpitune.errors import DataError, UsageError
from mpitune.learner.forests import Forests
from mpitune.learner.pool import NBestPool

VERSION = 2
"""Raised whenever the meaning of lists or forests changes, their statistics among it; older ones are made anew."""

_Kept = TypeVar("_Kept", NBestPool, Forests)


@dataclass(frozen=True)
class ShardLists:
    """The lists of one shard, after an epoch has added its own."""

    shard: int
    pool: NBestPool
    statistics: dict[str, float]
    """Sums over what the epoch has translated, by name."""
    names: list[str]
    """The names of those features in the lists that are not known before training."""
    bleu: np.ndarray
    """int64 [3, 11]: as in `mpitune.run_folder.checkpoint.ShardResult`."""
    forests: Forests | None = None
    """Those of the epoch, where its learner wants them."""


def write_lists(folder: Path, epoch: int, job_digest: str, lists: ShardLists) -> None:
    """Keep a shard's lists, and forests. Raises MachineError where they cannot be written (disk full)."""
    attributes = {
        "version": VERSION,
        "job_digest": job_digest,
        "epoch": epoch,
        "shard": lists.shard,
        "statistics": lists.statistics,
        "names": lists.names,
        "bleu": lists.bleu.tolist(),
    }
    if lists.forests is not None:
        _write(_path(folder, "forests", epoch, lists.shard), lists.forests, attributes)
    _write(_path(folder, "lists", epoch, lists.shard), lists.pool, attributes)


def read_lists(folder: Path, epoch: int, job_digest: str, shard: int, *, forests: bool) -> ShardLists | None:
    """What `write_lists` kept, mapped; None where it is to be made (again): not there, damaged, of another job
    or of an older mpitune.

    ``forests``: whether these are asked for too. Raises UsageError where a newer version of mpitune made it.
    """
    known = {"version": VERSION, "job_digest": job_digest, "epoch": epoch, "shard": shard}
    lists = _read(_path(folder, "lists", epoch, shard), known, NBestPool)
    found = _read(_path(folder, "forests", epoch, shard), known, Forests) if forests else None
    if lists is None or (forests and found is None):
        return None
    attributes, pool = lists
    told = attributes["statistics"], attributes["names"], np.array(attributes["bleu"])
    return ShardLists(shard, pool, *told, found[1] if found else None)


def open_lists(folder: Path, epoch: int, shard: int) -> NBestPool:
    """The lists that `read_lists` has found to be sound, mapped without another look at all of them."""
    return NBestPool(**open_arrays(_path(folder, "lists", epoch, shard)))


def remove_lists(folder: Path, epoch: int) -> None:
    """Remove the lists after ``epoch``."""
    _remove(folder, "lists", epoch)


def remove_forests(folder: Path, epoch: int) -> None:
    """Remove the forests of ``epoch``."""
    _remove(folder, "forests", epoch)


def _remove(folder: Path, kind: str, epoch: int) -> None:
    # What cannot be removed does no harm.
    shutil.rmtree(_folder(folder, kind, epoch), ignore_errors=True)


def _write(path: Path, arrays: NBestPool | Forests, attributes: dict[str, Any]) -> None:
    write_arrays(path, arrays._asdict(), {**attributes, "digest": _digest(attributes, arrays)})


def _read(path: Path, known: dict[str, Any], kind: Callable[..., _Kept]) -> tuple[dict[str, Any], _Kept] | None:
    """Attributes and arrays of a file that has the attributes ``known`` and is sound."""
    attributes = read_attributes(path)
    if attributes is None:
        return None
    try:
        arrays = kind(**open_arrays(path))
    except (DataError, TypeError):
        return None
    digest = attributes.pop("digest", None)
    if digest != _digest(attributes, arrays):
        return None
    if (version := attributes.get("version", 1)) > VERSION:
        found = f"made by a newer mpitune (version {version}, this one reads {VERSION})"
        raise UsageError(f"{path}: {found}: update mpitune or name another run.dir")
    if {key: attributes.get(key) for key in known} != known:
        return None
    return attributes, arrays


def _digest(attributes: dict[str, Any], arrays: NBestPool | Forests) -> str:
    digest = hashlib.blake2b(json.dumps(attributes, sort_keys=True).encode(), digest_size=16)
    for array in arrays:
        digest.update(array.data)
    return digest.hexdigest()


def _folder(folder: Path, kind: str, epoch: int) -> Path:
    return folder / f"epoch-{epoch:04d}.{kind}"


def _path(folder: Path, kind: str, epoch: int, shard: int) -> Path:
    return _folder(folder, kind, epoch) / f"shard-{shard:04d}.h5"
