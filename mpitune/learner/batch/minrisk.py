"""Minimum risk training (Smith & Eisner 2006): the expected `bleu+1` of accumulated lists, made as large as it gets.

An entry of a list has probability exp(w.x), divided by the sum of these over the list; the risk of a sentence is 1 less
the expected gold score. The weights minimise |w|^2 / 2 + c * (sum of risks) *(ours)*, by L-BFGS from those of the epoch
before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.batch.smooth import minimize_lbfgs
from mpitune.learner.pool import NBestPool, scores, summed
from mpitune.metrics.sentence_bleu import bleu_plus_one


@dataclass(frozen=True)
class MinRiskOptions:
    """The options of minimum risk training, named as in a job."""

    c: float = 100.0
    """What the sum of risks counts beside |w|^2 / 2 *(ours)*."""


class MinRiskPart:
    """The lists of one shard."""

    pairs = 0

    def __init__(self, pool: NBestPool, place: np.ndarray) -> None:
        self._pool = pool
        self._place = place
        self._gold = bleu_plus_one(pool.statistics)

    def answer(self, question: np.ndarray) -> Reply:
        """The sum of risks (float64 [1]) and its gradient (float64 [features]) at w = ``question``."""
        found = scores(self._pool, question[self._place])
        coefficients = np.empty(len(found))
        risk = risks(self._pool.sentence_ptr, found, self._gold, coefficients)
        gradient = np.zeros(len(question))
        gradient[self._place] = summed(self._pool, coefficients)
        return np.array([risk]), gradient


class MinRisk:
    """An `mpitune.learner.base.BatchLearner`."""

    def __init__(self, options: MinRiskOptions) -> None:
        self._options = options

    def part(
        self, pool: NBestPool, place: np.ndarray, free: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> MinRiskPart:
        return MinRiskPart(pool, place)

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, ask: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        return minimize_lbfgs(weights, free, self._options.c, ask)


@kernel
def risks(sentence_ptr: np.ndarray, scores: np.ndarray, gold: np.ndarray, coefficients: np.ndarray) -> float:
    """The sum of the lists' risks, 1 less the expected gold score under the softmax of ``scores``.

    ``coefficients`` (float64 [entries], filled) is its derivative by each entry's score.
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
            coefficients[j] = math.exp(scores[j] - highest)
            mass += coefficients[j]
            expected += coefficients[j] * gold[j]
        for j in range(start, end):
            coefficients[j] *= (expected / mass - gold[j]) / mass
        if end > start:
            total += 1.0 - expected / mass
    return total
