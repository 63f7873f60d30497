"""Atomic writing: a file is replaced by its complete new content or stays as it was."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, cast

from mpitune.files import writing
from mpitune.ownership import PART, check_replaceable, replaces


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """A temporary file to write to, which replaces ``path`` durably (fsync) when the block ends.

    The new file has the permissions of the old one; a symbolic link stays, and the file that it names is replaced. If
    the block raises, or the disk is full (OSError), ``path`` stays as it was. A missing folder of ``path`` is created,
    but not its parent: if somebody has removed that, it is not created again. Raises UsageError if the command reads
    ``path``.
    """
    check_replaceable(path)
    path = _resolved(path)
    path.parent.mkdir(exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) & 0o777 if path.exists() else None
    aside, descriptor = _create_part(path, 0o666 if mode is None else 0o600)
    try:
        yield aside
        _fsync(aside)
        if mode is not None:
            aside.chmod(mode)
        os.replace(aside, path)
        # The entry in the folder needs an fsync of its own.
        _fsync(path.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
    finally:
        os.close(descriptor)


def _resolved(path: Path) -> Path:
    """The file that ``path`` names. Raises PermissionError for a link that another user has placed."""
    if path.is_symlink() and path.lstat().st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EACCES, "a symbolic link of another user")
    resolved = Path(os.path.realpath(path))
    if resolved.is_symlink():  # it leads to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return resolved


def _create_part(path: Path, mode: int) -> tuple[Path, int]:
    """Create the temporary file for ``path``, with permissions ``mode``; returns it, and a descriptor that locks it.

    Its name is the same in all attempts, so that none leaves more than one file. A file of that name that another
    process is writing or that cannot be removed is left alone: the name is then a random one.
    """
    usual = path.with_name(f".{path.name}{PART}")
    _remove_left_behind(usual)
    for aside in (usual, path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")):
        # A link or a file that somebody else has placed under the name is never written to.
        with suppress(FileExistsError):
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            # Between the two calls, another process may have taken it for one that was left behind.
            if _lock(descriptor) and aside.exists() and os.path.samestat(os.fstat(descriptor), aside.lstat()):
                return aside, descriptor
            os.close(descriptor)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _remove_left_behind(part: Path) -> None:
    """Remove ``part``, which a killed process may have left, unless a process is writing it."""
    check_replaceable(part)
    with suppress(OSError):
        if part.is_symlink():
            part.unlink()
            return
        # On NFS, only a file that is open for writing can be locked.
        descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if _lock(descriptor):
                part.unlink()
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file; False if another process has locked it. Some network file systems have no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


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


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when it is closed; errors as in `mpitune.files.writing`."""
    with writing(path), open_atomic(path) as file:
        yield file


def check_output(path: Path) -> None:
    """Note the output ``path``, and raise the error that writing it would raise, before the work."""
    with writing(path):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISREG(mode):
            tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent).close()
    replaces(path)


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
