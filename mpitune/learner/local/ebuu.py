"""EBUU, the error rate based ultraconservative update (Liu et al., EMNLP 2012, section 4.2): minimises expected error.

    min_w  1/2 ||w - w_b||^2 + lambda/K sum_j sum_e Error(r_j, e) P_alpha(e | f_j, w)

with P_alpha the softmax of alpha w.x over a list, and Error = 1 - bleu+1, which differs from the paper's by a constant.
The loss is the risk of `mpitune.learner.batch.minrisk`. The problem is not convex; it is minimised by gradient descent
from w_b. Each step starts with length 1, which is halved until Armijo's condition holds. The line search and the
stopping conditions are *(ours)*.
"""

from __future__ import annotations

import math

import numpy as np

from mpitune.array_files.csr import row_scores, row_sums
from mpitune.learner.batch.minrisk import risks
from mpitune.learner.local.examples import Examples, Update, squared_norm

GRADIENT_TOLERANCE = 1e-6
"""Norm of the gradient at which the descent stops."""
MAX_STEPS = 100
"""Maximum number of steps."""
ARMIJO = 1e-4
"""Armijo's condition: the objective must fall by this fraction of what the gradient predicts."""
MAX_HALVINGS = 50
"""Maximum number of halvings; shorter steps change the objective by rounding alone."""


class Objective:
    """The objective as a function of the change w - w_b."""

    def __init__(self, examples: Examples, strength: float, alpha: float) -> None:
        """``strength``: lambda, at least 0; ``alpha``: above 0."""
        self._examples = examples
        self._share = strength / max(len(examples.oracle), 1)
        self._alpha = alpha
        self._scores = np.empty(len(examples.gold))
        self._slopes = np.empty(len(examples.gold))

    def at(self, change: np.ndarray) -> float:
        """The value at ``change`` (float64 [columns]); the next `gradient` belongs to this point."""
        examples = self._examples
        row_scores(examples.row_ptr, examples.column, examples.value, change, self._scores)
        self._scores += examples.ahead
        self._scores *= self._alpha
        risk = risks(examples.list_ptr, self._scores, examples.gold, self._slopes)
        self._change = change
        return squared_norm(change) / 2 + self._share * risk

    def gradient(self) -> np.ndarray:
        """float64 [columns]: the gradient at the latest argument of `at`."""
        examples, result = self._examples, np.zeros(len(self._change))
        row_sums(examples.row_ptr, examples.column, examples.value, self._slopes, result)
        result *= self._share * self._alpha
        result += self._change
        return result


def ebuu(examples: Examples, strength: float, alpha: float) -> Update:
    """The update with lambda = ``strength`` (at least 0) and ``alpha`` (above 0)."""
    objective = Objective(examples, strength, alpha)
    change = np.zeros(len(examples.feature))
    value = objective.at(change)
    for step in range(MAX_STEPS):
        gradient = objective.gradient()
        squared = squared_norm(gradient)
        if math.sqrt(squared) <= GRADIENT_TOLERANCE:
            return Update(change, value, step, None)
        for halving in range(MAX_HALVINGS):
            length = 1 / (1 << halving)
            candidate = change - length * gradient
            reached = objective.at(candidate)
            if reached <= value - ARMIJO * length * squared:
                break
        else:
            return Update(change, value, step, None)
        change, value = candidate, reached
    return Update(change, value, MAX_STEPS, None)
