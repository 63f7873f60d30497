"""Rows of different lengths, laid end to end: row i is ``flat[ptr[i]:ptr[i + 1]]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

CHUNK = 1 << 14
"""How many rows are lists of Python's numbers at a time: these take ten times the memory."""


def row_ends(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """int64 [n + 1]: ``ptr`` of rows of these lengths, from 0."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def select_rows(ptr: np.ndarray, flat: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``ptr`` and ``flat`` of the rows of these ``numbers``, in their order."""
    length = np.diff(ptr)[numbers]
    new = row_ends(length)
    place = np.arange(new[-1]) + np.repeat(ptr[numbers] - new[:-1], length)
    return new, flat[place]


def iter_rows(ptr: np.ndarray, flat: np.ndarray) -> Iterator[list[int]]:
    """The rows in turn."""
    for first in range(0, len(ptr) - 1, CHUNK):
        bounds = ptr[first : first + CHUNK + 1]
        numbers = flat[bounds[0] : bounds[-1]].tolist()
        yield from (numbers[begin:end] for begin, end in pairwise((bounds - bounds[0]).tolist()))
