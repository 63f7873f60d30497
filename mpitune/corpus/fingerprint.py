"""Detection of changed files by their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mpitune.files import open_regular, status


class Fingerprint(NamedTuple):
    """The state of a file at the time when it was read."""

    path: str
    size: int
    mtime_ns: int
    digest: str


def fingerprint(path: Path) -> Fingerprint:
    """The path, size, time and content digest of a regular file. Raises as `open_regular` does."""
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return Fingerprint(os.path.abspath(path), found.st_size, found.st_mtime_ns, digest)


def all_unchanged(known: Sequence[Sequence[Any]], paths: Sequence[Path]) -> bool:
    """True if each of ``paths`` has the content of its fingerprint, a row of ``known``, as read from JSON."""
    return len(known) == len(paths) and all(
        unchanged(Fingerprint(*row), path) for row, path in zip(known, paths, strict=True)
    )


def unchanged(known: Fingerprint, path: Path) -> bool:
    """True if ``path`` has the content of fingerprint ``known``: by path, size and time, or else by the digest."""
    found = status(path)
    if found is None or found.st_size != known.size:
        return False
    same_file = os.path.abspath(path) == known.path and found.st_mtime_ns == known.mtime_ns
    return same_file or fingerprint(path).digest == known.digest
