"""PRO, pairwise ranking optimisation (Hopkins & May 2011), over accumulated k-best lists.

Of each list a sample of pairs (none twice) whose gold scores (`bleu+1`) lie far apart is told into better and worse by
logistic regression. A pair with difference d = x_better - x_worse is two examples, d with label + and -d with label -,
which have the same loss log(1 + exp(-w.d)). With all of them w_new minimises |w|^2 / 2 + c * (sum of losses) *(ours)*,
by L-BFGS from 0, and the epoch ends with w = psi w_new + (1 - psi) w_old. Where the weights of bins are to be smooth
(`chains`), beta times their penalty is added to the loss of each example *(ours: so that beta means the same for few
sentences and for many)*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from mpitune.array_files.csr import select_rows
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.batch.smooth import minimize_lbfgs
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.pair_sampling import pro
from mpitune.learner.pool import NBestPool
from mpitune.metrics.sentence_bleu import bleu_plus_one


@dataclass(frozen=True)
class ProOptions:
    """The options of PRO, named as in a job."""

    candidates: int = 5000
    """How many pairs are drawn from each list (Gamma); all where there are fewer *(ours)*."""
    threshold: float = 0.05
    """The smallest difference of gold scores that is kept."""
    kept: int = 50
    """How many of those pairs are learned from (Xi): the farthest apart."""
    c: float = 500.0
    """What the sum of losses counts beside |w|^2 / 2 *(ours)*."""
    interpolation: float = 0.1
    """psi: how far the weights go to what was found."""


class ProPart:
    """The pairs of one shard."""

    def __init__(self, differences: csr_array) -> None:
        """``differences``: float64 [pairs, features], better minus worse."""
        self._differences = differences
        self._columns = differences.T.tocsr()
        self.pairs = int(differences.shape[0])

    def answer(self, question: np.ndarray) -> Reply:
        """The sum of log(1 + exp(-w.d)) and the number of pairs (float64 [2]); its gradient (float64 [features]).

        w = ``question``.
        """
        margins = self._differences @ question
        return np.array([np.logaddexp(0.0, -margins).sum(), self.pairs]), self._columns @ -expit(-margins)


class Pro:
    """An `mpitune.learner.base.ChainLearner`."""

    def __init__(self, options: ProOptions, smoothness: Smoothness | None = None) -> None:
        """``smoothness``: how the weights of bins are to be smooth, if they are."""
        self._options = options
        self._smoothness = smoothness
        self._chains: list[np.ndarray] = []

    @property
    def chained(self) -> np.ndarray:
        return self._smoothness.features if self._smoothness else np.zeros(0, dtype=np.uint64)

    def set_feature_order(self, ids: np.ndarray) -> None:
        self._chains = self._smoothness.places(ids) if self._smoothness else []

    def part(
        self, pool: NBestPool, place: np.ndarray, free: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> ProPart:
        options, gold = self._options, bleu_plus_one(pool.statistics)
        pairs = [np.empty((0, 2), dtype=np.int64)]
        for s in range(pool.sentences):
            start, end = pool.sentence_ptr[s], pool.sentence_ptr[s + 1]
            drawn = pro(gold[start:end], random(s), options.candidates, options.threshold, options.kept)
            pairs.append(start + drawn.astype(np.int64))
        better, worse = np.concatenate(pairs).T
        # What is frozen keeps its part in w.d.
        return ProPart(_rows(pool, place, len(free), better) - _rows(pool, place, len(free), worse))

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, ask: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """Where there are no pairs, the weights stay."""
        # Each pair is two examples.
        found = minimize_lbfgs(np.where(free, 0.0, weights), free, 2 * self._options.c, ask, self._penalty())
        if not found.weights[free].any():
            return OptimizerResult(weights, found.objective, 0)
        psi = self._options.interpolation
        return found._replace(weights=np.where(free, psi * found.weights + (1 - psi) * weights, weights))

    def _penalty(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]] | None:
        smoothness = self._smoothness
        return partial(smoothness.penalty, chains=self._chains) if smoothness else None


def _rows(pool: NBestPool, place: np.ndarray, width: int, entries: np.ndarray) -> csr_array:
    """float64 [entries, width]: feature vectors over all features."""
    ptr, feature = select_rows(pool.feature_ptr, pool.feature, entries)
    return csr_array(
        (select_rows(pool.feature_ptr, pool.value, entries)[1], place[feature], ptr), (len(entries), width)
    )
