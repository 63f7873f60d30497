"""Storage of the training data of batch methods, one file per shard: accumulated k-best lists, and forests.

The files stand beside the checkpoints; lists of the last two epochs are kept. Arrays are memory-mapped for reading, so
that the operating system decides how much of them stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mpitune.array_files.arrays import map_arrays, open_arrays, read_attributes, write_arrays
from mpitune.errors import DataError, UsageError
from mpitune.learner.forests import Forests
from mpitune.learner.pool import NBestPool
from mpitune.run_folder.layout import shard_path

VERSION = 5
"""Raised whenever the meaning of lists, forests or their statistics changes; older files are made again."""

_Kept = TypeVar("_Kept", NBestPool, Forests)


@dataclass(frozen=True)
class ShardLists:
    """The accumulated lists of one shard, those of the latest epoch included."""

    shard: int
    pool: NBestPool
    statistics: dict[str, float]
    """Sums over the sentences of the latest epoch, by name."""
    names: list[str]
    """Names of the features in the lists that were discovered while decoding."""
    bleu: np.ndarray
    """int64 [3, 11]: as in `mpitune.run_folder.checkpoint.ShardResult`."""
    choices: np.ndarray
    """float64 [3, columns]: likewise."""
    forests: Forests | None = None
    """Forests of the latest epoch, if the learner needs them."""


def write_lists(folder: Path, epoch: int, job_digest: str, lists: ShardLists) -> None:
    """Write a shard's lists and forests. Raises MachineError if they cannot be written (disk full)."""
    attributes = {
        "version": VERSION,
        "job_digest": job_digest,
        "epoch": epoch,
        "shard": lists.shard,
        "statistics": lists.statistics,
        "names": lists.names,
        "bleu": lists.bleu.tolist(),
        "choices": lists.choices.tolist(),
    }
    if lists.forests is not None:
        write_arrays(shard_path(folder, epoch, "forests", lists.shard), lists.forests._asdict(), attributes)
    write_arrays(shard_path(folder, epoch, "lists", lists.shard), lists.pool._asdict(), attributes)


def read_lists(folder: Path, epoch: int, job_digest: str, shard: int, *, forests: bool) -> ShardLists | None:
    """Read, memory-mapped, the result of `write_lists`; None if it must be made (again): the file is missing, damaged,
    of another job or of an older mpitune.

    ``forests``: read these too. Raises UsageError if a newer version of mpitune made the file.
    """
    known = {"version": VERSION, "job_digest": job_digest, "epoch": epoch, "shard": shard}
    lists = _read(shard_path(folder, epoch, "lists", shard), known, NBestPool)
    found = _read(shard_path(folder, epoch, "forests", shard), known, Forests) if forests else None
    if lists is None or (forests and found is None):
        return None
    attributes, pool = lists
    bleu, choices = np.array(attributes["bleu"]), np.array(attributes["choices"])
    return ShardLists(
        shard, pool, attributes["statistics"], attributes["names"], bleu, choices, found[1] if found else None
    )


def open_lists(folder: Path, epoch: int, shard: int) -> NBestPool:
    """Map the lists that `read_lists` has found valid, without checking their digest again."""
    return NBestPool(**map_arrays(shard_path(folder, epoch, "lists", shard), check_digest=False))


def _read(path: Path, known: dict[str, Any], kind: Callable[..., _Kept]) -> tuple[dict[str, Any], _Kept] | None:
    """Attributes and arrays of a valid file with the attributes ``known``; else None."""
    try:
        arrays = kind(**open_arrays(path))
    except (DataError, TypeError):
        return None
    attributes = read_attributes(path) or {}
    if (version := attributes.get("version", 1)) > VERSION:
        found = f"made by a newer mpitune (version {version}, this one reads {VERSION})"
        raise UsageError(f"{path}: {found}: update mpitune or name another run.dir")
    if {key: attributes.get(key) for key in known} != known:
        return None
    return attributes, arrays
