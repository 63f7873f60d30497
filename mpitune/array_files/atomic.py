"""Atomic writing: a file is replaced by its complete new content or stays as it was."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, cast


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """A temporary file to write to, which replaces ``path`` durably (fsync) when the block ends.

    If the block raises, or the disk is full (OSError), ``path`` stays as it was. A missing folder of ``path`` is
    created, but not its parent: if somebody has removed that, it is not created again.
    """
    path.parent.mkdir(exist_ok=True)
    # All attempts use the same name, so that the next one overwrites the file that a killed one left.
    aside = path.with_name(f".{path.name}.part")
    try:
        yield aside
        _fsync(aside)
        os.replace(aside, path)
        # The entry in the folder needs an fsync of its own.
        _fsync(path.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for atomic writing; gzipped (reproducibly, without a time) if its name ends in .gz.

    Raises OSError if ``path`` cannot be written or its folder does not exist.
    """
    # A missing folder is probably a misspelt name: it is not created.
    path.parent.stat()
    # A pipe or a device is written to directly: replacing it would remove it.
    special = path.exists() and not path.is_file()
    with nullcontext(path) if special else atomic_replace(path) as target, open(target, "wb") as raw:
        if not path.name.endswith(".gz"):
            yield raw
            return
        # Level 9 takes twice the time of 6 and saves 1 %.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
            yield cast(BinaryIO, packed)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` as `open_atomic` does; creates the folder of ``path``, but not its parent."""
    path.parent.mkdir(exist_ok=True)
    with open_atomic(path) as file:
        file.write(text.encode())


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
