"""Large-margin learning: MIRA with the ways to pick an oracle and a prediction that E12 compares.

E12 is Eidelman 2012, *Optimization Strategies for Online Large-Margin Learning in Machine Translation*. After each list
the weights move as little as puts the oracle ahead of the prediction by their difference of gold scores B, and no
further than C allows. The cost of a translation is 1 - B. Frozen features take part in model scores and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.errors import UsageError
from mpitune.learner.base import Counts
from mpitune.learner.online.columns import columns_of, model_scores, only
from mpitune.learner.online.gram import apply
from mpitune.learner.online.margin import SOLVERS
from mpitune.learner.online.rates import longer, make_rate

Pick = Callable[[np.ndarray, np.ndarray], int]
"""A place in the list, from its costs and model scores (float64 [k] each); ties: the earlier."""

ORACLES: dict[str, Pick] = {
    "MB": lambda cost, scores: int(np.argmin(cost)),
    "LU": lambda cost, scores: int(np.argmin(cost)),
    "M-C": lambda cost, scores: int(np.argmax(scores - cost)),
}
"""Oracles by the name that a job gives them: max-BLEU (of the largest list), local update, hope."""
PREDICTIONS: dict[str, Pick] = {
    "MC": lambda cost, scores: int(np.argmax(cost)),
    "PB": lambda cost, scores: int(np.argmax(scores)),
    "M+C": lambda cost, scores: int(np.argmax(scores + cost)),
}
"""Predictions likewise: maximal cost, prediction-based (the 1-best), fear."""


@dataclass(frozen=True)
class MiraOptions:
    """MIRA's options, named as in a job's ``[learner.mira]``. Raises UsageError on a value that makes no sense."""

    oracle: str = "M-C"
    prediction: str = "M+C"
    variant: str = "1-best"
    """``1-best``: the prediction is all that constrains; ``k-constraint``, ``cutting-plane``: the list (`margin`)."""
    c: float = 0.01
    kbest: int = 500
    """How much of a list the oracles LU and M-C, and all predictions, are picked from; MB sees all of it."""

    def __post_init__(self) -> None:
        for key, valid in (("oracle", ORACLES), ("prediction", PREDICTIONS), ("variant", SOLVERS)):
            if (found := getattr(self, key)) not in valid:
                raise UsageError(f"learner.mira.{key}: found {found!r}, expected one of {', '.join(valid)}")
        if not self.c > 0:
            raise UsageError(f"learner.mira.c: found {self.c}, expected a number above 0")


class Mira:
    """An `mpitune.learner.base.OnlineLearner`."""

    state_width = 0

    def __init__(self, options: MiraOptions, frozen: np.ndarray) -> None:
        """``frozen``: bool [slots], features whose weights never move; slots past its end may move."""
        self._options = options
        self._frozen = frozen
        self._place = np.zeros(0, dtype=np.int32)
        self._rate = make_rate("constant", 1.0)

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = ()) -> None:
        """Nothing is remembered from list to list."""

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        """Raises ValueError where ``kbest`` has features beyond the end of ``weights``."""
        self._frozen = longer(self._frozen, len(weights), False)
        self._place = longer(self._place, len(weights), -1)
        if len(kbest.feature_index) and kbest.feature_index.max() >= len(self._place):
            raise ValueError(f"feature slot {kbest.feature_index.max()}, but {len(self._place)} weights")
        if kbest.size == 0:
            return Counts(0, 0)
        options = self._options
        cost, near = 1.0 - gold, min(options.kbest, kbest.size)
        seen = kbest.size if options.oracle == "MB" else near
        oracle = ORACLES[options.oracle](cost[:seen], kbest.score[:seen])
        prediction = PREDICTIONS[options.prediction](cost[:near], kbest.score[:near])
        against = [prediction] if options.variant == "1-best" else range(near)
        entries = np.array([oracle, *(j for j in against if j != oracle)])
        updates = self._learn(only(kbest, entries), gold[oracle] - gold[entries], weights)
        return Counts(len(entries) - 1, updates, oracle, prediction)

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        """Nothing was put off."""
        return ()

    def _learn(self, kbest: KBest, losses: np.ndarray, weights: np.ndarray) -> int:
        """Put entry 0 of ``kbest`` ahead of the others by ``losses``; returns how many of them moved the weights."""
        columns = columns_of(kbest, self._frozen, self._place)
        scores = np.empty(kbest.size)
        model_scores(kbest, weights, scores)
        steps = SOLVERS[self._options.variant](columns, losses, scores, self._options.c)
        coefficients = -steps
        coefficients[0] = steps.sum()
        apply(columns, coefficients, self._rate, 0, weights)
        return int(np.count_nonzero(steps))
