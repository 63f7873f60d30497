"""MIRA's quadratic program on one list, solved in the dual: one step size per constraint, that is per entry.

The oracle, entry 0, must score above entry j by the loss of j, B(oracle) - B(j). With x_j the features of entry j and
d_j = x_0 - x_j,

    min_w'  1/2 ||w' - w||^2 + C max_j (loss_j - w'.d_j)_+

has the solution w' = w + sum_j step_j d_j, with steps of at least 0 that sum to at most C. An entry with the oracle's
features (d_j = 0) is no constraint. A solver returns the steps, float64 [k]; that of entry 0 is 0.

Sources: Crammer et al. 2006 (one constraint); Chiang 2012 (all constraints by sequential minimal optimisation, and
cutting planes).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns
from mpitune.learner.online.gram import fill_gram

VIOLATION = 1e-4
"""A constraint becomes a cutting plane if its violation exceeds that of all others by more than this."""
ROUNDS = 10
"""Maximum number of cutting planes of a list."""
TOLERANCE = 1e-7
"""Convergence of the pairwise optimisation: the largest remaining difference of two violations *(ours)*."""
_MAX_MOVES = 10_000
"""Maximum number of pairwise moves: contradicting constraints have no optimum without a bound on the steps."""

Solver = Callable[[FeatureColumns, np.ndarray, np.ndarray, float], np.ndarray]
"""From the list's columns, losses, model scores w.x (float64 [k] each) and C to the steps (float64 [k])."""


@kernel
def _squared_distance(columns: FeatureColumns, a: int, b: int) -> float:
    """||x_a - x_b||^2, computed from the differences: from a Gram matrix it would lose digits to cancellation."""
    total = 0.0
    for c in range(len(columns.slot)):
        difference = 0.0
        for i in range(columns.column_ptr[c], columns.column_ptr[c + 1]):
            if columns.row[i] == a:
                difference += columns.column_value[i]
            elif columns.row[i] == b:
                difference -= columns.column_value[i]
        total += difference * difference
    return total


@kernel
def one_best(columns: FeatureColumns, violation: float, c: float) -> float:
    """The step of the only constraint, entry 1, in closed form; ``violation``: loss_1 - w.d_1."""
    squared = _squared_distance(columns, 0, 1)
    return min(c, violation / squared) if violation > 0.0 and squared > 0.0 else 0.0


def k_constraint(columns: FeatureColumns, losses: np.ndarray, scores: np.ndarray, c: float) -> np.ndarray:
    """The steps with a constraint for every entry."""
    gram, steps, current, active = _initial(columns, losses, scores, c)
    _solve(gram, losses, active, current, steps)
    steps[0] = 0.0
    return steps


def cutting_plane(columns: FeatureColumns, losses: np.ndarray, scores: np.ndarray, c: float) -> np.ndarray:
    """Add the most violated constraint and solve, until none exceeds the others by more than `VIOLATION`."""
    gram, steps, current, constrains = _initial(columns, losses, scores, c)
    active = np.zeros(len(losses), dtype=np.bool_)
    active[0] = True
    for _ in range(ROUNDS):
        violations = losses - (current[0] - current)
        worst = int(np.argmax(np.where(constrains, violations, -np.inf)))
        if violations[worst] - violations[active].max() <= VIOLATION:
            break
        active[worst] = True
        _solve(gram, losses, active, current, steps)
    steps[0] = 0.0
    return steps


SOLVERS: dict[str, Solver] = {"k-constraint": k_constraint, "cutting-plane": cutting_plane}
"""The solvers of the variants of MIRA with more than one constraint."""


def _initial(
    columns: FeatureColumns, losses: np.ndarray, scores: np.ndarray, c: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Gram matrix (float64 [k, k]); initial steps: ``c`` on entry 0, which changes no weight; a copy of the scores.

    The fourth result is bool [k]: entries that are constraints.
    """
    k = len(losses)
    gram, steps = np.empty((k, k)), np.zeros(k)
    fill_gram(columns, gram)
    steps[0] = c
    constrains = gram[0, 0] - 2 * gram[0] + np.diagonal(gram) > 0
    constrains[0] = True
    return gram, steps, scores.copy(), constrains


@kernel
def _solve(gram: np.ndarray, losses: np.ndarray, active: np.ndarray, scores: np.ndarray, steps: np.ndarray) -> None:
    """Sequential minimal optimisation of the steps of ``active`` entries (bool [k]); their sum is constant.

    Each move transfers step size from the least violated constraint with a step above 0 to the most violated one, until
    both violations are equal. ``gram``: float64 [k, k]; ``losses``: float64 [k]; ``scores``: float64 [k], w'.x, and
    ``steps``: float64 [k], both updated in place.
    """
    k = len(losses)
    for _ in range(_MAX_MOVES):
        most, least = -1, -1
        high, low = -np.inf, np.inf
        for j in range(k):
            if not active[j]:
                continue
            violation = losses[j] - (scores[0] - scores[j])
            if violation > high:
                most, high = j, violation
            if steps[j] > 0.0 and violation < low:
                least, low = j, violation
        if high - low <= TOLERANCE:
            return
        squared = gram[most, most] - 2.0 * gram[most, least] + gram[least, least]
        # Two entries with the same features: moving the whole step changes no weight.
        move = min(steps[least], (high - low) / squared) if squared > 0.0 else steps[least]
        steps[most] += move
        steps[least] -= move
        for j in range(k):
            scores[j] += move * (gram[least, j] - gram[most, j])
