"""RAMPION (Gimpel & Smith 2012): structured ramp loss over accumulated k-best lists, made small.

With cost(y) = `cost_scale` (1 - `bleu+1`), the loss of a sentence is the score of its fear, max(w.x + cost), less that
of its hope, max(w.x - cost): loss 3 of the paper, which it recommends. Loss 1 puts the model's best, max(w.x), for the
hope; loss 2 puts it for the fear. The sum of losses + c |w - w0|^2 / 2 is a difference of convex functions. Each round
fixes the hopes under the weights that it begins with (CCCP) and takes subgradient steps down the convex rest, in which
the fears are those of the weights of the step. w0 are the weights of the epoch before *(ours)*; the paper's are those
before the first.

The paper takes a step after each sentence, and has several passes over all of them in a round. Here a pass is a single
step, along the sum over all sentences *(ours)*, so that shards work side by side. A step that would not make the loss
smaller is not taken, and those after it are half as long *(ours)*: one length does for few sentences and for many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.pool import NBestPool, scores, summed
from mpitune.metrics.sentence_bleu import bleu_plus_one

LOSSES = {1: (0.0, 1.0), 2: (-1.0, 0.0), 3: (-1.0, 1.0)}
"""By the paper's number: how the cost counts in what the weights move towards, and away from."""


@dataclass(frozen=True)
class RampionOptions:
    """The options of RAMPION, named as in a job."""

    loss: int = 3
    """One of `LOSSES`."""
    cost_scale: float = 10.0
    """alpha"""
    rounds: int = 10
    """In how many of them the hopes are fixed anew (T')."""
    passes: int = 5
    """Over all sentences, in each round (T'')."""
    step: float = 0.0001
    """eta: the length of the first step, times the subgradient."""
    c: float = 1.0
    """What |w - w0|^2 / 2 counts beside the sum of losses."""


class RampionPart:
    """The lists of one shard."""

    pairs = 0

    def __init__(self, pool: NBestPool, place: np.ndarray, options: RampionOptions) -> None:
        self._pool = pool
        self._place = place
        cost = options.cost_scale * (1 - bleu_plus_one(pool.statistics))
        self._towards, self._away = (sign * cost for sign in LOSSES[options.loss])

    def answer(self, question: np.ndarray) -> Reply:
        """The sum of losses (float64 [1]) and a subgradient (float64 [features]), while the hopes are fixed.

        ``question``: float64 [2, features], the weights that the hopes are of, and w.
        """
        of_hopes, found = (scores(self._pool, weights[self._place]) for weights in question)
        hope = _highest(self._pool.sentence_ptr, of_hopes + self._towards)
        fear = _highest(self._pool.sentence_ptr, found + self._away)
        loss = (found + self._away)[fear].sum() - (found + self._towards)[hope].sum()
        times = np.bincount(fear, minlength=len(found)) - np.bincount(hope, minlength=len(found))
        gradient = np.zeros(question.shape[1])
        gradient[self._place] = summed(self._pool, times.astype(np.float64))
        return np.array([loss]), gradient


class Rampion:
    """An `mpitune.learner.base.BatchLearner`."""

    def __init__(self, options: RampionOptions) -> None:
        self._options = options

    def part(
        self, pool: NBestPool, place: np.ndarray, free: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> RampionPart:
        return RampionPart(pool, place, self._options)

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, ask: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """The objective is that of the weights at the end, with the hopes of the last round."""
        options, found, steps, length, best = self._options, weights, 0, self._options.step, 0.0

        def objective(hopes_of: np.ndarray, at: np.ndarray) -> tuple[float, np.ndarray]:
            moved = at - weights
            loss, gradient = options.c / 2 * float(moved @ moved), options.c * moved
            for part_loss, part_gradient in ask(np.stack([hopes_of, at])):
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


def _highest(sentence_ptr: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """int64: the entry of the largest of ``numbers`` (float64 [entries]) in each list that has any; ties: the first."""
    entries = np.empty(len(sentence_ptr) - 1, dtype=np.int64)
    _pick(sentence_ptr, numbers, entries)
    return entries[sentence_ptr[1:] > sentence_ptr[:-1]]


@kernel
def _pick(sentence_ptr: np.ndarray, numbers: np.ndarray, entries: np.ndarray) -> None:
    for s in range(len(entries)):
        entries[s] = sentence_ptr[s]
        for j in range(sentence_ptr[s] + 1, sentence_ptr[s + 1]):
            if numbers[j] > numbers[entries[s]]:
                entries[s] = j
