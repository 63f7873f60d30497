"""Compilation by Numba: the only module that imports it.

A kernel is a function over NamedTuples of arrays that Numba compiles. Kernels allocate nothing: the caller passes the
arrays that they fill. They can therefore be compiled without reference counting (the private option ``_nrt=False``),
which is 2 to 4 times faster where kernels pass arrays to one another. If a future Numba drops that option, the same
kernels are compiled with reference counting.

Compiled code is cached on disk, in a folder named after a digest of the sources that contain ``mpitune.jit``, of the
versions of Numba and Python, and of ``NUMBA_BOUNDSCHECK``. (A module without kernels uses ``from mpitune import jit``:
a change of it compiles nothing again.) Numba's own cache checks only the file of the outermost function: it would miss
a change in a kernel that this function calls, and a change of the bounds check. It also raises errors where a file is
damaged or cannot be written. Here, whatever is wrong with the cache, kernels are compiled. Of the processes that share
a cache, one compiles a kernel, and the others wait and load it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import pickle
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

# With coloured error messages, Numba writes terminal codes to standard output at the end of every process.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import numba
import numpy as np
from llvmlite import ir
from numba.core import event, types
from numba.core.caching import NullCache, _cache_log
from numba.core.compiler import CompileResult
from numba.core.options import DefaultOptions
from numba.core.serialize import dumps
from numba.extending import intrinsic

LOG = logging.getLogger(__name__)
REPORTED = 30.0
"""Seconds between two messages about compilation."""
LOCKS = ".locks"
"""The name of the file of locks in the folder of compiled kernels."""

F = TypeVar("F", bound=Callable[..., Any])

# Numba's parts have no types.
_njit: Any = numba.njit
_pickled: Callable[[Any], bytes] = dumps
_rebuilt: Callable[..., Any] = CompileResult._rebuild
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
                digest, content = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
                if digest == _digest(content):
                    return content
        return b""

    def write(self, name: str, content: bytes) -> None:
        """Write file ``name``, in one step for other processes; nothing if that has failed before."""
        if self._given_up or self._path is None:
            return
        aside = self._path / f"{name}.{secrets.token_hex(8)}"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(_digest(content) + content)
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
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        content = source.read_bytes()
        if b"mpitune.jit" in content or source.samefile(__file__):
            digest.update(content)
    return digest.hexdigest()


_DIGEST_SIZE = 16


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_SIZE).digest()


CACHE = CacheFolder()


class _KernelCache(NullCache):
    """The compiled versions of one kernel: in `CACHE`, a file for each signature and kind of processor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._locked: list[str] = []

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled version, or None if there is none that can be used."""
        # What the code is linked with must be there before it is loaded.
        target_context.refresh()
        key = self._key(sig, target_context)
        found = self._load(key, target_context)
        if found is None:
            CACHE.lock(_file(key))
            self._locked.append(_file(key))
            found = self._load(key, target_context)
        return found

    def unlock(self) -> None:
        """After compilation, or in its stead: let other processes look again for what they wait for."""
        while self._locked:
            CACHE.unlock(self._locked.pop())

    def _load(self, key: tuple[Any, ...], target_context: Any) -> Any:
        # Whatever goes wrong with a file is mended by compiling again.
        with suppress(Exception):
            saved, parts = pickle.loads(CACHE.read(_file(key)))
            # Types that differ may have the same name.
            if saved == key:
                return _rebuilt(target_context, *parts)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled version, unless it contains addresses of this process."""
        if not data.library.has_dynamic_globals:
            key = self._key(sig, data.target_context)
            CACHE.write(_file(key), _pickled((key, data._reduce())))

    def _key(self, sig: Any, target_context: Any) -> tuple[Any, ...]:
        return self._name, sig, target_context.codegen().magic_tuple()


def _file(key: tuple[Any, ...]) -> str:
    return _digest(repr(key).encode()).hex()


_OPTIONS: dict[str, Any] = {"error_model": "numpy"}
if hasattr(DefaultOptions, "_nrt"):
    _OPTIONS |= {"_nrt": False}

int64 = cast(Callable[[Any], int], numba.int64)
"""Conversion to the integer type of the kernels. An argument of another width would compile a kernel again."""
uint64 = cast(Callable[[Any], int], numba.uint64)
"""Conversion to the unsigned type, for hashes."""
at = uint64
"""Conversion of an index. An unsigned index cannot be negative, so inner loops need no check for that."""


def kernel(function: F) -> F:
    """Compile ``function`` with Numba; under ``NUMBA_DISABLE_JIT=1`` it stays plain Python."""
    return _compiled(function)


def inlined(function: F) -> F:
    """Like `kernel`, for the bodies of inner loops: always compiled into the calling kernel, whatever its size.

    A call that is not inlined passes every field of every array on the stack.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: F, **options: bool) -> F:
    compiled = _njit(**_OPTIONS, **options)(function)
    # The version of the cache tells nothing of functions elsewhere, and the name nothing of those within others.
    if function.__module__.startswith("mpitune.") and function.__qualname__.isidentifier() and compiled is not function:
        compiled._cache = _KernelCache(function)
        compiled.compile = _unlocking(compiled)
    return cast(F, compiled)


def _unlocking(dispatcher: Any) -> Callable[[Any], Any]:
    """The method ``compile`` of a kernel, which loads it instead if it can, and lets waiting processes go on."""
    compile_or_load = dispatcher.compile

    def compile(signature: Any) -> Any:
        try:
            return compile_or_load(signature)
        finally:
            dispatcher._cache.unlock()

    return compile


@intrinsic
def _prefetch(_: Any, array: Any, __: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        # To be read, to be kept in all caches, data.
        options = [number(0), number(3), number(1)]
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind), [place, *options])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


def _do_nothing(array: np.ndarray, index: int) -> None:
    pass


prefetch = cast(Callable[[np.ndarray, int], None], _do_nothing if vars(numba.config)["DISABLE_JIT"] else _prefetch)
"""``prefetch(array, at(i))``: load the cache line of ``array[i]`` (one axis) without waiting for it."""


@contextmanager
def compilation_reported(log: Callable[[str], None], message: str) -> Iterator[None]:
    """Pass ``message``, and how many kernels are compiled, to ``log`` when the block compiles one.

    Not again within `REPORTED` seconds.

    Never if all kernels are loaded from the disk.
    """

    class Listener(event.Listener):
        last = -REPORTED
        compiled = 0

        def on_start(self, _: event.Event) -> None:
            if time.monotonic() - self.last >= REPORTED:
                self.last = time.monotonic()
                log(f"{message}; {self.compiled} compiled so far" if self.compiled else message)

        def on_end(self, _: event.Event) -> None:
            self.compiled += 1

    with event.install_listener("numba:compile", Listener()):
        yield
