"""Slow plain twins of the exchange: mixing and selection on a dense matrix of Z rows, one per shard."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np


def mean(matrix: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each column, the rows added up in order."""
    out = []
    for column in zip(*matrix, strict=True):
        total = 0.0
        for value in column:
            total = total + value
        out.append(total / len(matrix))
    return out


def _l2(column: Sequence[float]) -> float:
    total = 0.0
    for value in column:
        total = total + value * value
    return float(np.sqrt(total))


def _sum(column: Sequence[float]) -> float:
    total = 0.0
    for value in column:
        total = total + value
    return total


NORMS: dict[str, Callable[[Sequence[float]], float]] = {
    "l0": lambda column: float(len([value for value in column if value != 0])),
    "l1": lambda column: _sum([abs(value) for value in column]),
    "l2": _l2,
    "linf": lambda column: max(abs(value) for value in column),
    "mean": lambda column: abs(_sum(column) / len(column)),
    "median": lambda column: abs(statistics.median(column)),
}


def select(
    matrix: Sequence[Sequence[float]], ids: Sequence[int], norm: str, k: int | None, threshold: float | None
) -> tuple[list[int], list[float], int, float | None]:
    """Ids ascending, means, number of non-zero columns, lambda: by sorting all columns."""
    norms = [NORMS[norm](column) for column in zip(*matrix, strict=True)]
    means = mean(matrix)
    ranked = sorted((-norms[d], ids[d], means[d]) for d in range(len(ids)) if norms[d] > 0)
    if threshold is not None:
        kept = [column for column in ranked if -column[0] >= threshold]
    else:
        assert k is not None
        kept = ranked[:k]
        threshold = -kept[-1][0] if len(ranked) >= k else None
    chosen = sorted((id_, value) for _, id_, value in kept)
    return [id_ for id_, _ in chosen], [value for _, value in chosen], len(ranked), threshold
