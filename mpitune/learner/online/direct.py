"""Updates in terms of features, one pair after another: needed where a weight's move depends on more than its gradient.

That is so with rates per feature and with l2, which shrinks all weights after each updating pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns, same_row
from mpitune.learner.online.gram import violates
from mpitune.learner.online.rates import Rate, move

_SMALL = 1e-9
"""The common factor is multiplied into the weights before it gets smaller than this."""


class Space(NamedTuple):
    """Arrays to work in."""

    weight: np.ndarray
    """float64 [columns]: weights of the list's columns, but for a common factor."""
    difference: np.ndarray
    """float64 [columns]: x_a - x_b of the pair being looked at; all 0 before and after."""
    fixed: np.ndarray
    """float64 [k]: the frozen features' part of the model scores."""


@kernel
def fixed_scores(kbest: KBest, frozen: np.ndarray, weights: np.ndarray, fixed: np.ndarray) -> None:
    """Fill ``fixed`` (float64 [k]) with w.x over the frozen features."""
    for j in range(len(fixed)):
        score = 0.0
        for e in range(kbest.feature_ptr[j], kbest.feature_ptr[j + 1]):
            slot = kbest.feature_index[e]
            if frozen[slot]:
                score += weights[slot] * kbest.feature_value[e]
        fixed[j] = score


@kernel
def shrink_all(weights: np.ndarray, frozen: np.ndarray, factor: float) -> None:
    """Multiply all weights that are not frozen by ``factor``."""
    for slot in range(len(weights)):
        if not frozen[slot]:
            weights[slot] *= factor


@kernel
def _row_score(columns: FeatureColumns, weight: np.ndarray, j: int) -> float:
    score = 0.0
    for i in range(columns.row_ptr[j], columns.row_ptr[j + 1]):
        score += weight[columns.column[i]] * columns.row_value[i]
    return score


@kernel
def _move_row(columns: FeatureColumns, j: int, size: float, factor: float, rate: Rate, step: int, space: Space) -> None:
    """Move the weights of row ``j``'s columns along the difference, where that was not done yet."""
    for i in range(columns.row_ptr[j], columns.row_ptr[j + 1]):
        c = columns.column[i]
        difference = space.difference[c]
        if difference != 0.0:
            space.weight[c] += move(rate, columns.slot[c], size * difference, step) / factor
            space.difference[c] = 0.0


@kernel
def learn_in_turn(
    columns: FeatureColumns,
    pairs: np.ndarray,
    sizes: np.ndarray,
    rate: Rate,
    step: int,
    shrink: float,
    required: np.ndarray,
    frozen: np.ndarray,
    space: Space,
    weights: np.ndarray,
) -> int:
    """Update ``weights`` (float64 [D]) pair by pair; returns how many pairs called for it.

    ``pairs``: int32 [pairs, 2]; ``sizes``: float64 [pairs], what each pair's gradient is scaled by; ``step``: steps
    taken before; ``required``: float64 [pairs], the margin that each is to have; ``shrink``: what every free weight
    is multiplied by after each update. Inside the list that is done by one common factor; features that are not in the
    list get the whole of it at the end.
    """
    for c in range(len(columns.slot)):
        space.weight[c] = weights[columns.slot[c]]
    updates = 0
    factor = 1.0
    total = 1.0
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        margin = factor * (_row_score(columns, space.weight, a) - _row_score(columns, space.weight, b))
        if not violates(margin + (space.fixed[a] - space.fixed[b]), required[p]) or same_row(columns, a, b):
            continue
        updates += 1
        for i in range(columns.row_ptr[a], columns.row_ptr[a + 1]):
            space.difference[columns.column[i]] += columns.row_value[i]
        for i in range(columns.row_ptr[b], columns.row_ptr[b + 1]):
            space.difference[columns.column[i]] -= columns.row_value[i]
        _move_row(columns, a, sizes[p], factor, rate, step + updates, space)
        _move_row(columns, b, sizes[p], factor, rate, step + updates, space)
        factor *= shrink
        total *= shrink
        if abs(factor) < _SMALL:
            for c in range(len(columns.slot)):
                space.weight[c] *= factor
            factor = 1.0
    if total != 1.0:
        shrink_all(weights, frozen, total)
    if updates > 0:
        for c in range(len(columns.slot)):
            weights[columns.slot[c]] = factor * space.weight[c]
    return updates
