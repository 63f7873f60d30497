"""Minimising a smooth sum over all shards by L-BFGS, with an l2 penalty, and others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from mpitune.learner.base import EvaluateShards, OptimizerResult


def minimize_lbfgs(
    start: np.ndarray,
    free: np.ndarray,
    c: float,
    ask: EvaluateShards,
    penalty: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None,
) -> OptimizerResult:
    """The weights of the smallest |w|^2 / 2 + c * (sum of losses) that L-BFGS finds from ``start``.

    ``free``: bool [features], those that move, and are penalised. To a question w (float64 [features]) each shard
    replies with its loss (float64 [1]) and its gradient (float64 [features]). ``penalty``, that of w and its gradient,
    is added to each loss of the sum: shards then also say how many there are (float64 [2] instead).
    """
    weights = start.copy()

    def objective(moved: np.ndarray) -> tuple[float, np.ndarray]:
        weights[free] = moved
        loss, losses, gradient = 0.0, 0.0, np.zeros(len(weights))
        for part_loss, part_gradient in ask(weights):
            loss += float(part_loss[0])
            losses += float(part_loss[-1])
            gradient += part_gradient
        if penalty is not None:
            more, slope = penalty(weights)
            loss += losses * more
            gradient += losses * slope
        return 0.5 * float(moved @ moved) + c * loss, moved + c * gradient[free]

    done = minimize(objective, start[free], jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    weights[free] = done.x
    return OptimizerResult(weights, float(done.fun), int(done.nit))
