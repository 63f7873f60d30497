"""Array files of a store: contents are checked at the first opening, not again while the file stays unchanged.

A hidden file beside each records the file that was checked. It counts only if it belongs to the user of this process
and nobody else may write to it: whoever can write to the folder could forge it otherwise.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from mpitune.array_files.arrays import VERSION, damaged, map_arrays
from mpitune.array_files.atomic import atomic_replace

Check = Callable[[Mapping[str, np.ndarray]], None]
"""Raises ValueError unless arrays are of the right types and sizes and refer to one another within bounds."""


def open_checked(path: Path, check: Check) -> dict[str, np.ndarray]:
    """`open_arrays` of a file whose arrays satisfy ``check``.

    Digest and arrays are checked unless this user's last check was of this very file: the same size, times and inode.
    Raises DataError if the file is missing, damaged or of an older version, UsageError if it is of a newer one.
    """
    state = _state(path)
    known = state is not None and _recorded(path) == state
    arrays = map_arrays(path, check_digest=not known)
    if not known:
        try:
            check(arrays)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise damaged(path, error) from None
        _record(path, state)
    return arrays


def _state(path: Path) -> list[int] | None:
    """Size, times and inode, which tell a changed or replaced file; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    # Unlike the time of the last change to the content, that of the last change to the inode cannot be set back.
    return [VERSION, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _record_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _recorded(path: Path) -> object:
    """The state of the file at its last check; None if there is no record of this user."""
    with suppress(OSError, ValueError):
        descriptor = os.open(_record_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, encoding="utf-8") as file:
            status = os.fstat(descriptor)
            if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode) and not status.st_mode & 0o022:
                return json.load(file)
    return None


def _record(path: Path, state: list[int] | None) -> None:
    # In a folder that cannot be written, each opening checks the file.
    with suppress(OSError), atomic_replace(_record_path(path)) as aside:
        aside.write_text(json.dumps(state), encoding="utf-8")
        aside.chmod(0o600)
