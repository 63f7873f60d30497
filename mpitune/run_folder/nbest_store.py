"""Storage of the training data of batch methods, one file per shard: accumulated k-best lists, and forests.

The files stand beside the checkpoints; lists of the last two epochs are kept. Arrays are memory-mapped for reading, so
that the operating system decides how much of them stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mpitune.array_files.arrays import open_arrays, read_manifest, write_arrays
from mpitune.errors import DataError
from mpitune.files import matching
from mpitune.learner.forests import Forests
from mpitune.learner.pool import NBestPool
from mpitune.run_folder.layout import shard_path

MadeFrom = str | Mapping[str, Any]
"""What lists depend on (JSON types): their settings by key, or a digest of these."""
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


def write_lists(folder: Path, epoch: int, made_from: MadeFrom, lists: ShardLists) -> None:
    """Write a shard's lists and forests. Raises MachineError if they cannot be written (disk full)."""
    manifest = {
        "settings": _settings(made_from, epoch, lists.shard),
        "statistics": lists.statistics,
        "names": lists.names,
        "bleu": lists.bleu.tolist(),
        "choices": lists.choices.tolist(),
    }
    if lists.forests is not None:
        write_arrays(shard_path(folder, epoch, "forests", lists.shard), lists.forests._asdict(), manifest)
    write_arrays(shard_path(folder, epoch, "lists", lists.shard), lists.pool._asdict(), manifest)


def read_lists(folder: Path, epoch: int, made_from: MadeFrom, shard: int, *, forests: bool) -> ShardLists | None:
    """Read, memory-mapped, the result of `write_lists`; None if it must be made (again): the file is missing, damaged,
    made from something else or by an older mpitune.

    ``forests``: read these too. Raises UsageError if a newer version of mpitune made the file.
    """
    settings = _settings(made_from, epoch, shard)
    lists = _read(shard_path(folder, epoch, "lists", shard), settings, NBestPool)
    found = _read(shard_path(folder, epoch, "forests", shard), settings, Forests) if forests else None
    if lists is None or (forests and found is None):
        return None
    manifest, pool = lists
    of_epoch = {name: np.array(manifest[name]) for name in ("bleu", "choices")}
    return ShardLists(
        shard, pool, manifest["statistics"], manifest["names"], **of_epoch, forests=found[1] if found else None
    )


def open_lists(folder: Path, epoch: int, shard: int) -> NBestPool:
    """Map the lists that `read_lists` has found valid, without checking their digest again."""
    return NBestPool(**open_arrays(shard_path(folder, epoch, "lists", shard), check_digest=False))


def lists_made_from(folder: Path) -> Any:
    """What the first sound file of lists in ``folder`` is made from; None if there is none."""
    manifests = (read_manifest(path) for path in matching(folder, "epoch-*.lists/shard-*.npz"))
    return next((manifest["settings"]["made_from"] for manifest in manifests if "settings" in manifest), None)


def _settings(made_from: MadeFrom, epoch: int, shard: int) -> dict[str, Any]:
    return {"made_from": made_from, "epoch": epoch, "shard": shard}


def _read(path: Path, settings: dict[str, Any], kind: Callable[..., _Kept]) -> tuple[dict[str, Any], _Kept] | None:
    """Manifest and arrays of a valid file with these ``settings``; else None."""
    try:
        arrays = kind(**open_arrays(path))
    except (DataError, TypeError):
        return None
    manifest = read_manifest(path)
    return (manifest, arrays) if manifest.get("settings") == settings else None
