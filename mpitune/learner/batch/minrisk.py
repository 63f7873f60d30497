"""Minimum risk training (Smith & Eisner 2006): maximises the expected score of accumulated k-best lists.

Scores are those of the metric, of BLEU `bleu+1`. The probability of an entry is the softmax of w.x over its list; the
risk of a sentence is 1 minus the expected score. The weights minimise |w|^2 / 2 + c * (sum of risks) *(ours)*, by
L-BFGS from the weights of the epoch before. With structured regularisation (`mpitune.learner.bin_chains`), beta times
the penalty is added to each risk *(ours)*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.batch.smooth import ChainPenalty, minimize_lbfgs
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.pool import NBestPool, scores, summed
from mpitune.metrics.tuning_metric import Metric
from mpitune.portable_math import exp
from mpitune.schema import number


@METHODS.register("minrisk")
@dataclass(frozen=True)
class MinRiskOptions(Method):
    """``[learner.minrisk]``: the options of minimum risk training."""

    about = 'For method = "minrisk".'
    is_batch = True
    uses_pairs = False

    c: float = number(
        100.0,
        0.0,
        above=True,
        text="Weight of 1 - expected metric (BLEU: bleu+1) relative to the l2 norm of the weights.",
    )
    """Weight of the sum of risks against |w|^2 / 2 *(ours)*."""

    def make(self, parts: Parts) -> MinRisk:
        return MinRisk(self, parts.metric, parts.smoothness)

    def remedy(self) -> str:
        return "lower learner.minrisk.c"


class MinRiskObjective:
    """The lists of one shard."""

    pairs = 0

    def __init__(self, pool: NBestPool, place: np.ndarray, metric: Metric) -> None:
        self._pool = pool
        self._place = place
        self._gold = metric.sentence_scores(pool.statistics)

    def evaluate(self, point: np.ndarray) -> Reply:
        """The sum of risks and their number (float64 [2]), and the gradient of the sum (float64 [features]).

        ``point``: float64 [features], w.
        """
        found = scores(self._pool, point[self._place])
        coefficients = np.empty(len(found))
        risk = risks(self._pool.sentence_ptr, found, self._gold, coefficients)
        gradient = np.zeros(len(point))
        gradient[self._place] = summed(self._pool, coefficients)
        return np.array([risk, np.count_nonzero(np.diff(self._pool.sentence_ptr))]), gradient


class MinRisk(ChainPenalty):
    """An `mpitune.learner.base.ChainLearner`."""

    def __init__(self, options: MinRiskOptions, metric: Metric, smoothness: Smoothness | None = None) -> None:
        """``smoothness``: the penalty on the weights of bins, None without one."""
        super().__init__(smoothness)
        self._options = options
        self._metric = metric

    def shard_objective(
        self, pool: NBestPool, place: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> MinRiskObjective:
        return MinRiskObjective(pool, place, self._metric)

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, evaluate_shards: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        return minimize_lbfgs(weights, free, self._options.c, evaluate_shards, self.penalty)


@kernel
def risks(sentence_ptr: np.ndarray, scores: np.ndarray, gold: np.ndarray, coefficients: np.ndarray) -> float:
    """The sum of the lists' risks: 1 minus the expected gold score under the softmax of the scores.

    ``sentence_ptr``: int64 [lists + 1]; ``scores``, ``gold``: float64 [entries]; ``coefficients``: float64 [entries],
    filled: the derivative by each entry's score.
    """
    total = 0.0
    for s in range(len(sentence_ptr) - 1):
        start, end = sentence_ptr[s], sentence_ptr[s + 1]
        highest = -math.inf
        for j in range(start, end):
            highest = max(highest, scores[j])
        mass = 0.0
        expected = 0.0
        for j in range(start, end):
            coefficients[j] = exp(scores[j] - highest)
            mass += coefficients[j]
            expected += coefficients[j] * gold[j]
        for j in range(start, end):
            coefficients[j] *= (expected / mass - gold[j]) / mass
        if end > start:
            total += 1.0 - expected / mass
    return total
