"""Updates by features, pair by pair: for updates in which a weight's change depends on more than its gradient.

This is the case with rates per feature and with l2, which shrinks all weights after each updating pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns, same_row
from mpitune.learner.online.gram import RankedPairs, violates
from mpitune.learner.online.rates import Rate, weight_change

_SMALL = 1e-9
"""The common factor is multiplied into the weights before it falls below this value."""


class Workspace(NamedTuple):
    """Working space of `sparse_sequential_update`."""

    weight: np.ndarray
    """float64 [columns]: weights of the list's columns, divided by a common factor."""
    difference: np.ndarray
    """float64 [columns]: x_a - x_b of the current pair; all 0 before and after."""
    frozen_score: np.ndarray
    """float64 [k]: the frozen features' share of the model scores."""


@kernel
def frozen_scores(kbest: KBest, frozen: np.ndarray, weights: np.ndarray, result: np.ndarray) -> None:
    """Fill ``result`` (float64 [k]) with w.x over the frozen features.

    ``frozen``: bool [D]; ``weights``: float64 [D].
    """
    for j in range(len(result)):
        score = 0.0
        for e in range(kbest.feature_ptr[j], kbest.feature_ptr[j + 1]):
            slot = kbest.feature_index[e]
            if frozen[slot]:
                score += weights[slot] * kbest.feature_value[e]
        result[j] = score


@kernel
def shrink_all(weights: np.ndarray, frozen: np.ndarray, factor: float) -> None:
    """Multiply all ``weights`` (float64 [D]) that are not ``frozen`` (bool [D]) by ``factor``."""
    for slot in range(len(weights)):
        if not frozen[slot]:
            weights[slot] *= factor


@kernel
def _row_score(columns: FeatureColumns, weight: np.ndarray, j: int) -> float:
    """w.x of row ``j`` over the list's columns; ``weight``: float64 [columns]."""
    score = 0.0
    for i in range(columns.row_ptr[j], columns.row_ptr[j + 1]):
        score += weight[columns.column[i]] * columns.row_value[i]
    return score


@kernel
def _update_row(
    columns: FeatureColumns, j: int, scale: float, factor: float, rate: Rate, step: int, workspace: Workspace
) -> None:
    """Change the weights of row ``j``'s columns along the pair's difference, and set this difference to 0."""
    for i in range(columns.row_ptr[j], columns.row_ptr[j + 1]):
        c = columns.column[i]
        difference = workspace.difference[c]
        if difference != 0.0:
            workspace.weight[c] += weight_change(rate, columns.slot[c], scale * difference, step) / factor
            workspace.difference[c] = 0.0


@kernel
def sparse_sequential_update(
    columns: FeatureColumns,
    pairs: RankedPairs,
    rate: Rate,
    step: int,
    shrink: float,
    frozen: np.ndarray,
    workspace: Workspace,
    weights: np.ndarray,
) -> int:
    """Update ``weights`` (float64 [D]) pair by pair; returns the number of updates.

    ``step``: steps taken before; ``shrink``: factor of every free weight after each update; ``frozen``: bool [D].
    Inside the list the shrinking is one common factor; features that do not occur in the list are shrunk at the end.
    """
    for c in range(len(columns.slot)):
        workspace.weight[c] = weights[columns.slot[c]]
    updates = 0
    factor = 1.0
    total = 1.0
    for p in range(len(pairs.entries)):
        a, b = pairs.entries[p, 0], pairs.entries[p, 1]
        margin = factor * (_row_score(columns, workspace.weight, a) - _row_score(columns, workspace.weight, b))
        margin += workspace.frozen_score[a] - workspace.frozen_score[b]
        if not violates(margin, pairs.margin[p]) or same_row(columns, a, b):
            continue
        updates += 1
        for i in range(columns.row_ptr[a], columns.row_ptr[a + 1]):
            workspace.difference[columns.column[i]] += columns.row_value[i]
        for i in range(columns.row_ptr[b], columns.row_ptr[b + 1]):
            workspace.difference[columns.column[i]] -= columns.row_value[i]
        _update_row(columns, a, pairs.scale[p], factor, rate, step + updates, workspace)
        _update_row(columns, b, pairs.scale[p], factor, rate, step + updates, workspace)
        factor *= shrink
        total *= shrink
        if abs(factor) < _SMALL:
            for c in range(len(columns.slot)):
                workspace.weight[c] *= factor
            factor = 1.0
    if total != 1.0:
        shrink_all(weights, frozen, total)
    if updates > 0:
        for c in range(len(columns.slot)):
            weights[columns.slot[c]] = factor * workspace.weight[c]
    return updates
