"""Updates by entries of a list: compute a coefficient for each entry, then change all weights at once.

With G the Gram matrix X X^T of the list and s its model scores, an update w += step * (x_a - x_b) is
s += step * (G[a] - G[b]): a pass over the pairs never touches a feature. Sums run in a fixed order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns, same_row
from mpitune.learner.online.rates import Rate, weight_change

ROUNDING = 1e-9
"""Largest difference of a feature's values, as a share of them, that counts as rounding. A sum over the rules of a
derivation depends on their order: with a unit of 1e-16, one step would exceed all other weights for good."""


class RankedPairs(NamedTuple):
    """The pairs of one list, in the order in which they are processed."""

    entries: np.ndarray
    """int32 [pairs, 2]: the preferred entry first."""
    scale: np.ndarray
    """float64 [pairs]: factor of each pair's gradient."""
    margin: np.ndarray
    """float64 [pairs]: the margin w.d that each pair is required to have, at least 0."""


@kernel
def violates(margin: float, required: float) -> bool:
    """True if a pair with the margin w.d = ``margin`` needs an update; ``required``: the margin that it must have."""
    return margin < required if required > 0.0 else margin <= 0.0


@kernel
def fill_gram(columns: FeatureColumns, gram: np.ndarray) -> None:
    """Fill ``gram`` (float64 [k, k]) with the inner products of all rows.

    The squares of constant columns are left out: they cancel in G[a] - G[b].
    """
    k = len(gram)
    for a in range(k):
        for b in range(k):
            gram[a, b] = 0.0
    for c in range(len(columns.slot)):
        start, end = columns.column_ptr[c], columns.column_ptr[c + 1]
        if end - start == k:  # all rows: the inner loop reads consecutive elements
            for a in range(k):
                value = columns.column_value[start + a]
                for b in range(a + 1):
                    gram[a, b] += value * columns.column_value[start + b]
        else:
            for i in range(start, end):
                a = columns.row[i]
                value = columns.column_value[i]
                for j in range(start, i + 1):
                    gram[a, columns.row[j]] += value * columns.column_value[j]
    for a in range(k):
        for b in range(a):
            gram[b, a] = gram[a, b]


@kernel
def sequential_update(
    columns: FeatureColumns,
    gram: np.ndarray,
    pairs: RankedPairs,
    learning_rate: float,
    scores: np.ndarray,
    coefficients: np.ndarray,
) -> int:
    """Process the pairs one by one, each with the scores that the one before it left; returns the number of updates.

    ``gram``: float64 [k, k], from `fill_gram`; ``scores``: float64 [k], model scores, updated in place;
    ``coefficients``: float64 [k], incremented: the list's gradient is X^T ``coefficients``.
    """
    updates = 0
    for p in range(len(pairs.entries)):
        a, b = pairs.entries[p, 0], pairs.entries[p, 1]
        if not violates(scores[a] - scores[b], pairs.margin[p]) or same_row(columns, a, b):
            continue
        updates += 1
        coefficients[a] += pairs.scale[p]
        coefficients[b] -= pairs.scale[p]
        step = learning_rate * pairs.scale[p]
        for j in range(len(scores)):
            scores[j] += step * (gram[a, j] - gram[b, j])
    return updates


@kernel
def batch_update(columns: FeatureColumns, pairs: RankedPairs, scores: np.ndarray, coefficients: np.ndarray) -> int:
    """Process all pairs with the same scores; returns the number of updates.

    ``scores``: float64 [k], model scores; ``coefficients``: float64 [k], incremented as by `sequential_update`.
    """
    updates = 0
    for p in range(len(pairs.entries)):
        a, b = pairs.entries[p, 0], pairs.entries[p, 1]
        if violates(scores[a] - scores[b], pairs.margin[p]) and not same_row(columns, a, b):
            updates += 1
            coefficients[a] += pairs.scale[p]
            coefficients[b] -= pairs.scale[p]
    return updates


@kernel
def fill_gradient(columns: FeatureColumns, coefficients: np.ndarray, gradient: np.ndarray) -> None:
    """Fill ``gradient`` (float64 [columns], all 0) with X^T ``coefficients`` (float64 [k]).

    A gradient whose terms cancel up to `ROUNDING` is set to exactly 0, as is that of a feature with the same value in
    all entries that took part: their coefficients sum to 0.
    """
    for c in range(len(columns.slot)):
        total = 0.0
        magnitude = 0.0
        for i in range(columns.column_ptr[c], columns.column_ptr[c + 1]):
            term = coefficients[columns.row[i]] * columns.column_value[i]
            total += term
            magnitude += abs(term)
        if abs(total) > ROUNDING * magnitude:
            gradient[c] = total


def apply_gradient(
    columns: FeatureColumns, coefficients: np.ndarray, rate: Rate, step: int, weights: np.ndarray
) -> None:
    """Change ``weights`` (float64 [D]) along the gradient X^T ``coefficients`` (float64 [k]).

    ``step``: number of this step in the pass, from 1 (see `weight_change`).
    """
    _apply_gradient(columns, coefficients, rate, step, np.zeros(len(columns.slot)), weights)


@kernel
def _apply_gradient(
    columns: FeatureColumns, coefficients: np.ndarray, rate: Rate, step: int, gradient: np.ndarray, weights: np.ndarray
) -> None:
    """`apply_gradient`, same shapes; ``gradient``: float64 [columns], all 0, working space."""
    fill_gradient(columns, coefficients, gradient)
    for c in range(len(columns.slot)):
        if gradient[c] != 0.0:
            slot = columns.slot[c]
            weights[slot] += weight_change(rate, slot, gradient[c], step)
