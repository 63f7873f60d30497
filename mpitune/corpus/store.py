"""Arrays on disk: HDF5 files that are written once, aside, and opened memory-mapped.

Every dataset is stored contiguously, so that an opened array is a view of the mapped file: opening costs nothing and the
processes of one machine share the pages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mpitune.errors import DataError

VERSION = 1
"""Raised whenever the meaning of a stored array changes; a file of another version is never read."""


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> None:
    """Write ``arrays`` and ``attributes`` (anything JSON can hold) to ``path``, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with h5py.File(aside, "w", alignment_threshold=1, alignment_interval=64) as file:
            file.attrs["version"] = VERSION
            file.attrs["attributes"] = json.dumps(attributes)
            for name, array in arrays.items():
                file.create_dataset(name, data=np.ascontiguousarray(array))
        with open(aside, "rb") as written:
            os.fsync(written.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read_attributes(path: Path) -> dict[str, Any] | None:
    """The attributes of ``path``; None where there is no such file, or none that this version can read."""
    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("version") != VERSION:
                return None
            attributes: dict[str, Any] = json.loads(file.attrs["attributes"])
            return attributes
    except (OSError, KeyError, ValueError):
        return None


def open_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of ``path``, memory-mapped (a process that writes to one gets its own copy of the page).

    Raises DataError where the file is missing or damaged.
    """
    try:
        with h5py.File(path, "r") as file:
            places = {name: (data.id.get_offset(), data.dtype, data.shape) for name, data in file.items()}
        mapped = np.memmap(path, dtype=np.uint8, mode="c")
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: found a damaged or missing store ({error}), expected one made by prepare") from None
    arrays = {}
    for name, (offset, dtype, shape) in places.items():
        if offset is None:
            arrays[name] = np.zeros(shape, dtype)
        else:
            size = int(np.prod(shape)) * dtype.itemsize
            # A plain ndarray over the mapped pages: kernels are compiled once for mapped and built arrays alike.
            arrays[name] = np.asarray(mapped[offset : offset + size]).view(np.ndarray).view(dtype).reshape(shape)
    return arrays
