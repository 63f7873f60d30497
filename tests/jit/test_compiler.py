"""Kernels: how they are compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
from numba.core import event

from mpitune.jit import at, compiler, inlined, int64, kernel, prefetch, uint64


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


def twice(pair: Pair, n: int) -> int:
    total = int64(0)
    for k in range(n):
        pair.b[k] = 2 * pair.a[k]
        total += int64(pair.b[k])
    return total


@pytest.mark.kernel
@pytest.mark.parametrize("counting", [False, True])
def test_kernels_work_with_and_without_reference_counting(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, counting: bool
) -> None:
    options = {name: value for name, value in compiler._OPTIONS.items() if name != "_nrt"}
    monkeypatch.setattr(compiler, "_OPTIONS", options | ({} if counting else {"_nrt": False}))
    compiler._flags.cache_clear()
    request.addfinalizer(compiler._flags.cache_clear)
    for compiled in (kernel, inlined):
        pair = Pair(np.arange(5, dtype=np.int32), np.zeros(5, dtype=np.int32))
        assert compiled(twice)(pair, 4) == 12
        assert pair.b.tolist() == [0, 2, 4, 6, 0]


@pytest.mark.kernel
def test_casts_are_64_bits_wide_in_kernels_and_outside() -> None:
    wide = kernel(lambda a: int64(a[0]) << 32 | int64(uint64(a[0]) >> uint64(1)))
    assert wide(np.array([6], dtype=np.int32)) == (6 << 32 | 3)
    assert int64(np.int32(7)) == uint64(7) == 7


@pytest.mark.kernel
def test_prefetching_is_compiled_to_an_instruction_and_changes_nothing() -> None:
    record = np.zeros(4, dtype=[("key", "<i8"), ("value", "<f4")])

    def ask(array: np.ndarray, i: int) -> None:
        prefetch(array, at(i))

    compiled = kernel(ask)
    compiled(record, 3)
    assert not record["key"].any() and not record["value"].any()
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        assert all("llvm.prefetch" in code for code in compiled.inspect_llvm().values())


@contextmanager
def translated() -> Iterator[list[str]]:
    """The names of the functions that are translated meanwhile."""
    names: list[str] = []
    with event.install_recorder("numba:compile") as recorder:
        yield names
    names += [seen.data["dispatcher"].py_func.__name__ for _, seen in recorder.buffer if seen.is_start]


only_compiled = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")


@only_compiled
def test_a_kernel_has_one_version_for_all_constants() -> None:
    @kernel
    def plus(x: int, by: int) -> int:
        return x + by

    @kernel
    def sums(x: int) -> int:
        return plus(x, 1) + plus(x, 2) + plus(x, x)

    with translated() as names:
        assert sums(10) == 11 + 12 + 20
    assert names == ["sums", "plus"]
    with translated() as names:
        assert plus(1, 2) == 3
    assert names == []


@only_compiled
def test_large_kernels_are_called_and_inlined_ones_copied() -> None:
    def many_sums(a: np.ndarray) -> int:
        total = 0
        for i in range(len(a)):
            for j in range(len(a)):
                for k in range(len(a)):
                    total += a[i] * a[j] - a[k] * a[i] + a[i] // (a[j] + 7) - a[j] % (a[k] + 9)
        return total

    a = np.arange(4)
    for compile_, called in ((kernel, True), (inlined, False)):
        inner = compile_(many_sums)

        def outer(a: np.ndarray) -> int:
            return inner(a) + inner(a[1:])  # noqa: B023

        compiled = kernel(outer)
        assert compiled(a) == many_sums(a) + many_sums(a[1:])
        [code] = compiled.inspect_llvm().values()
        assert bool(re.search(r"call .*@.*many_sums", code)) is called


@pytest.mark.kernel
def test_variables_that_are_assigned_once_and_others() -> None:
    """In a loop, after it, in branches, overwritten arguments, and those that only some paths assign."""

    def paths(pair: Pair, n: int) -> int:
        first = pair.a
        swapped = n > 2
        if swapped:
            first = pair.b
        total, last = int64(0), int64(-1)
        for i in range(n):
            value = int64(first[i])
            if value % 2 == 0:
                doubled = 2 * value
                total += doubled
            else:
                last = value
            n = n - 1
        while n > -3:
            n -= 1
            inner = n * n
            if inner > 100:
                break
            total += inner
        return 1000 * total + 10 * last + int64(swapped) + n

    compiled = kernel(paths)
    pair = Pair(np.array([1, 2, 3, 4], dtype=np.int32), np.array([6, 5, 4, 3], dtype=np.int32))
    for n in range(5):
        assert compiled(pair, n) == paths(pair, n)


@pytest.mark.kernel
@pytest.mark.skipif(os.environ.get("NUMBA_BOUNDSCHECK") != "1", reason="for NUMBA_BOUNDSCHECK=1")
def test_an_index_out_of_bounds_in_a_kernel_that_is_called_is_an_error() -> None:
    @kernel
    def get(a: np.ndarray, i: int) -> int:
        return a[i]

    @kernel
    def outer(a: np.ndarray, i: int) -> int:
        return get(a, i + 1)

    assert outer(np.arange(3), 1) == 2
    with pytest.raises(IndexError):
        outer(np.arange(3), 2)
