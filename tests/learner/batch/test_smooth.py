"""L-BFGS where a line search fails, where nothing is free, and where it takes long."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from mpitune.learner.base import Reply
from mpitune.learner.batch.smooth import minimize_lbfgs


def cliff(weights: np.ndarray) -> Iterator[Reply]:
    """A slope towards 3 with a wall at 2, which its gradient does not show."""
    x = float(weights[0])
    yield np.array([50 * x * x - 300 * x + 1000 * (x > 2)]), np.array([100 * x - 300])


def test_after_a_failed_line_search_the_best_point_is_the_result() -> None:
    done = minimize_lbfgs(np.array([0.001]), np.array([True]), 1.0, cliff)
    assert done.steps > 0 and 1.5 < done.weights[0] <= 2
    assert done.objective == pytest.approx(0.5 * done.weights[0] ** 2 + next(cliff(done.weights))[0][0])


def test_without_a_free_weight_there_is_nothing_to_find(caplog: pytest.LogCaptureFixture) -> None:
    done = minimize_lbfgs(np.array([1.0]), np.array([False]), 2.0, cliff)
    assert (done.weights.tolist(), done.objective, done.steps, caplog.records) == ([1.0], -500.0, 0, [])


def test_the_search_goes_on_until_it_ends() -> None:
    """Losses of so different scales that a thousand steps are too few: the minimum of each weight is known."""
    scale = np.geomspace(1.0, 1e6, 300)

    def evaluate(weights: np.ndarray) -> Iterator[Reply]:
        yield np.array([0.5 * np.sum(scale * np.square(weights - 1))]), scale * (weights - 1)

    done = minimize_lbfgs(np.zeros(300), np.ones(300, dtype=bool), 1.0, evaluate)
    least = np.sum(0.5 * scale / (1 + scale))
    assert done.steps > 1000 and done.objective == pytest.approx(least, rel=1e-6)
