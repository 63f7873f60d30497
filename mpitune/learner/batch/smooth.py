"""L-BFGS for objectives that are sums over shards, with an l2 penalty and an optional second penalty."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import numpy as np

from mpitune.learner.base import EvaluateShards, OptimizerResult
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.lbfgs import minimise
from mpitune.portable_math import dot

LOG = logging.getLogger(__name__)


def minimize_lbfgs(
    start: np.ndarray,
    free: np.ndarray,
    c: float,
    evaluate_shards: EvaluateShards,
    penalty: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None,
) -> OptimizerResult:
    """Minimise |w|^2 / 2 + c * (sum of losses) by L-BFGS from ``start`` (float64 [features]).

    ``free``: bool [features], the weights that are optimised and penalised. At a point w (float64 [features]) each
    shard replies with its sum of losses (float64 [1]) and the gradient (float64 [features]). ``penalty``, from w to the
    penalty and its gradient, is added to each loss of the sum; shards then reply with the sum and the number of losses
    (float64 [2]).
    """
    weights = start.copy()

    def objective(moved: np.ndarray) -> tuple[float, np.ndarray]:
        weights[free] = moved
        loss, losses, gradient = 0.0, 0.0, np.zeros(len(weights))
        for part_loss, part_gradient in evaluate_shards(weights):
            loss += float(part_loss[0])
            losses += float(part_loss[-1])
            gradient += part_gradient
        if penalty is not None:
            more, slope = penalty(weights)
            loss += losses * more
            gradient += losses * slope
        return 0.5 * dot(moved, moved) + c * loss, moved + c * gradient[free]

    found = minimise(objective, start[free])
    if found.failed and found.steps == 0:
        LOG.warning("L-BFGS found no step that lowers the objective: are features of very different scale?")
    # The last point that was tried is not always the best one.
    weights[free] = found.point
    return OptimizerResult(weights, found.value, found.steps)


class ChainPenalty:
    """The penalty of a batch learner's objective, over features whose order the epoch sets.

    The base of learners that are an `mpitune.learner.base.ChainLearner`.
    """

    def __init__(self, smoothness: Smoothness | None) -> None:
        """``smoothness``: None without a penalty."""
        self._smoothness = smoothness
        self._chains: list[np.ndarray] = []

    @property
    def chained(self) -> np.ndarray:
        return self._smoothness.features if self._smoothness else np.zeros(0, dtype=np.uint64)

    def set_feature_order(self, ids: np.ndarray) -> None:
        self._chains = self._smoothness.places(ids) if self._smoothness else []

    @property
    def penalty(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]] | None:
        """From the weights (float64 [features]) to the penalty and its gradient; None without one."""
        return partial(self._smoothness.penalty, chains=self._chains) if self._smoothness else None
