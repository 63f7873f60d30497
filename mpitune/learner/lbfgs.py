"""L-BFGS (Nocedal 1980; Liu and Nocedal 1989) without bounds, the same on all processors.

The direction is the gradient, times an approximation of the inverse Hessian by the last `PAIRS` steps; the step along
it satisfies the strong Wolfe conditions (Nocedal and Wright, *Numerical Optimization*, section 3.5). Conditions,
tolerances and their values are those of SciPy's L-BFGS-B, whose sums depend on the kernels of BLAS.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mpitune.portable_math import dot

PAIRS = 10
"""Earlier steps that are remembered."""
DECREASE = 1e-3
"""A step must lower the value by this share of what the slope at its start promises."""
CURVATURE = 0.9
"""The slope at the end of a step is at most this share of that at its start."""
TRIALS = 20
"""Largest number of evaluations of a step."""
MOST_STEPS = 15_000
"""Steps after which the search ends in any case."""
VALUE_TOLERANCE = 1e7 * np.finfo(float).eps
"""The end: a step lowers the value by no more than this share of it, or of 1."""
GRADIENT_TOLERANCE = 1e-5
"""The end: no element of the gradient is larger."""

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From a point (float64 [n]) to the value and the gradient (float64 [n])."""


class Minimum(NamedTuple):
    """The best point that was found."""

    point: np.ndarray
    """float64 [n]"""
    value: float
    steps: int
    """Steps taken."""
    failed: bool
    """True if the search ended because no step along the gradient lowers the value enough."""


class _Place(NamedTuple):
    """A point on the line of a search."""

    step: float
    value: float
    slope: float
    point: np.ndarray
    gradient: np.ndarray


def minimise(objective: Objective, start: np.ndarray) -> Minimum:
    """Minimise ``objective`` from ``start`` (float64 [n])."""
    value, gradient = objective(start)
    here = _Place(0.0, value, 0.0, start, gradient)
    pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=PAIRS)
    for taken in range(MOST_STEPS):
        if np.abs(here.gradient).max(initial=0.0) <= GRADIENT_TOLERANCE:
            return Minimum(here.point, here.value, taken, failed=False)
        found = _search(objective, here, _direction(here.gradient, pairs), first=not pairs)
        if found is None and pairs:
            # What is remembered may mislead: the gradient alone tries once more.
            pairs.clear()
            found = _search(objective, here, -here.gradient, first=True)
        if found is None:
            return Minimum(here.point, here.value, taken, failed=True)
        moved, bent = found.point - here.point, found.gradient - here.gradient
        if (curvature := dot(moved, bent)) > np.finfo(float).eps * dot(bent, bent):
            pairs.append((moved, bent, curvature))
        fallen, here = here.value - found.value, found
        if fallen <= VALUE_TOLERANCE * max(abs(here.value), abs(here.value + fallen), 1.0):
            return Minimum(here.point, here.value, taken + 1, failed=False)
    return Minimum(here.point, here.value, MOST_STEPS, failed=False)


def _direction(gradient: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """float64 [n]: the direction of the next step, by the two loops over the remembered steps."""
    direction, shares = -gradient, []
    for moved, bent, curvature in reversed(pairs):
        share = dot(moved, direction) / curvature
        shares.append(share)
        direction -= share * bent
    if pairs:
        _, bent, curvature = pairs[-1]
        direction *= curvature / dot(bent, bent)
    for (moved, bent, curvature), share in zip(pairs, reversed(shares), strict=True):
        direction += (share - dot(bent, direction) / curvature) * moved
    return direction


def _search(objective: Objective, start: _Place, direction: np.ndarray, *, first: bool) -> _Place | None:
    """The end of a step that satisfies both conditions, else the lowest that has lowered the value enough, or None.

    ``first``: nothing is known of the length.
    """
    low = start._replace(step=0.0, slope=dot(start.gradient, direction))
    if not low.slope < 0:
        return None
    slope, high = low.slope, None
    step = min(1.0, 1.0 / math.sqrt(dot(direction, direction))) if first else 1.0
    for _ in range(TRIALS):
        point = start.point + step * direction
        value, gradient = objective(point)
        here = _Place(step, value, dot(gradient, direction), point, gradient)
        if not value <= start.value + DECREASE * step * slope or value >= low.value:
            high = here
        else:
            if abs(here.slope) <= -CURVATURE * slope:
                return here
            if here.slope * (1.0 if high is None else high.step - low.step) >= 0:
                high = low
            low = here
        step = 4.0 * step if high is None else _between(low, high)
    return low if low.step > 0 else None


def _between(low: _Place, high: _Place) -> float:
    """The minimum of the cubic through both places; the middle, if that is too near to one of them or no number."""
    length = high.step - low.step
    middle = low.step + 0.5 * length
    a = low.slope + high.slope - 3.0 * (high.value - low.value) / length
    root = a * a - low.slope * high.slope
    if not 0.0 <= root < math.inf:
        return middle
    b = math.copysign(math.sqrt(root), length)
    bend = high.slope - low.slope + 2.0 * b
    share = 1.0 - (high.slope + b - a) / bend if bend else 0.5
    return low.step + share * length if 0.1 <= share <= 0.9 else middle
