"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file aside to write to, which takes the place of ``path`` when the block ends, safe from a power cut.

    Where the block raises, or the disk is full (OSError), ``path`` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # One name for all attempts: what a killed one leaves behind is overwritten, not piled up.
    aside = path.with_name(f".{path.name}.part")
    try:
        yield aside
        _fsync(aside)
        os.replace(aside, path)
        # Which files a folder holds is written to disk apart from what they hold.
        _fsync(path.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all; gzipped (the same text to the same bytes) for a name in .gz."""
    content = text.encode()
    with written_whole(path) as aside:
        aside.write_bytes(gzip.compress(content, mtime=0) if path.name.endswith(".gz") else content)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
