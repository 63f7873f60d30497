"""L-BFGS: minima that are known, and those that SciPy finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from mpitune.learner.lbfgs import Minimum, minimise


def quadratic(scale: np.ndarray, minimum: np.ndarray, start: np.ndarray) -> Minimum:
    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.5 * float(scale @ (point - minimum) ** 2), scale * (point - minimum)

    return minimise(objective, start)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_a_quadratic_of_any_condition(condition: float) -> None:
    minimum = np.linspace(-3, 5, 30)
    found = quadratic(np.geomspace(1.0, condition, 30), minimum, np.zeros(30))
    assert found.value < 1e-4 and not found.failed
    if condition == 1:
        assert found.point == pytest.approx(minimum) and found.steps <= 3


def test_a_curved_valley_is_followed_to_its_end() -> None:
    tried = []

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        tried.append(point)
        return float(rosen(point)), rosen_der(point)

    start = np.array([-1.2, 1.0] * 5)
    found = minimise(objective, start)
    known = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B")
    assert found.value < 1e-8 and found.point == pytest.approx(np.ones(10), abs=1e-3)
    assert len(tried) < 1.5 * known.nfev


@pytest.mark.parametrize("c", [1.0, 1e3, 1e6])
def test_the_value_is_that_of_scipy_for_pairs_that_are_nearly_separable(c: float) -> None:
    random = np.random.default_rng(0)
    pairs = random.normal(size=(400, 40)) + 0.2

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        margin = pairs @ point
        slope = -1 / (1 + np.exp(np.minimum(margin, 700)))
        return 0.5 * point @ point + c * np.logaddexp(0, -margin).sum(), point + c * slope @ pairs

    found = minimise(objective, np.zeros(40))
    known = minimize(objective, np.zeros(40), jac=True, method="L-BFGS-B", options={"ftol": 0, "maxiter": 15000})
    assert not found.failed and found.value == pytest.approx(known.fun, rel=1e-6)


def test_numbers_that_are_none_are_stepped_back_from() -> None:
    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        if point[0] > 0.5:
            return np.nan, np.full(1, np.nan)
        return float((point[0] - 0.4) ** 2), 2 * (point - 0.4)

    found = minimise(objective, np.array([-50.0]))
    assert found.point == pytest.approx([0.4], abs=1e-4) and not found.failed
