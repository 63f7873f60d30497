"""The cache of compiled kernels: a folder named after all that compiled code depends on, but for the processor.

That is the digest of the sources that contain ``mpitune.jit``, of the versions of Numba and Python, and of
``NUMBA_BOUNDSCHECK``. (A module without kernels uses ``from mpitune import jit``: a change of it compiles nothing
again.) Numba's own cache checks only the file of the outermost function: it would miss a change in a kernel that this
function calls, and a change of the bounds check. It also raises errors where a file is damaged or cannot be written.
Here, whatever is wrong with the cache, kernels are compiled. Of the processes that share a cache, one compiles a
kernel, and the others wait and load it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numba
from numba.core.caching import _cache_log

LOG = logging.getLogger(__name__)
LOCKS = ".locks"
"""The name of the file of locks in the folder of compiled kernels."""

_log_if_asked: Callable[..., None] = _cache_log  # by NUMBA_DEBUG_CACHE


class CacheFolder:
    """The folder of compiled kernels. Where it cannot be found or written to, a warning says so once."""

    def __init__(self) -> None:
        self._given_up = False

    def read(self, name: str) -> bytes:
        """The content of file ``name``, checked by its digest; empty if it is missing, unreadable or damaged."""
        with suppress(OSError):
            if self._path is not None:
                content = (self._path / name).read_bytes()
                expected, content = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
                if expected == digest(content):
                    return content
        return b""

    def write(self, name: str, content: bytes) -> None:
        """Write file ``name``, in one step for other processes; nothing if that has failed before."""
        if self._given_up or self._path is None:
            return
        aside = self._path / f"{name}.{secrets.token_hex(8)}"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(digest(content) + content)
            aside.replace(self._path / name)
            _log_if_asked("[cache] data saved to %r", name)
        except OSError as error:
            self._give_up(str(self._path.parent), error)
        finally:
            with suppress(OSError):
                aside.unlink()

    def lock(self, name: str) -> None:
        """Wait until no other process has locked ``name``, a hexadecimal number; nothing where files have no locks."""
        with suppress(OSError):
            if self._path is not None and not self._given_up:
                fcntl.lockf(self._locks, fcntl.LOCK_EX, 1, _byte(name))

    def unlock(self, name: str) -> None:
        """Let other processes lock ``name``."""
        with suppress(OSError):
            if self._path is not None and not self._given_up:
                fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, _byte(name))

    @cached_property
    def _locks(self) -> int:
        """The descriptor of a file, of which each kernel has a byte."""
        assert self._path is not None  # checked by the caller
        self._path.mkdir(parents=True, exist_ok=True)
        return os.open(self._path / LOCKS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def has(self, name: str) -> bool:
        """True if there is a file ``name``."""
        return self._path is not None and (self._path / name).exists()

    def _give_up(self, folder: str, error: OSError) -> None:
        self._given_up = True
        LOG.warning("%s: %s: kernels are compiled anew in each process", folder, error.strerror)

    @cached_property
    def _path(self) -> Path | None:
        """``NUMBA_CACHE_DIR`` if set, else the home directory, or the temporary one if that is not writable, as on the
        nodes of some clusters; in it, one folder for each version of the kernels. None if there is none to trust.
        """
        version = _version_of_kernels()
        if os.environ.get("NUMBA_CACHE_DIR"):
            return Path(os.environ["NUMBA_CACHE_DIR"]) / version
        # RuntimeError: HOME is not set, and the system does not know the user.
        with suppress(OSError, RuntimeError):
            home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpitune"
            home.mkdir(parents=True, exist_ok=True)
            if os.access(home, os.W_OK):
                return home / version
        try:
            return _private_temporary_folder() / version
        except OSError as error:
            self._give_up(error.filename or "temporary files", error)
            return None


def _byte(name: str) -> int:
    return int(name[:8], 16)


def _private_temporary_folder() -> Path:
    """A folder that only this user may write to: what the cache holds is run. Raises OSError if there is none."""
    folder = Path(tempfile.gettempdir()) / f"mpitune-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
            folder.chmod(0o700)
            return folder
    raise PermissionError(errno.EACCES, "found no folder that only this user may write to", str(folder))


def _version_of_kernels() -> str:
    """A name that changes with all that compiled code depends on, but for the processor."""
    parts = numba.__version__, sys.implementation.cache_tag, os.environ.get("NUMBA_BOUNDSCHECK", "")
    version = hashlib.blake2b(repr(parts).encode(), digest_size=8)
    here = Path(__file__).parent
    for source in sorted(here.parent.rglob("*.py")):
        content = source.read_bytes()
        if b"mpitune.jit" in content or source.parent == here:
            version.update(content)
    return version.hexdigest()


_DIGEST_SIZE = 16


def digest(content: bytes) -> bytes:
    """The digest of a file of the cache, 16 bytes."""
    return hashlib.blake2b(content, digest_size=_DIGEST_SIZE).digest()


CACHE = CacheFolder()
