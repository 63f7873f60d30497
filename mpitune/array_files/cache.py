"""`cached`: a file of arrays that is made once from its inputs, and again if it is missing, damaged or stale.

Its manifest has the fingerprints of the inputs, the settings, and the fingerprints of further files made with it. Its
digest and arrays are checked at the first opening, not again while the file stays unchanged: a hidden file beside it
records which file was checked. That counts only if it belongs to the user of this process and nobody else may write to
it: whoever can write to the folder could forge it otherwise.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.arrays import VERSION, Stored, damaged, open_arrays, read_manifest, write_arrays
from mpitune.array_files.atomic import atomic_replace
from mpitune.errors import DataError, UsageError
from mpitune.files import exists, open_regular, status
from mpitune.ownership import locked, remove

LOG = logging.getLogger(__name__)

Check = Callable[[Mapping[str, np.ndarray]], None]
"""Raises ValueError unless arrays are of the right types and sizes and refer to one another within bounds."""


class Recipe(NamedTuple):
    """A file of arrays, and what it depends on."""

    path: Path
    inputs: Sequence[Path]
    """The files that it is made from."""
    settings: Mapping[str, Any]
    """All that it depends on besides (JSON types)."""
    check: Check = lambda arrays: None
    outputs: Sequence[Path] = ()
    """Further files that are made with it."""

    @property
    def former(self) -> Path:
        """The file that earlier versions made instead."""
        return self.path.with_suffix(".json" if self.outputs else ".h5")

    def fault(self) -> str | None:
        """The reason why the file must be made; None if it is sound and up to date."""
        if not exists(self.path):
            return "of an older version" if exists(self.former) else "missing"
        open_regular(self.path).close()  # one that may not be read is not damaged
        try:
            open_checked(self.path, self.check)
        except DataError:
            return "damaged or of an older version"
        manifest = read_manifest(self.path)
        try:
            fresh = manifest["settings"] == self.settings and all(
                _all_unchanged(manifest[kind], paths)
                for kind, paths in (("inputs", self.inputs), ("outputs", self.outputs))
            )
        except (KeyError, TypeError):
            fresh = False  # a manifest that mpitune does not write
        return None if fresh else "stale"


def cached(recipe: Recipe, make: Callable[[], Mapping[str, Stored]]) -> list[str]:
    """Make a file by ``make`` unless it is sound and up to date; returns its name if it was made.

    Raises UsageError if it cannot be written, MachineError if the disk is full.
    """
    path, fault = recipe.path, recipe.fault()
    if fault is None:
        return []
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path.parent, "store"))
        except UsageError as error:
            raise UsageError(f"{path}: {fault}, and cannot be built: {error}") from None
        # Another run may have made it in the meantime.
        fault = recipe.fault()
        if fault is None:
            return []
        made = recipe.outputs[0] if recipe.outputs else path
        LOG.info(f"{made}: building it" if fault == "missing" else f"{made}: {fault}: rebuilding it")
        # Fingerprints are taken before the files are read: the next time notices a change in between.
        manifest = made_from(recipe.inputs, recipe.settings)
        arrays = make()
        write_arrays(path, arrays, {**manifest, "outputs": [fingerprint(file) for file in recipe.outputs]})
        remove(path.parent, recipe.former.name, f".{recipe.former.name}.checked")
    # Checked once here, so that all ranks need not do it.
    open_checked(path, recipe.check)
    return [path.name]


def made_from(inputs: Sequence[Path], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a manifest that identifies what a file is made from."""
    return {"inputs": [fingerprint(path) for path in inputs], "settings": settings}


def content_digest(manifest: Mapping[str, Any]) -> str:
    """A digest of the contents of a file's inputs, and of its settings; it does not depend on paths and times."""
    digests = [Fingerprint(*row).digest for row in manifest["inputs"]]
    return hashlib.blake2b(json.dumps([digests, manifest["settings"]]).encode(), digest_size=16).hexdigest()


def open_checked(path: Path, check: Check) -> dict[str, np.ndarray]:
    """`open_arrays` of a file whose arrays satisfy ``check``.

    Digest and arrays are checked unless this user's last check was of this very file: the same size, times and inode.
    Raises DataError if the file is missing, damaged or of an older version, UsageError if it is of a newer one.
    """
    state = _state(path)
    known = state is not None and _recorded(path) == state
    arrays = open_arrays(path, check_digest=not known)
    if not known:
        try:
            check(arrays)
        except (ValueError, LookupError, TypeError) as error:
            raise damaged(path, error) from None
        # In a folder that cannot be written, each opening checks the file.
        with suppress(OSError), atomic_replace(_record(path)) as aside:
            aside.write_text(json.dumps(state), encoding="utf-8")
            aside.chmod(0o600)
    return arrays


def _state(path: Path) -> list[int] | None:
    """Size, times and inode, which tell a changed or replaced file; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Unlike the time of the last change to the content, that of the last change to the inode cannot be set back.
    return [VERSION, found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]


def _record(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _recorded(path: Path) -> object:
    """The state of the file at its last check; None if there is no record of this user."""
    with suppress(OSError, ValueError):
        descriptor = os.open(_record(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, encoding="utf-8") as file:
            found = os.fstat(descriptor)
            if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) and not found.st_mode & 0o022:
                return json.load(file)
    return None


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


def _all_unchanged(known: Sequence[Sequence[Any]], paths: Sequence[Path]) -> bool:
    """True if each of ``paths`` has the content of its fingerprint, a row of ``known``, as read from JSON."""
    rows = [Fingerprint(*row) for row in known]
    return len(rows) == len(paths) and all(map(unchanged, rows, paths))


def unchanged(known: Fingerprint, path: Path) -> bool:
    """True if ``path`` has the content of fingerprint ``known``: by path, size and time, or else by the digest."""
    found = status(path)
    if found is None or found.st_size != known.size:
        return False
    same_file = os.path.abspath(path) == known.path and found.st_mtime_ns == known.mtime_ns
    return same_file or fingerprint(path).digest == known.digest
