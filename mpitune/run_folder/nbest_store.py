"""Storage of the training data of batch methods, one file per shard: accumulated k-best lists, and forests.

The files stand beside the checkpoints; lists of the last two epochs are kept. Arrays are memory-mapped for reading, so
that the operating system decides how much of them stays in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mpitune.array_files.arrays import map_arrays, open_arrays, read_attributes, write_arrays
from mpitune.errors import DataError, MpituneError, UsageError
from mpitune.files import matching
from mpitune.learner.forests import Forests
from mpitune.learner.pool import NBestPool
from mpitune.ownership import remove

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
        _write(_path(folder, "forests", epoch, lists.shard), lists.forests, attributes)
    _write(_path(folder, "lists", epoch, lists.shard), lists.pool, attributes)


def read_lists(folder: Path, epoch: int, job_digest: str, shard: int, *, forests: bool) -> ShardLists | None:
    """Read, memory-mapped, the result of `write_lists`; None if it must be made (again): the file is missing, damaged,
    of another job or of an older mpitune.

    ``forests``: read these too. Raises UsageError if a newer version of mpitune made the file.
    """
    known = {"version": VERSION, "job_digest": job_digest, "epoch": epoch, "shard": shard}
    lists = _read(_path(folder, "lists", epoch, shard), known, NBestPool)
    found = _read(_path(folder, "forests", epoch, shard), known, Forests) if forests else None
    if lists is None or (forests and found is None):
        return None
    attributes, pool = lists
    bleu, choices = np.array(attributes["bleu"]), np.array(attributes["choices"])
    return ShardLists(
        shard, pool, attributes["statistics"], attributes["names"], bleu, choices, found[1] if found else None
    )


def open_lists(folder: Path, epoch: int, shard: int) -> NBestPool:
    """Map the lists that `read_lists` has found valid, without checking their digest again."""
    return NBestPool(**map_arrays(_path(folder, "lists", epoch, shard), check_digest=False))


def remove_lists(folder: Path, epoch: int) -> None:
    """Remove the lists up to ``epoch``."""
    _remove(folder, "lists", epoch)


def remove_forests(folder: Path, epoch: int) -> None:
    """Remove the forests up to ``epoch``."""
    _remove(folder, "forests", epoch)


def _remove(folder: Path, kind: str, epoch: int) -> None:
    # All of them: where lists were lost, those of any earlier epoch may have been made anew.
    for path in matching(folder, f"epoch-*.{kind}"):
        if (match := re.fullmatch(rf"epoch-(\d+)\.{kind}", path.name)) and int(match[1]) <= epoch:
            # Files that cannot be removed do no harm.
            with suppress(MpituneError):
                remove(folder, f"{path.name}/shard-*.h5")


def _write(path: Path, arrays: NBestPool | Forests, attributes: dict[str, Any]) -> None:
    write_arrays(path, arrays._asdict(), attributes)


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


def _folder(folder: Path, kind: str, epoch: int) -> Path:
    return folder / f"epoch-{epoch:04d}.{kind}"


def _path(folder: Path, kind: str, epoch: int, shard: int) -> Path:
    return _folder(folder, kind, epoch) / f"shard-{shard:04d}.h5"
