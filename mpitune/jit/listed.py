"""The kernels that most jobs need, and the types that they are called with: compiled before they are needed.

The file ``kernels.json`` has a kernel a line: its name, and its arguments as `describe` writes them. Processes compile
them side by side, each some of them. ``python -m mpitune.cli.warmup --record`` makes the file anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import types
from numba.np.numpy_support import as_dtype

from mpitune.jit.cache import CACHE, digest
from mpitune.jit.compiler import Kernel

LIST = Path(__file__).with_name("kernels.json")
MOST_COMPILING = 8
"""Processes of a machine that compile at the same time, at most: each needs 0.4 GB for that."""


class Listed(NamedTuple):
    """A kernel with types of arguments."""

    name: str
    """With its module's."""
    arguments: list[Any]
    """See `describe`."""

    def compile(self) -> None:
        """Compile the kernel, or load it if that is done."""
        kernel = self._kernel
        if isinstance(kernel, Kernel):
            kernel.compile(self._types)

    def file(self) -> str:
        """The name of its file in the cache; empty without compilation."""
        kernel = self._kernel
        return kernel.file(self._types) if isinstance(kernel, Kernel) else ""

    @property
    def _kernel(self) -> Any:
        module, _, name = self.name.rpartition(".")
        return getattr(import_module(module), name)

    @property
    def _types(self) -> tuple[Any, ...]:
        return tuple(numba.typeof(_example(argument)) for argument in self.arguments)


def listed_kernels(without: Collection[str] = ()) -> list[Listed]:
    """The kernels of the list that are in none of the packages ``without``; those that take longest come first."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [each for each in (Listed(*json.loads(line)) for line in lines) if not each.name.startswith(tuple(without))]


def all_compiled(kernels: list[Listed]) -> bool:
    """True if `note_compiled` was called for these kernels, or compiled functions are switched off."""
    return not kernels[0].file() or CACHE.has(_mark(kernels))


def note_compiled(kernels: list[Listed]) -> None:
    """Keep in mind that these kernels are compiled for this kind of processor, which takes long to look up."""
    if not all_compiled(kernels):
        CACHE.write(_mark(kernels), b"")


def _mark(kernels: list[Listed]) -> str:
    # The file of the first depends on the processor.
    return digest(repr([kernels[0].file(), *(kernel.name for kernel in kernels)]).encode()).hex()


def record(called: Iterable[Kernel]) -> None:
    """Write the list: all versions of kernels that Python has called, by the size of their machine code."""
    versions = [(kernel, *version) for kernel in called for version in kernel.overloads.items()]
    versions.sort(key=lambda version: len(version[2].library.code), reverse=True)
    lines = [json.dumps([kernel.name, [describe(kind) for kind in arguments]]) for kernel, arguments, _ in versions]
    LIST.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def describe(kind: Any) -> Any:
    """A type of Numba in JSON.

    ``"int64"``, also for other scalars; ``["int32", 1]`` for an array of one axis, with a list of fields and types for
    an array of records, and with further items ``"aligned"`` (its records are) and ``"read-only"``;
    ``{"module.Class": [..]}`` for a NamedTuple.
    """
    if isinstance(kind, types.BaseNamedTuple):
        of = kind.instance_class
        return {f"{of.__module__}.{of.__qualname__}": [describe(field) for field in kind.types]}
    if isinstance(kind, types.Array):
        dtype = as_dtype(kind.dtype)
        content = [[name, part.str] for name, (part, *_) in dtype.fields.items()] if dtype.fields else dtype.name
        marks = {"aligned": dtype.isalignedstruct, "read-only": not kind.mutable}
        return [content, kind.ndim, *(mark for mark, given in marks.items() if given)]
    if isinstance(kind, types.BaseTuple):
        return {"": [describe(part) for part in kind.types]}
    return as_dtype(kind).name


def _example(description: Any) -> Any:
    """A value of the type that ``description`` stands for."""
    if isinstance(description, str):
        return np.dtype(description).type(0)
    if isinstance(description, dict):
        [(name, parts)] = description.items()
        values = tuple(map(_example, parts))
        module, _, of = name.rpartition(".")
        return getattr(import_module(module), of)(*values) if of else values
    content, axes, *marks = description
    fields = content if isinstance(content, str) else [(name, part) for name, part in content]
    array = np.zeros(axes * (0,), np.dtype(fields, align="aligned" in marks))
    array.setflags(write="read-only" not in marks)
    return array
