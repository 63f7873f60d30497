"""Kernels as plain Python, under ``NUMBA_DISABLE_JIT=1``: there a test must be small."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def seeds(count: int) -> Sequence[int]:
    """The seeds of random cases: so many, or every eighth in plain Python."""
    return fewer(range(count))


def fewer(cases: Sequence[T]) -> Sequence[T]:
    """All ``cases``, or every eighth in plain Python."""
    return cases[::8] if os.environ.get("NUMBA_DISABLE_JIT") == "1" else cases
