"""Kernels as plain Python, under ``NUMBA_DISABLE_JIT=1``: there a test must be small."""

from __future__ import annotations

import os


def seeds(count: int) -> range:
    """The seeds of random cases: so many, or a quarter of them in plain Python."""
    return range(count // 4 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else count)
