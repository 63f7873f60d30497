"""HDF5 files made to show other files, or more than they hold, to whoever reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

Craft = Callable[[h5py.File, str, Path], None]
"""Adds a dataset of a name to a file; the path is that of a secret file, with an HDF5 file ``other.h5`` beside it."""


def write_secret(folder: Path) -> Path:
    """Write the secret file, and the file beside it."""
    (folder / "secret").write_text("secret")
    with h5py.File(folder / "other.h5", "w") as file:
        file["a"] = np.zeros(6, np.uint8)
    return folder / "secret"


def external(file: h5py.File, name: str, secret: Path) -> None:
    file.create_dataset(name, (6,), np.uint8, external=[(str(secret), 0, 6)])


def linked(file: h5py.File, name: str, secret: Path) -> None:
    file[name] = h5py.ExternalLink(str(secret.with_name("other.h5")), "a")


def soft(file: h5py.File, name: str, secret: Path) -> None:
    file[name] = h5py.SoftLink("/b")


def virtual(file: h5py.File, name: str, secret: Path) -> None:
    layout = h5py.VirtualLayout((6,), np.uint8)
    layout[:] = h5py.VirtualSource(str(secret.with_name("other.h5")), "a", (6,))
    file.create_virtual_dataset(name, layout)


def filtered(file: h5py.File, name: str, secret: Path) -> None:
    file.create_dataset(name, data=np.zeros(6, np.uint8), chunks=(6,), compression="gzip")


def without_storage(file: h5py.File, name: str, secret: Path) -> None:
    file.create_dataset(name, (1 << 50,), np.uint8)


CRAFTED: list[Craft] = [external, linked, soft, virtual, filtered, without_storage]
