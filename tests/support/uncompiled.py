"""Kernels as plain Python, under ``NUMBA_DISABLE_JIT=1``: there a test must be small."""

from __future__ import annotations

import os

import pytest

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT") == "1"

too_long = pytest.mark.skipif(UNCOMPILED, reason="takes too long in plain Python")
"""For tests on large input, beside others that call the same kernels on small input."""


def seeds(count: int) -> range:
    """The seeds of random cases: so many, or a quarter of them in plain Python."""
    return range(count // 4 if UNCOMPILED else count)
