"""RAMPION (Gimpel & Smith, NAACL 2012): minimises the structured ramp loss over accumulated k-best lists.

With cost(y) = `cost_scale` (1 - the score by the metric, of BLEU `bleu+1`), the loss of a sentence is the score of its
fear, max(w.x + cost), minus that of its hope, max(w.x - cost): loss 3 of the paper, which it recommends. Loss 1
replaces the hope by the 1-best, max(w.x); loss 2 replaces the fear by it. The sum of losses + c |w - w0|^2 / 2 is a
difference of convex functions. Each round fixes the hopes under its initial weights (CCCP) and takes subgradient steps
on the remaining convex function, whose fears depend on the current weights. w0 are the weights of the epoch before
*(ours)*; in the paper, those before the first epoch.

The paper takes a step after each sentence and makes several passes over all sentences in a round. Here a pass is a
single step along the sum over all sentences *(ours)*, so that shards are evaluated in parallel. A step that would not
reduce the loss is rejected, and later steps are half as long *(ours)*: the first step's length need not fit the number
of sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpitune.decoder.choices import MAX_SIZE
from mpitune.jit import kernel
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.pool import NBestPool, scores, summed
from mpitune.metrics.tuning_metric import Metric
from mpitune.portable_math import dot
from mpitune.schema import number

LOSSES = {1: (0.0, 1.0), 2: (-1.0, 0.0), 3: (-1.0, 1.0)}
"""By the paper's number: the factors of the cost in the hope and in the fear."""


@METHODS.register("rampion")
@dataclass(frozen=True)
class RampionOptions(Method):
    """``[learner.rampion]``: the options of RAMPION."""

    about = 'For method = "rampion".'
    defaults = {"learner.epochs": 20, "decoder.kbest": 500}
    is_batch = True
    uses_pairs = False
    smooths_bins = False

    loss: int = number(
        3,
        1,
        3,
        text="Ramp loss: 3 (hope against fear), 1 (the model's best as the hope), 2 (the model's best as the fear).",
    )
    """One of `LOSSES`."""
    cost_scale: float = number(10.0, 0.0, text="Factor of the cost of a translation, 1 - its metric (BLEU: bleu+1).")
    """alpha"""
    rounds: int = number(
        10,
        1,
        MAX_SIZE,
        text="Rounds, in each of which the hopes are chosen again; passes of gradient steps in each round.",
    )
    """Rounds, each with newly fixed hopes (T')."""
    passes: int = number(5, 1, MAX_SIZE)
    """Passes over all sentences in each round (T'')."""
    step: float = number(0.0001, 0.0, above=True, text="Step size; halved if a step would increase the loss.")
    """eta: the factor of the subgradient in the first step."""
    c: float = number(1.0, 0.0, text="Weight of the distance from the previous epoch's weights relative to the losses.")
    """Weight of |w - w0|^2 / 2 against the sum of losses."""

    def make(self, parts: Parts) -> Rampion:
        return Rampion(self, parts.metric)

    def remedy(self) -> str:
        return "lower learner.rampion.step"

    def problem(self, job: Any) -> str:
        if self.loss != 2 or job.learner.initial_weights is not None:
            return ""
        found, why = "2 without learner.initial_weights", "from weights of 0, no step reduces this loss"
        return f"learner.rampion.loss: found {found}, expected them, or 1 or 3: {why}"


class RampionObjective:
    """The lists of one shard."""

    pairs = 0

    def __init__(self, pool: NBestPool, place: np.ndarray, options: RampionOptions, metric: Metric) -> None:
        self._pool = pool
        self._place = place
        cost = options.cost_scale * (1 - metric.sentence_scores(pool.statistics))
        self._hope_cost, self._fear_cost = (sign * cost for sign in LOSSES[options.loss])

    def evaluate(self, point: np.ndarray) -> Reply:
        """The sum of losses (float64 [1]) and a subgradient (float64 [features]) with fixed hopes.

        ``point``: float64 [2, features], the weights that determine the hopes, and w.
        """
        scores_of_hopes, found = (scores(self._pool, weights[self._place]) for weights in point)
        hope = _argmax_by_list(self._pool.sentence_ptr, scores_of_hopes + self._hope_cost)
        fear = _argmax_by_list(self._pool.sentence_ptr, found + self._fear_cost)
        loss = (found + self._fear_cost)[fear].sum() - (found + self._hope_cost)[hope].sum()
        times = np.bincount(fear, minlength=len(found)) - np.bincount(hope, minlength=len(found))
        gradient = np.zeros(point.shape[1])
        gradient[self._place] = summed(self._pool, times.astype(np.float64))
        return np.array([loss]), gradient


class Rampion:
    """An `mpitune.learner.base.BatchLearner`."""

    def __init__(self, options: RampionOptions, metric: Metric) -> None:
        self._options = options
        self._metric = metric

    def shard_objective(
        self, pool: NBestPool, place: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> RampionObjective:
        return RampionObjective(pool, place, self._options, self._metric)

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, evaluate_shards: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """The reported objective is that of the final weights with the hopes of the last round."""
        options, found, steps, length, best = self._options, weights, 0, self._options.step, 0.0

        def objective(hopes_of: np.ndarray, at: np.ndarray) -> tuple[float, np.ndarray]:
            moved = at - weights
            loss, gradient = options.c / 2 * dot(moved, moved), options.c * moved
            for part_loss, part_gradient in evaluate_shards(np.stack([hopes_of, at])):
                loss += float(part_loss[0])
                gradient += part_gradient
            return loss, np.where(free, gradient, 0.0)

        for _ in range(options.rounds):
            hopes_of = found
            best, gradient = objective(hopes_of, found)
            for _ in range(options.passes):
                tried = found - length * gradient
                loss, slope = objective(hopes_of, tried)
                if loss < best:
                    found, best, gradient, steps = tried, loss, slope, steps + 1
                else:
                    length /= 2
        return OptimizerResult(found, best, steps)


def _argmax_by_list(sentence_ptr: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """int64: the entry of the largest of ``numbers`` (float64 [entries]) in each non-empty list; ties: the first."""
    entries = np.empty(len(sentence_ptr) - 1, dtype=np.int64)
    _fill_argmax(sentence_ptr, numbers, entries)
    return entries[sentence_ptr[1:] > sentence_ptr[:-1]]


@kernel
def _fill_argmax(sentence_ptr: np.ndarray, numbers: np.ndarray, entries: np.ndarray) -> None:
    """Fill ``entries`` (int64 [sentences]); an empty list gets its start. ``numbers``: float64 [all entries]."""
    for s in range(len(entries)):
        entries[s] = sentence_ptr[s]
        for j in range(sentence_ptr[s] + 1, sentence_ptr[s + 1]):
            if numbers[j] > numbers[entries[s]]:
                entries[s] = j
