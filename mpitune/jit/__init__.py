"""Compilation by Numba: no other package imports it.

A kernel is a function over NamedTuples of arrays that Numba compiles. Kernels allocate nothing: the caller passes the
arrays that they fill.

- `compiler`: how kernels are compiled;
- `cache`: where compiled code is kept;
- `listed`: the kernels that most jobs need, compiled side by side before they are needed.
"""

from mpitune.jit.compiler import Kernel, at, compilation_reported, inlined, int64, kernel, prefetch, uint64
from mpitune.jit.listed import MOST_COMPILING, Listed, all_compiled, listed_kernels, note_compiled, record

__all__ = [
    "MOST_COMPILING",
    "Kernel",
    "Listed",
    "all_compiled",
    "at",
    "compilation_reported",
    "inlined",
    "int64",
    "kernel",
    "listed_kernels",
    "note_compiled",
    "prefetch",
    "record",
    "uint64",
]
