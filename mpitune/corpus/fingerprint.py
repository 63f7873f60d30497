"""Detection of changed files by their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mpitune.corpus.lines import check_readable


class Fingerprint(NamedTuple):
    """The state of a file at the time when it was read."""

    path: str
    size: int
    mtime_ns: int
    digest: str


def fingerprint(path: Path) -> Fingerprint:
    """The path, size, time and content digest of a file. Raises DataError as `check_readable` does."""
    check_readable(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return Fingerprint(os.path.abspath(path), status.st_size, status.st_mtime_ns, digest)


def all_unchanged(known: Sequence[Sequence[Any]], paths: Sequence[Path]) -> bool:
    """True if each of ``paths`` has the content of its fingerprint, a row of ``known``, as read from JSON."""
    return len(known) == len(paths) and all(
        unchanged(Fingerprint(*row), path) for row, path in zip(known, paths, strict=True)
    )


def unchanged(known: Fingerprint, path: Path) -> bool:
    """True if ``path`` has the content of fingerprint ``known``: by path, size and time, or else by the digest."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    if status.st_size != known.size:
        return False
    same_file = os.path.abspath(path) == known.path and status.st_mtime_ns == known.mtime_ns
    return same_file or fingerprint(path).digest == known.digest
