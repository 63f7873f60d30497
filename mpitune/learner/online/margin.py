"""MIRA's optimisation problem on one list, solved in terms of the list's entries: a step for each of its constraints.

An entry j with features x_j is to stay behind the oracle, entry 0, by its loss B(oracle) - B(j): with d_j = x_0 - x_j,

    min_w'  1/2 ||w' - w||^2 + C max_j (loss_j - w'.d_j)_+

has the solution w' = w + sum_j step_j d_j, where steps are not negative and sum to C at most. An entry with the
oracle's own features (d_j = 0) constrains nothing. Every solver gives float64 [k], the steps; that of entry 0 is 0.

Sources: Crammer et al. 2006 (one constraint), Chiang 2012 (all of them, by pairs of steps; and by cutting planes).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns
from mpitune.learner.online.gram import fill_gram

VIOLATION = 1e-4
"""By how much a constraint may be violated beyond the others before it becomes a cutting plane."""
ROUNDS = 10
"""The most cutting planes of a list."""
TOLERANCE = 1e-7
"""When pairs of steps are close enough to the optimum (ours): by the violations that they would make equal."""
_MOST_MOVES = 10_000
"""When they are given up: constraints that contradict each other have no optimum without a bound on the steps."""

Solver = Callable[[FeatureColumns, np.ndarray, np.ndarray, float], np.ndarray]
"""Steps from the list's columns, losses, model scores w.x (float64 [k] each) and C."""


@kernel
def _squared_distance(columns: FeatureColumns, a: int, b: int) -> float:
    """||x_a - x_b||^2, without what cancels in a Gram matrix."""
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


def one_best(columns: FeatureColumns, losses: np.ndarray, scores: np.ndarray, c: float) -> np.ndarray:
    """The list is the oracle and the prediction, or the oracle alone: the step is known in closed form."""
    steps = np.zeros(len(losses))
    if len(losses) == 2:
        loss = scores[1] - scores[0] + losses[1]
        squared = _squared_distance(columns, 0, 1)
        if loss > 0 and squared > 0:
            steps[1] = min(c, loss / squared)
    return steps


def k_constraint(columns: FeatureColumns, losses: np.ndarray, scores: np.ndarray, c: float) -> np.ndarray:
    """All entries constrain."""
    gram, steps, current, may_move = _begin(columns, losses, scores, c)
    _solve(gram, losses, may_move, current, steps)
    steps[0] = 0.0
    return steps


def cutting_plane(columns: FeatureColumns, losses: np.ndarray, scores: np.ndarray, c: float) -> np.ndarray:
    """The most violated constraint is added and the problem solved, until none is violated beyond the others."""
    gram, steps, current, constrains = _begin(columns, losses, scores, c)
    may_move = np.zeros(len(losses), dtype=np.bool_)
    may_move[0] = True
    for _ in range(ROUNDS):
        violations = losses - (current[0] - current)
        worst = int(np.argmax(np.where(constrains, violations, -np.inf)))
        if violations[worst] - violations[may_move].max() <= VIOLATION:
            break
        may_move[worst] = True
        _solve(gram, losses, may_move, current, steps)
    steps[0] = 0.0
    return steps


SOLVERS: dict[str, Solver] = {"1-best": one_best, "k-constraint": k_constraint, "cutting-plane": cutting_plane}
"""The variants of MIRA by the name that a job gives them."""


def _begin(
    columns: FeatureColumns, losses: np.ndarray, scores: np.ndarray, c: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Gram matrix; first steps: all of ``c`` on entry 0, which moves nothing; scores to change; what constrains."""
    k = len(losses)
    gram, steps = np.empty((k, k)), np.zeros(k)
    fill_gram(columns, gram)
    steps[0] = c
    constrains = gram[0, 0] - 2 * gram[0] + np.diagonal(gram) > 0
    constrains[0] = True
    return gram, steps, scores.copy(), constrains


@kernel
def _solve(gram: np.ndarray, losses: np.ndarray, may_move: np.ndarray, scores: np.ndarray, steps: np.ndarray) -> None:
    """Sequential minimal optimisation of the steps that ``may_move`` (bool [k]), whose sum stays what it is.

    Each move takes from the least violated constraint that has a step and gives to the most violated one, as much as
    makes both violations equal. ``scores`` (float64 [k], w'.x) follows the ``steps``.
    """
    k = len(losses)
    for _ in range(_MOST_MOVES):
        most, least = -1, -1
        high, low = -np.inf, np.inf
        for j in range(k):
            if not may_move[j]:
                continue
            violation = losses[j] - (scores[0] - scores[j])
            if violation > high:
                most, high = j, violation
            if steps[j] > 0.0 and violation < low:
                least, low = j, violation
        if high - low <= TOLERANCE:
            return
        squared = gram[most, most] - 2.0 * gram[most, least] + gram[least, least]
        # Two entries with the same features: to hand on the whole step changes no weight.
        move = min(steps[least], (high - low) / squared) if squared > 0.0 else steps[least]
        steps[most] += move
        steps[least] -= move
        for j in range(k):
            scores[j] += move * (gram[least, j] - gram[most, j])
