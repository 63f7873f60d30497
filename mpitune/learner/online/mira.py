"""MIRA, large-margin learning, with the choices of oracle and prediction that Eidelman 2012 compares.

Eidelman, *Optimization Strategies for Online Large-Margin Learning in Machine Translation*, WMT 2012 (the paper). Each
list changes the weights as little as makes the oracle score above the prediction by their difference of gold scores B;
C limits the step size. The cost of a translation is 1 - B. Frozen features count in model scores but are not updated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.decoder.base import KBest
from mpitune.learner.base import Counts, OnlineLearner
from mpitune.learner.choices import MiraVariant, OracleName, PredictionName
from mpitune.learner.online.columns import columns_of, select_entries
from mpitune.learner.online.gram import apply_gradient
from mpitune.learner.online.mira_qp import SOLVERS
from mpitune.learner.online.rates import CONSTANT, Rate
from mpitune.learner.weights import Weights

EntryChoice = Callable[[np.ndarray, np.ndarray], int]
"""From costs and model scores (float64 [k] each) to the position of an entry; ties: the first."""

ORACLES: dict[OracleName, EntryChoice] = {
    "MB": lambda cost, scores: int(np.argmin(cost)),
    "LU": lambda cost, scores: int(np.argmin(cost)),
    "M-C": lambda cost, scores: int(np.argmax(scores - cost)),
}
"""The choices of the oracle: max-BLEU (of the largest list), local update, hope."""
PREDICTIONS: dict[PredictionName, EntryChoice] = {
    "MC": lambda cost, scores: int(np.argmax(cost)),
    "PB": lambda cost, scores: int(np.argmax(scores)),
    "M+C": lambda cost, scores: int(np.argmax(scores + cost)),
}
"""The choices of the prediction: maximal cost, prediction-based (the 1-best), fear."""

ONE = Rate(CONSTANT, 1.0)
"""The rate: the quadratic program sets the size of the steps."""


@dataclass(frozen=True)
class MiraOptions:
    """MIRA's options, named as in a job's ``[learner.mira]``."""

    oracle: OracleName
    prediction: PredictionName
    variant: MiraVariant
    """``1-best``: the prediction is the only constraint; ``k-constraint``, ``cutting-plane``: all entries are."""
    c: float
    """Largest sum of step sizes of a list, above 0."""
    kbest: int
    """Number of entries among which predictions are chosen; the oracle is chosen from the whole list."""


class Mira(OnlineLearner):
    """Without state from list to list."""

    def __init__(self, options: MiraOptions) -> None:
        self._options = options

    def update(self, kbest: KBest, gold: np.ndarray, weights: Weights, random: np.random.Generator) -> Counts:
        """Raises ValueError if ``kbest`` has features beyond the end of ``weights``."""
        if kbest.size == 0:
            return Counts(0, 0)
        options = self._options
        cost, near = 1.0 - gold, min(options.kbest, kbest.size)
        oracle = ORACLES[options.oracle](cost, kbest.score)
        prediction = PREDICTIONS[options.prediction](cost[:near], kbest.score[:near])
        constraints = [prediction] if options.variant == "1-best" else range(near)
        entries = np.array([oracle, *(j for j in constraints if j != oracle)])
        updates = self._learn(select_entries(kbest, entries), gold[oracle] - gold[entries], weights)
        return Counts(len(entries) - 1, updates, oracle, prediction)

    def _learn(self, kbest: KBest, losses: np.ndarray, weights: Weights) -> int:
        """Update so that entry 0 of ``kbest`` scores above the others by ``losses`` (float64 [k]).

        Returns the number of constraints that changed the weights.
        """
        columns = columns_of(kbest, weights)
        scores = np.empty(kbest.size)
        row_scores(kbest.feature_ptr, kbest.feature_index, kbest.feature_value, weights.value, scores)
        steps = SOLVERS[self._options.variant](columns, losses, scores, self._options.c)
        coefficients = -steps
        coefficients[0] = steps.sum()
        apply_gradient(columns, coefficients, ONE, 0, weights.value)
        return int(np.count_nonzero(steps))
