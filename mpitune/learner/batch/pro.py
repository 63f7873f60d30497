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

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from mpitune.array_files.csr import select_rows
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.batch.smooth import minimize_lbfgs
from mpitune.learner.bin_chains import ChainPenalty, Smoothness
from mpitune.learner.pair_sampling import pro
from mpitune.learner.pool import NBestPool
from mpitune.metrics.tuning_metric import Metric


@dataclass(frozen=True)
class ProOptions:
    """The options of PRO, named as in a job's ``[learner.pro]``."""

    candidates: int
    """Pairs drawn from each list (Gamma); all pairs if there are fewer *(ours)*."""
    threshold: float
    """Smallest difference of gold scores that is kept."""
    kept: int
    """Pairs of each list used for learning (Xi): those of the largest differences."""
    c: float
    """Weight of the sum of losses against |w|^2 / 2 *(ours)*."""
    interpolation: float
    """psi: weight of the new solution against the weights of the epoch before."""


class ProObjective:
    """The pairs of one shard."""

    def __init__(self, differences: csr_array) -> None:
        """``differences``: float64 [pairs, features], better minus worse."""
        self._differences = differences
        self._columns = differences.T.tocsr()
        self.pairs = int(differences.shape[0])

    def evaluate(self, point: np.ndarray) -> Reply:
        """The sum of log(1 + exp(-w.d)) and the number of pairs (float64 [2]); the gradient (float64 [features]).

        ``point``: float64 [features], w.
        """
        margins = self._differences @ point
        return np.array([np.logaddexp(0.0, -margins).sum(), self.pairs]), self._columns @ -expit(-margins)


class Pro(ChainPenalty):
    """An `mpitune.learner.base.ChainLearner`."""

    def __init__(self, options: ProOptions, metric: Metric, smoothness: Smoothness | None = None) -> None:
        """``smoothness``: the penalty on the weights of bins, None without one."""
        super().__init__(smoothness)
        self._options = options
        self._metric = metric

    def shard_objective(
        self, pool: NBestPool, place: np.ndarray, free: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> ProObjective:
        options, gold = self._options, self._metric.sentence_scores(pool.statistics)
        pairs = [np.empty((0, 2), dtype=np.int64)]
        for s in range(pool.sentences):
            start, end = pool.sentence_ptr[s], pool.sentence_ptr[s + 1]
            drawn = pro(gold[start:end], random(s), options.candidates, options.threshold, options.kept)
            pairs.append(start + drawn.astype(np.int64))
        better, worse = np.concatenate(pairs).T
        # Frozen features count in w.d.
        return ProObjective(_rows(pool, place, len(free), better) - _rows(pool, place, len(free), worse))

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


def _rows(pool: NBestPool, place: np.ndarray, width: int, entries: np.ndarray) -> csr_array:
    """float64 [entries, width]: feature vectors of ``entries`` (int64) over all ``width`` features."""
    ptr, feature = select_rows(pool.feature_ptr, pool.feature, entries)
    return csr_array(
        (select_rows(pool.feature_ptr, pool.value, entries)[1], place[feature], ptr), (len(entries), width)
    )
