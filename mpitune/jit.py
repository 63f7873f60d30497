"""Compilation by Numba: the only module that imports it.

A kernel is a function over NamedTuples of arrays that Numba compiles. Kernels allocate nothing: the caller passes the
arrays that they fill. They can therefore be compiled without reference counting (the private option ``_nrt=False``),
which is 2 to 4 times faster where kernels pass arrays to one another. If a future Numba drops that option, the same
kernels are compiled with reference counting.

Compiled code is cached on disk, in a folder named after a digest of the sources that contain ``mpitune.jit`` and of
``NUMBA_BOUNDSCHECK``. (A module without kernels uses ``from mpitune import jit``: a change of it compiles nothing
again.) Numba's own cache checks only the file of the outermost function: it would miss a change in a kernel that this
function calls, and a change of the bounds check.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

# With coloured error messages, Numba writes terminal codes to standard output at the end of every process.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import numba
import numpy as np
from llvmlite import ir
from numba.core import event, types
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

LOG = logging.getLogger(__name__)
REPORTED = 60.0
"""Seconds between two messages about compilation."""

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> str | None:
    """Folder for compiled kernels: NUMBA_CACHE_DIR if set, else one folder for each version of the kernels' sources.

    It is in the temporary directory if the home directory is not writable, as on the nodes of some clusters. None if
    neither can be written and trusted.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return os.environ["NUMBA_CACHE_DIR"]
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "").encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        content = source.read_bytes()
        if b"mpitune.jit" in content or source.samefile(__file__):
            digest.update(content)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpitune"
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return str(home / digest.hexdigest())
    temporary = Path(tempfile.gettempdir()) / f"mpitune-{os.getuid()}"
    with suppress(OSError):
        temporary.mkdir(mode=0o700, exist_ok=True)
    if _make_private(temporary):
        return str(temporary / digest.hexdigest())
    LOG.warning(
        "%s: found no folder that only this user may write to: kernels are compiled anew in each process", temporary
    )
    return None


def _make_private(folder: Path) -> bool:
    """Close ``folder`` to other users; False if others can have put files into it: Numba runs what its cache holds."""
    with suppress(OSError):
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
            folder.chmod(0o700)
            return True
    return False


_CACHE_FOLDER = _cache_folder()
vars(numba.config)["CACHE_DIR"] = _CACHE_FOLDER or ""
_OPTIONS: dict[str, Any] = {"cache": _CACHE_FOLDER is not None, "error_model": "numpy"}
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
    compiled: F = numba.njit(**_OPTIONS)(function)
    return compiled


def inlined(function: F) -> F:
    """Like `kernel`, for the bodies of inner loops: always compiled into the calling kernel, whatever its size.

    A call that is not inlined passes every field of every array on the stack.
    """
    compiled: F = numba.njit(forceinline=True, **_OPTIONS)(function)
    return compiled


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
    """Pass ``message`` to ``log`` when the block compiles a kernel, but not again within `REPORTED` seconds.

    Never if all kernels are loaded from the disk.
    """

    class Listener(event.Listener):
        last = -REPORTED

        def on_start(self, _: event.Event) -> None:
            if time.monotonic() - self.last >= REPORTED:
                self.last = time.monotonic()
                log(message)

        def on_end(self, _: event.Event) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield
