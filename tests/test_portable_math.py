"""Functions with the same bits everywhere: their errors, where they are exact, special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from mpitune import portable_math
from mpitune.portable_math import dot, exp, exp10, log, log1p, log10, tanh, whole_power

COUNT = 20_000
RANDOM = np.random.default_rng(0)
SMALL = RANDOM.normal(size=COUNT) * 10.0 ** RANDOM.uniform(-20, 0, COUNT)
NEAR_1 = 1 + RANDOM.normal(size=COUNT) * 10.0 ** RANDOM.uniform(-16, -1, COUNT)
NUMBERS = {
    "exps": np.concatenate([RANDOM.uniform(-708, 709, COUNT), RANDOM.uniform(-1, 1, COUNT), SMALL]),
    "exp10s": np.concatenate([RANDOM.uniform(-307, 308, COUNT), RANDOM.uniform(-1, 1, COUNT), SMALL]),
    "logs": np.concatenate([np.exp(RANDOM.uniform(-700, 700, COUNT)), RANDOM.uniform(0.5, 2, COUNT), NEAR_1]),
    "log10s": np.concatenate([np.exp(RANDOM.uniform(-700, 700, COUNT)), RANDOM.uniform(0.5, 2, COUNT), NEAR_1]),
    "tanhs": np.concatenate([RANDOM.uniform(-5, 5, COUNT), SMALL]),
}
WIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exps": np.exp,
    "exp10s": lambda x: np.power(np.longdouble(10), x),
    "logs": np.log,
    "log10s": np.log10,
    "tanhs": np.tanh,
    "log1p": np.log1p,
}
precise = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a longer type than float64")


def error(name: str, numbers: np.ndarray, found: np.ndarray) -> float:
    """The largest difference from the value in a longer type, in units in the last place."""
    exact = WIDE[name](numbers.astype(np.longdouble))
    return float((np.abs(found - exact) / np.spacing(np.abs(exact.astype(np.float64)))).max())


@pytest.mark.kernel
@precise
@pytest.mark.parametrize(("name", "most"), [("exps", 1), ("exp10s", 1), ("logs", 1), ("log10s", 1), ("tanhs", 3)])
def test_errors(name: str, most: float) -> None:
    assert error(name, NUMBERS[name], getattr(portable_math, name)(NUMBERS[name])) < most


@precise
def test_the_error_of_log1p() -> None:
    numbers = np.concatenate([RANDOM.uniform(-0.99, 5, 500), RANDOM.uniform(0, 1, 500), np.abs(SMALL[:500])])
    assert error("log1p", numbers, np.array([log1p(x) for x in numbers.tolist()])) < 1


@pytest.mark.kernel
def test_powers_of_ten_are_exact() -> None:
    for n in range(23):
        assert exp10(float(n)) == 10**n and log10(10.0**n) == n
    assert [whole_power(10.0, n) for n in range(23)] == [float(10**n) for n in range(23)]
    assert whole_power(0.95, 1) == 0.95 and whole_power(0.95, 300) == pytest.approx(0.95**300, rel=1e-12)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("function", "values"),
    [
        (exp, {-math.inf: 0.0, -746.0: 0.0, -745.1: 5e-324, 0.0: 1.0, 709.79: math.inf, math.inf: math.inf}),
        (exp10, {-math.inf: 0.0, -324.0: 0.0, 0.0: 1.0, 308.3: math.inf, math.inf: math.inf}),
        (log, {-math.inf: math.nan, -1.0: math.nan, 0.0: -math.inf, 1.0: 0.0, math.inf: math.inf}),
        (log10, {-math.inf: math.nan, -1.0: math.nan, 0.0: -math.inf, 1.0: 0.0, math.inf: math.inf}),
        (log1p, {-2.0: math.nan, -1.0: -math.inf, 0.0: 0.0, 1e-300: 1e-300, math.inf: math.inf}),
        (tanh, {-math.inf: -1.0, -40.0: -1.0, 0.0: 0.0, 1e-300: 1e-300, math.inf: 1.0}),
    ],
)
def test_special_values(function: Callable[[float], float], values: dict[float, float]) -> None:
    for x, y in values.items():
        assert function(x) == y or (math.isnan(y) and math.isnan(function(x))), x
    assert math.isnan(function(math.nan))


@pytest.mark.kernel
def test_the_smallest_numbers() -> None:
    for x in (5e-324, 1e-310, 2.0**-1022):
        assert (log(x), log10(x)) == (pytest.approx(math.log(x), rel=1e-15), pytest.approx(math.log10(x), rel=1e-15))
    assert exp(-740.0) == pytest.approx(math.exp(-740.0), abs=5e-324)


@pytest.mark.kernel
def test_arrays_of_any_shape_are_left_as_they_are() -> None:
    numbers = np.arange(6).reshape(2, 3)
    assert portable_math.exps(numbers[:, ::2]).tolist() == [[exp(0.0), exp(2.0)], [exp(3.0), exp(5.0)]]
    assert numbers.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.kernel
@pytest.mark.parametrize("size", range(10))
def test_inner_products(size: int) -> None:
    a, b = RANDOM.uniform(-1, 1, (2, size))
    exact = sum((Fraction(x) * Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)), Fraction(0))
    sums = [0.0] * 4
    for i in range(size):
        # The last ones, fewer than four, belong to the first sum.
        sums[i % 4 if i < size - size % 4 else 0] += a[i] * b[i]
    assert dot(a, b) == (sums[0] + sums[1]) + (sums[2] + sums[3]) == pytest.approx(float(exact), abs=1e-15)
