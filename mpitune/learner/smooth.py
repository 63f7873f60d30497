"""Minimising a smooth sum over all shards by L-BFGS, with an l2 penalty."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from mpitune.learner.base import Ask, Tuned


def smallest(start: np.ndarray, free: np.ndarray, c: float, ask: Ask) -> Tuned:
    """The weights of the smallest |w|^2 / 2 + c * (sum of losses) that L-BFGS finds from ``start``.

    ``free``: bool [features], those that move, and are penalised. To a question w (float64 [features]) each shard
    replies with its loss (float64 [1]) and its gradient (float64 [features]).
    """
    weights = start.copy()

    def objective(moved: np.ndarray) -> tuple[float, np.ndarray]:
        weights[free] = moved
        loss, gradient = 0.0, np.zeros(len(weights))
        for part_loss, part_gradient in ask(weights):
            loss += float(part_loss[0])
            gradient += part_gradient
        return 0.5 * float(moved @ moved) + c * loss, moved + c * gradient[free]

    done = minimize(objective, start[free], jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    weights[free] = done.x
    return Tuned(weights, float(done.fun), int(done.nit))
