"""Updates in terms of a list's entries: each entry's coefficient is found first, then all weights move at once.

With G the Gram matrix X X^T of the list and s its model scores, an update w += step * (x_a - x_b) is
s += step * (G[a] - G[b]): a pass over the pairs never touches a feature. Sums run in a fixed order.
"""

from __future__ import annotations

import math

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns, same_row
from mpitune.learner.online.rates import NORMALIZED, Rate, move


@kernel
def violates(margin: float, required: float) -> bool:
    """Whether a pair with this margin w.d calls for an update."""
    return margin < required if required > 0.0 else margin <= 0.0


@kernel
def fill_gram(columns: FeatureColumns, gram: np.ndarray) -> None:
    """Fill ``gram`` (float64 [k, k]) with the inner products of all rows.

    Up to the squares of constant columns, which cancel in G[a] - G[b].
    """
    k = len(gram)
    for a in range(k):
        for b in range(k):
            gram[a, b] = 0.0
    for c in range(len(columns.slot)):
        start, end = columns.column_ptr[c], columns.column_ptr[c + 1]
        if end - start == k:  # all rows, so that the inner loop runs over neighbours
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
    pairs: np.ndarray,
    sizes: np.ndarray,
    learning_rate: float,
    required: np.ndarray,
    scores: np.ndarray,
    coefficients: np.ndarray,
) -> int:
    """Each pair sees the weights that the one before it left; returns how many called for an update.

    ``pairs``: int32 [pairs, 2]; ``sizes``: float64 [pairs], what each pair's update is scaled by; ``required``:
    float64 [pairs], the margin that each is to have; ``scores``: float64 [k], the model scores before and after;
    ``coefficients``: float64 [k], added to: the gradient is their sum with X.
    """
    updates = 0
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        if not violates(scores[a] - scores[b], required[p]) or same_row(columns, a, b):
            continue
        updates += 1
        coefficients[a] += sizes[p]
        coefficients[b] -= sizes[p]
        step = learning_rate * sizes[p]
        for j in range(len(scores)):
            scores[j] += step * (gram[a, j] - gram[b, j])
    return updates


@kernel
def batch_update(
    columns: FeatureColumns,
    pairs: np.ndarray,
    sizes: np.ndarray,
    required: np.ndarray,
    scores: np.ndarray,
    coefficients: np.ndarray,
) -> int:
    """As `sequential_update`, but all pairs see the same ``scores``."""
    updates = 0
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        if violates(scores[a] - scores[b], required[p]) and not same_row(columns, a, b):
            updates += 1
            coefficients[a] += sizes[p]
            coefficients[b] -= sizes[p]
    return updates


def measure(columns: FeatureColumns, pairs: np.ndarray, rate: Rate) -> None:
    """Take the differences of all ``pairs`` (int32 [pairs, 2]) into the units of a normalized ``rate``.

    One entry a list and feature: the mean square of the differences that are not 0.
    """
    width = len(columns.slot)
    _measure(columns, pairs, rate, np.zeros(width), np.zeros(width), np.zeros(width))


@kernel
def _measure(
    columns: FeatureColumns,
    pairs: np.ndarray,
    rate: Rate,
    difference: np.ndarray,
    squares: np.ndarray,
    counts: np.ndarray,
) -> None:
    """`measure`; the last three are float64 [columns], all 0, to work in."""
    for p in range(len(pairs)):
        for i in range(columns.row_ptr[pairs[p, 0]], columns.row_ptr[pairs[p, 0] + 1]):
            difference[columns.column[i]] += columns.row_value[i]
        for i in range(columns.row_ptr[pairs[p, 1]], columns.row_ptr[pairs[p, 1] + 1]):
            difference[columns.column[i]] -= columns.row_value[i]
        for side in range(2):
            row = pairs[p, side]
            for i in range(columns.row_ptr[row], columns.row_ptr[row + 1]):
                c = columns.column[i]
                if difference[c] != 0.0:
                    squares[c] += difference[c] * difference[c]
                    counts[c] += 1.0
                    difference[c] = 0.0
    for c in range(len(columns.slot)):
        if counts[c] > 0.0:
            rate.sizes[columns.slot[c]] += squares[c] / counts[c]
            rate.lists[columns.slot[c]] += 1.0


@kernel
def _gradient(columns: FeatureColumns, coefficients: np.ndarray, gradient: np.ndarray) -> None:
    """Fill ``gradient`` (float64 [columns], all 0) with X^T ``coefficients`` (float64 [k]).

    The coefficients of the entries that took part sum to 0. Rounding would leave a trace of that sum in every feature
    which those entries share; the gradient of such features is exactly 0.
    """
    active = 0
    for j in range(len(coefficients)):
        if coefficients[j] != 0.0:
            active += 1
    for c in range(len(columns.slot)):
        seen = 0
        low = 0.0
        high = 0.0
        total = 0.0
        for i in range(columns.column_ptr[c], columns.column_ptr[c + 1]):
            coefficient = coefficients[columns.row[i]]
            if coefficient != 0.0:
                value = columns.column_value[i]
                total += coefficient * value
                low = value if seen == 0 else min(low, value)
                high = value if seen == 0 else max(high, value)
                seen += 1
        if seen > 0 and (seen < active or low < high):
            gradient[c] = total


def apply(
    columns: FeatureColumns, coefficients: np.ndarray, rate: Rate, step: int, weights: np.ndarray, divisor: float = 1.0
) -> None:
    """Move ``weights`` (float64 [D]) along the gradient X^T ``coefficients`` (float64 [k]) / ``divisor``.

    Coefficients that were divided before would be rounded, and so leave traces where counts add up to 0.
    """
    _apply(columns, coefficients, rate, step, divisor, np.zeros(len(columns.slot)), weights)


@kernel
def _apply(
    columns: FeatureColumns,
    coefficients: np.ndarray,
    rate: Rate,
    step: int,
    divisor: float,
    gradient: np.ndarray,
    weights: np.ndarray,
) -> None:
    """`apply`; ``gradient``: float64 [columns], all 0, to work in."""
    _gradient(columns, coefficients, gradient)
    share = _sparse_share(columns, gradient, rate)
    for c in range(len(columns.slot)):
        if gradient[c] != 0.0:
            slot = columns.slot[c]
            moved = move(rate, slot, gradient[c] / divisor, step)
            weights[slot] += moved * share if slot >= rate.first_sparse else moved


@kernel
def _sparse_share(columns: FeatureColumns, gradient: np.ndarray, rate: Rate) -> float:
    """The factor of the steps of sparse features: 1 over the root of their number, where ``rate`` is normalized."""
    moving = 0
    for c in range(len(columns.slot)):
        if gradient[c] != 0.0 and columns.slot[c] >= rate.first_sparse:
            moving += 1
    return 1.0 / math.sqrt(moving) if moving > 0 and rate.kind == NORMALIZED else 1.0
