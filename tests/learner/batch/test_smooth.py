"""L-BFGS where a line search fails, and where nothing is free."""

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
