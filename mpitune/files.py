"""The door to the file system: what other modules open, look at, list, make and remove goes through here.

An error of the operating system becomes one of mpitune's, with the file that failed, whether it was read or written,
and the exit code of who can help: the user (2 and 3) or the machine (4).
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mpitune.errors import DataError, MachineError, MpituneError, UsageError

STANDARD_INPUT = Path("/dev/stdin")

_MACHINE = {
    *(errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE, errno.ENOMEM, errno.ETIMEDOUT),
    *(errno.EMFILE, errno.ENFILE, errno.ENODEV, errno.ENXIO, errno.EREMOTEIO, errno.ENOLCK, errno.EBUSY),
}
"""Errors that no other name or permission would prevent: the disk is full or broken, a resource is exhausted."""


def read_error(path: Path, error: OSError) -> MpituneError:
    """The error to raise where reading ``path``, or looking at it, failed with ``error``."""
    if error.errno in _MACHINE:
        return MachineError(f"{path}: cannot be read: {_reason(error)}")
    if isinstance(error, IsADirectoryError):
        return DataError.at(path, None, found="a folder", expected="a readable file")
    hint = " (an environment variable is written ${NAME})" if "$" in str(path) else ""
    return DataError.at(path, None, found=_reason(error).lower(), expected=f"a readable file{hint}")


def write_error(path: Path, error: OSError, otherwise: type[MpituneError] = UsageError) -> MpituneError:
    """The error to raise where writing, making or removing ``path`` failed with ``error``.

    ``otherwise``: its type unless the machine is to blame.
    """
    kind = MachineError if error.errno in _MACHINE else otherwise
    return kind(f"{path}: cannot be written: {_reason(error)}")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise `read_error` for an OSError while ``path`` is read."""
    try:
        yield
    except OSError as error:
        raise read_error(path, error) from None


@contextmanager
def writing(path: Path, otherwise: type[MpituneError] = UsageError) -> Iterator[None]:
    """Raise `write_error` for an OSError while ``path`` is written."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error, otherwise) from error


def status(path: Path) -> os.stat_result | None:
    """The status of what ``path`` names, links followed; None if there is nothing.

    Raises DataError or MachineError if that cannot be told: a folder on the way may not be entered, a link leads to
    itself, the disk fails.
    """
    try:
        return os.stat(path)
    except ValueError:  # a NUL character
        return None
    except OSError as error:
        # No file has a name that is too long.
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return None
        raise read_error(path, error) from None


def check_place(folder: Path) -> None:
    """Raise `write_error` if it cannot be told whether there is a ``folder``, which is to be written to."""
    with writing(folder), suppress(FileNotFoundError, NotADirectoryError):
        os.stat(folder)


def exists(path: Path) -> bool:
    """True if there is something of this name; errors as in `status`."""
    return status(path) is not None


def is_file(path: Path) -> bool:
    """True for a regular file; errors as in `status`."""
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_folder(path: Path) -> bool:
    """True for a folder; errors as in `status`."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def matching(folder: Path, pattern: str) -> list[Path]:
    """The entries of ``folder`` that match ``pattern`` (as in `Path.glob`), sorted; none if there is no such folder.

    Raises as `status` does if the folder cannot be listed.
    """
    *_, name = (parts := pattern.split("/"))
    if len(parts) > 1:
        return [path for inner in matching(folder, parts[0]) for path in matching(inner, "/".join(parts[1:]))]
    try:
        with reading(folder):
            try:
                names = os.listdir(folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
    except ValueError:  # a NUL character
        return []
    return sorted(folder / each for each in names if Path(each).match(name))


def open_to_read(path: Path) -> io.BufferedReader[Any]:
    """Open a file for reading its bytes; both opening and reading raise `read_error`."""
    return io.BufferedReader(_File(path))


def open_regular(path: Path) -> io.BufferedReader[Any]:
    """`open_to_read` of a regular file, which alone has an end, and can be read more than once; else DataError."""
    file = io.BufferedReader(_File(path, os.O_NONBLOCK))  # without waiting for the writer of a pipe
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        expected = "a regular file, as it is read more than once"
        raise DataError.at(path, None, found="a pipe or a device", expected=expected)
    return file


def size_of(path: Path) -> int:
    """The size of a regular file in bytes. Raises as `open_regular` does."""
    with open_regular(path) as file:
        return os.fstat(file.fileno()).st_size


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a file. Raises `read_error`, and DataError if it has more than ``most`` bytes."""
    with open_to_read(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise DataError.at(path, None, found=f"more than {most >> 20} MB", expected="less: is this the right file?")
    return content


class _File(io.FileIO):
    """A file whose name is in the errors of reading."""

    def __init__(self, path: Path, flags: int = 0) -> None:
        self._path = path
        with reading(path):
            super().__init__(path, "rb", opener=lambda name, usual: os.open(name, usual | flags))

    def readinto(self, buffer: Any) -> int:
        with reading(self._path):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with reading(self._path):
            return super().readall()


def make_folder(path: Path, otherwise: type[MpituneError] = UsageError) -> None:
    """Make a folder and those above it, where they are missing. Raises `write_error`."""
    with writing(path, otherwise):
        path.mkdir(parents=True, exist_ok=True)


def working_folder() -> Path:
    """The working folder. Raises MachineError if it no longer exists: relative names have no meaning then."""
    try:
        return Path.cwd()
    except OSError as error:
        found = f"found none ({_reason(error)})"
        raise MachineError(f"the working folder: {found}, expected one that exists") from None


def free_space(folder: Path) -> int:
    """The free bytes on the disk of ``folder``, or of the first folder above it that exists. Raises `write_error`."""
    with writing(folder):
        return shutil.disk_usage(existing(folder)).free


def is_writable(folder: Path) -> bool:
    """True if this user may write to ``folder``, or create it."""
    with writing(folder):
        return os.access(existing(folder), os.W_OK)


def existing(folder: Path) -> Path:
    """``folder``, or the first above it that exists. Raises OSError where that cannot be told."""
    for path in (folder, *folder.absolute().parents):
        try:
            os.stat(path)
        except FileNotFoundError:
            continue
        return path
    return folder


def temporary_place() -> Path:
    """The system's folder of temporary files. Raises MachineError if it has no folder that can be written."""
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        found = f"found no folder that can be written ({_reason(error)})"
        raise MachineError(f"temporary files: {found}, expected one: set the environment variable TMPDIR") from None


@contextmanager
def temporary_folder(beside: Path | None = None, prefix: str = "mpitune-") -> Iterator[Path]:
    """A folder that is removed at the end, in ``beside`` or where the system has temporary files.

    Raises MachineError if that cannot be written.
    """
    with writing(where := beside or temporary_place(), MachineError):
        made = tempfile.TemporaryDirectory(dir=where, prefix=prefix, ignore_cleanup_errors=True)
    with made as name:
        yield Path(name)
