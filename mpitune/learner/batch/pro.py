"""PRO, pairwise ranking optimisation (Hopkins & May, EMNLP 2011), over accumulated k-best lists.

Logistic regression separates the better from the worse entry of sampled pairs of each list whose scores by the metric
(of BLEU: `bleu+1`) differ most. A pair with difference d = x_better - x_worse gives two examples, d with label + and -d
with label -, of the same loss log(1 + exp(-w.d)). w_new minimises |w|^2 / 2 + c * (sum of losses) *(ours)*, by L-BFGS
from 0, and the epoch's result is w = psi w_new + (1 - psi) w_old. With structured regularisation
(`mpitune.learner.bin_chains`), beta times the penalty is added to the loss of each example *(ours: the effect of beta
does not depend on the number of sentences)*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.decoder.choices import MAX_SIZE
from mpitune.jit import at, kernel
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.batch.smooth import ChainPenalty, minimize_lbfgs
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.pair_sampling import PRO_CANDIDATES, PRO_KEPT, PRO_THRESHOLD, pro
from mpitune.learner.pool import NBestPool
from mpitune.metrics.tuning_metric import Metric
from mpitune.portable_math import exp, log1p
from mpitune.schema import number


@METHODS.register("pro")
@dataclass(frozen=True)
class ProOptions(Method):
    """``[learner.pro]``: the options of PRO."""

    about = 'For method = "pro".'
    is_batch = True

    candidates: int = number(
        PRO_CANDIDATES,
        1,
        MAX_SIZE,
        text="Number of pairs drawn from each list (at most all); least difference of a pair in the metric (BLEU: "
        "bleu+1); number of pairs with the largest differences that are used.",
    )
    """Pairs drawn from each list (Gamma); all pairs if there are fewer *(ours)*."""
    threshold: float = number(PRO_THRESHOLD, 0.0)
    """Smallest difference of gold scores that is kept."""
    kept: int = number(PRO_KEPT, 1, MAX_SIZE)
    """Pairs of each list used for learning (Xi): those of the largest differences."""
    c: float = number(500.0, 0.0, above=True, text="Weight of the losses relative to the l2 norm of the weights.")
    """Weight of the sum of losses against |w|^2 / 2 *(ours)*."""
    interpolation: float = number(
        0.1, 0.0, 1.0, above=True, text="Share of the new weights in their interpolation with the old ones."
    )
    """psi: weight of the new solution against the weights of the epoch before."""

    def make(self, parts: Parts) -> Pro:
        return Pro(self, parts.metric, parts.smoothness)

    def remedy(self) -> str:
        return "lower learner.pro.interpolation"


class Pairs(NamedTuple):
    """The pairs of all lists, and the entries that occur in them, list by list."""

    list_ptr: np.ndarray
    """int64 [lists + 1]: list s has the pairs ``list_ptr[s]`` to ``list_ptr[s + 1]``."""
    better: np.ndarray
    """int64 [pairs]: places in ``entry``."""
    worse: np.ndarray
    """int64 [pairs]: places in ``entry``."""
    entry_ptr: np.ndarray
    """int64 [lists + 1]: list s has the places ``entry_ptr[s]`` to ``entry_ptr[s + 1]``."""
    entry: np.ndarray
    """int64: entries of the pool, ascending."""
    ptr: np.ndarray
    """int64 [entries of the pool + 1]: rows of the feature vectors (CSR), those of the pool, which may be mapped."""
    feature: np.ndarray
    """int32: features of the pool."""
    value: np.ndarray
    """float64"""


class ProObjective:
    """The pairs of one shard.

    Pairs have the largest differences of their lists, so that few entries are in many pairs: w.d is the difference of
    two scores, and each entry is scored once.
    """

    def __init__(self, pairs: Pairs, place: np.ndarray) -> None:
        """``place``: int64 [features of the pool], indices among all features."""
        self._pairs = pairs
        self._place = place
        self.pairs = len(pairs.better)
        self._alike = np.ones(len(place), dtype=np.bool_)
        _unmark_differences(pairs, np.zeros(len(place)), self._alike)

    def evaluate(self, point: np.ndarray) -> Reply:
        """The sum of log(1 + exp(-w.d)) and the number of pairs (float64 [2]); the gradient (float64 [features]).

        ``point``: float64 [features], w.
        """
        entries, of_pool, gradient = len(self._pairs.entry), np.zeros(len(self._place)), np.zeros(len(point))
        loss = _loss(self._pairs, point[self._place], np.empty(entries), np.zeros(entries), of_pool)
        # Where no pair differs the terms cancel, but for rounding.
        of_pool[self._alike] = 0
        gradient[self._place] = of_pool
        return np.array([loss, self.pairs]), gradient


@kernel
def _loss(pairs: Pairs, weights: np.ndarray, scores: np.ndarray, slopes: np.ndarray, gradient: np.ndarray) -> float:
    """The sum of log(1 + exp(-w.d)), with its ``gradient`` (float64 [features of the pool], 0 before).

    ``weights``: float64 [features of the pool]; ``scores``, ``slopes``: float64 [places], filled: w.x and its
    derivative; ``slopes`` is 0 before.
    """
    loss = 0.0
    # List by list, so that rows are read from memory once.
    for s in range(len(pairs.list_ptr) - 1):
        for j in range(pairs.entry_ptr[s], pairs.entry_ptr[s + 1]):
            row = pairs.entry[j]
            score = 0.0
            for e in range(at(pairs.ptr[row]), at(pairs.ptr[row + 1])):
                score += weights[at(pairs.feature[e])] * pairs.value[e]
            scores[j] = score
        for i in range(pairs.list_ptr[s], pairs.list_ptr[s + 1]):
            margin = scores[pairs.better[i]] - scores[pairs.worse[i]]
            small = exp(-abs(margin))
            loss += log1p(small) + max(-margin, 0.0)
            slope = (small if margin > 0 else 1.0) / (1.0 + small)
            slopes[pairs.better[i]] -= slope
            slopes[pairs.worse[i]] += slope
        for j in range(pairs.entry_ptr[s], pairs.entry_ptr[s + 1]):
            row = pairs.entry[j]
            slope = slopes[j]
            for e in range(at(pairs.ptr[row]), at(pairs.ptr[row + 1])):
                gradient[at(pairs.feature[e])] += slope * pairs.value[e]
    return loss


@kernel
def _unmark_differences(pairs: Pairs, difference: np.ndarray, alike: np.ndarray) -> None:
    """Set ``alike`` (bool [features of the pool]) to False for each feature in which the entries of some pair differ.

    ``difference``: float64 [features of the pool], 0 before and after.
    """
    for i in range(len(pairs.better)):
        better, worse = pairs.entry[pairs.better[i]], pairs.entry[pairs.worse[i]]
        for e in range(at(pairs.ptr[better]), at(pairs.ptr[better + 1])):
            difference[at(pairs.feature[e])] = pairs.value[e]
        for e in range(at(pairs.ptr[worse]), at(pairs.ptr[worse + 1])):
            difference[at(pairs.feature[e])] -= pairs.value[e]
        for row in (better, worse):
            for e in range(at(pairs.ptr[row]), at(pairs.ptr[row + 1])):
                feature = at(pairs.feature[e])
                if difference[feature] != 0:
                    alike[feature] = False
                difference[feature] = 0


class Pro(ChainPenalty):
    """An `mpitune.learner.base.ChainLearner`."""

    def __init__(self, options: ProOptions, metric: Metric, smoothness: Smoothness | None = None) -> None:
        """``smoothness``: the penalty on the weights of bins, None without one."""
        super().__init__(smoothness)
        self._options = options
        self._metric = metric

    def shard_objective(
        self, pool: NBestPool, place: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> ProObjective:
        options, gold = self._options, self._metric.sentence_scores(pool.statistics)
        drawn = [np.empty((0, 2), dtype=np.int64)]
        for s in range(pool.sentences):
            start, end = pool.sentence_ptr[s], pool.sentence_ptr[s + 1]
            pairs = pro(gold[start:end], random(s), options.candidates, options.threshold, options.kept)
            drawn.append(start + pairs.astype(np.int64))
        entries, numbers = np.unique(np.concatenate(drawn), return_inverse=True)
        better, worse = np.ascontiguousarray(numbers.reshape(-1, 2).T)
        list_ptr, entry_ptr = row_ends([len(pairs) for pairs in drawn[1:]]), np.searchsorted(entries, pool.sentence_ptr)
        # Frozen features count in w.d.
        rows = pool.feature_ptr, pool.feature, pool.value
        return ProObjective(Pairs(list_ptr, better, worse, entry_ptr, entries, *rows), place)

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, evaluate_shards: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """The weights of the epoch before are returned if there are no pairs."""
        # Each pair is two examples.
        start = np.where(free, 0.0, weights)
        found = minimize_lbfgs(start, free, 2 * self._options.c, evaluate_shards, self.penalty)
        if not found.weights[free].any():
            return OptimizerResult(weights, found.objective, 0)
        psi = self._options.interpolation
        return found._replace(weights=np.where(free, psi * found.weights + (1 - psi) * weights, weights))
