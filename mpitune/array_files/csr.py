"""Rows of different lengths in one array (CSR layout): row i is ``flat[ptr[i]:ptr[i + 1]]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from mpitune.jit import at, kernel

CHUNK = 1 << 14
"""Number of rows that `iter_rows` converts to lists at a time: lists take ten times the memory."""


def row_ends(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """int64 [n + 1]: ``ptr`` of rows of these lengths, from 0."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def select_rows(ptr: np.ndarray, flat: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``ptr`` and ``flat`` of the rows with these ``numbers``, in this order."""
    length = ptr[numbers + 1] - ptr[numbers]
    new = row_ends(length)
    place = np.arange(new[-1]) + np.repeat(ptr[numbers] - new[:-1], length)
    return new, flat[place]


def iter_rows(ptr: np.ndarray, flat: np.ndarray) -> Iterator[list[int]]:
    """The rows as lists, one after the other."""
    for first in range(0, len(ptr) - 1, CHUNK):
        bounds = ptr[first : first + CHUNK + 1]
        numbers = flat[bounds[0] : bounds[-1]].tolist()
        yield from (numbers[begin:end] for begin, end in pairwise((bounds - bounds[0]).tolist()))


@kernel
def row_scores(ptr: np.ndarray, column: np.ndarray, value: np.ndarray, weights: np.ndarray, result: np.ndarray) -> None:
    """Fill ``result`` (float64 [rows]) with the product of each row and ``weights``, summed in row order.

    ``ptr``: int64 [rows + 1], ``column``: int32, ``value``: float64, the rows (CSR); ``weights``: float64 [columns].
    """
    for j in range(len(result)):
        score = 0.0
        for e in range(at(ptr[j]), at(ptr[j + 1])):
            score += weights[at(column[e])] * value[e]
        result[j] = score


@kernel
def row_sums(
    ptr: np.ndarray, column: np.ndarray, value: np.ndarray, coefficients: np.ndarray, result: np.ndarray
) -> None:
    """Add the rows, weighted by ``coefficients`` (float64 [rows]), to ``result`` (float64 [columns]).

    ``ptr``: int64 [rows + 1], ``column``: int32, ``value``: float64, the rows (CSR).
    """
    for j in range(len(coefficients)):
        coefficient = coefficients[j]
        for e in range(at(ptr[j]), at(ptr[j + 1])):
            result[at(column[e])] += coefficient * value[e]
