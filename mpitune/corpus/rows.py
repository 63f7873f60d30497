"""Rows of different lengths, laid end to end: row i is ``flat[ptr[i]:ptr[i + 1]]``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def ends(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """int64 [n + 1]: ``ptr`` of rows of these lengths."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def chosen(ptr: np.ndarray, flat: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``ptr`` and ``flat`` of the rows of these ``numbers``, in their order."""
    length = np.diff(ptr)[numbers]
    new = ends(length)
    place = np.arange(new[-1]) + np.repeat(ptr[numbers] - new[:-1], length)
    return new, flat[place]
