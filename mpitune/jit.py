"""The one door to Numba.

A kernel is a function over NamedTuples of arrays that Numba compiles. Kernels allocate nothing: whoever calls them
passes in the arrays that they fill. That lets them be compiled without reference counting (the private option
``_nrt=False``), which is 2 to 4 times faster where arrays are handed from kernel to kernel; should a future Numba
drop that option, the same kernels are compiled with reference counting.

Compiled code is cached on disk, in a folder named after a digest of the package's sources: Numba's own cache looks at
the file of the outermost function only and would miss a change in a kernel that it calls. It does not see whether
bounds are checked (``NUMBA_BOUNDSCHECK=1``) either.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

# With coloured error messages, Numba makes every process write terminal codes to standard output at its end.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import numba
from numba.core.errors import NumbaError

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> str:
    """The folder for compiled kernels: NUMBA_CACHE_DIR where set, else one for each version of the kernels' sources.

    Where nothing can be written in the home folder (nodes of some clusters), it lies with the temporary files.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return os.environ["NUMBA_CACHE_DIR"]
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "").encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        content = source.read_bytes()
        if b"mpitune.jit" in content or source.samefile(__file__):
            digest.update(content)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpitune"
    for folder in (home, Path(tempfile.gettempdir()) / f"mpitune-{os.getuid()}"):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return str(folder / digest.hexdigest())
    return str(home / digest.hexdigest())


def _without_counting_works() -> bool:
    try:
        numba.njit(**_WITHOUT_COUNTING)(lambda: 0)()
    except (NumbaError, TypeError, KeyError):
        return False
    return True


vars(numba.config)["CACHE_DIR"] = _cache_folder()
_WITHOUT_COUNTING: dict[str, Any] = {"_nrt": False}
_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy"}
if _without_counting_works():
    _OPTIONS |= _WITHOUT_COUNTING

int64 = cast(Callable[[Any], int], numba.int64)
"""A number as the integer that kernels compute with. Arguments of another width would compile a kernel once more."""
uint64 = cast(Callable[[Any], int], numba.uint64)
"""The same without a sign, for hashes."""
at = uint64
"""An index. Without a sign it cannot count from the end: inner loops are spared the check."""


def kernel(function: F) -> F:
    """Compile ``function`` with Numba (or leave it as it is under ``NUMBA_DISABLE_JIT=1``)."""
    compiled: F = numba.njit(**_OPTIONS)(function)
    return compiled


def inlined(function: F) -> F:
    """`kernel`, for what inner loops do: compiled into each kernel that calls it, however large that becomes.

    A call that is left standing passes every word of every array on the stack.
    """
    compiled: F = numba.njit(forceinline=True, **_OPTIONS)(function)
    return compiled
