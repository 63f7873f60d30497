"""Structured regularisation: penalties that make the weights of a feature's neighbouring bins a smooth curve.

Clark, Dyer and Lavie, *Locally Non-Linear Learning for SMT via Discretization and Structured Regularization*, TACL
2014, section 4.2. The weights w_1, ..., w_N of a feature's bins are a chain; its bend at bin j is
m_j = (w_{j-1} + w_{j+1}) / 2 - w_j, for j = 2, ..., N - 1.

- ``linear``: sum of m_j^2 (Sandler 2010, along a line): every bend is penalised.
- ``monotone``: sum of D_j m_j^2 with D_j = |tanh(m_j / r_j)|^(2 gamma) and r_j = (w_{j-1} - w_{j+1}) / 2: a bend of a
  curve that continues to rise, or to fall, costs little, a peak or a dip costs in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.lbfgs import minimise
from mpitune.portable_math import dot, exps, logs, tanhs

_FAR = 40.0
"""Beyond this, tanh is 1 and its derivative 0 in double precision."""


def linear(weights: np.ndarray) -> tuple[float, np.ndarray]:
    """The sum of m_j^2 and its gradient (float64 [N]) for the weights (float64 [N]) of a chain."""
    bend = _bends(weights)
    return dot(bend, bend), _gradient(2 * bend, np.zeros(len(bend)), len(weights))


def monotone(weights: np.ndarray, gamma: float) -> tuple[float, np.ndarray]:
    """The sum of D_j m_j^2 and its gradient (float64 [N]); if r_j is 0, D_j is 1 with derivative 0."""
    bend, slope = _bends(weights), (weights[:-2] - weights[2:]) / 2
    flat = slope == 0
    with np.errstate(over="ignore"):
        steepness = np.clip(np.where(flat, np.inf, bend / np.where(flat, 1.0, slope)), -_FAR, _FAR)
    tanh = np.abs(tanhs(steepness))
    damping = np.where(flat, 1.0, _powers(tanh, 2 * gamma))
    # The derivative of D_j by m_j / r_j, times m_j^2 / r_j. For m_j = 0 it is 0 with any gamma.
    bent = (tanh > 0) & (tanh < 1) & ~flat
    growth = 2 * gamma * _powers(np.where(bent, tanh, 1.0), 2 * gamma - 1) * np.sign(steepness) * _slopes(steepness)
    change = np.where(bent, growth * np.square(steepness) * slope, 0.0)
    by_bend, by_slope = 2 * damping * bend + change, -change * steepness
    return dot(damping, np.square(bend)), _gradient(by_bend, by_slope, len(weights))


def _powers(base: np.ndarray, exponent: float) -> np.ndarray:
    """float64 [n]: numbers from 0 to 1 to the power of ``exponent``, which is not 0 where one of them is."""
    return exps(exponent * logs(base)) if exponent != 0 else np.ones(len(base))


def _slopes(x: np.ndarray) -> np.ndarray:
    """float64 [n]: the derivative of tanh at ``x``, 1 / cosh^2."""
    small = exps(-2.0 * np.abs(x))
    slope: np.ndarray = 4.0 * small / np.square(1.0 + small)
    return slope


def _bends(weights: np.ndarray) -> np.ndarray:
    """float64 [N - 2]: m_2, ..., m_{N-1}; empty for fewer than three weights."""
    bends: np.ndarray = (weights[:-2] + weights[2:]) / 2 - weights[1:-1]
    return bends


def _gradient(by_bend: np.ndarray, by_slope: np.ndarray, size: int) -> np.ndarray:
    """float64 [N]: the gradient by the weights, from the derivatives by m_j and r_j (float64 [N - 2] each)."""
    gradient = np.zeros(size)
    if size > 2:
        gradient[:-2] += (by_bend + by_slope) / 2
        gradient[2:] += (by_bend - by_slope) / 2
        gradient[1:-1] -= by_bend
    return gradient


@dataclass(frozen=True)
class Smoothness:
    """A smoothness penalty and the chains that it applies to."""

    chains: Sequence[np.ndarray]
    """uint64 [N] each: the ids of a feature's bins."""
    regularizer: str
    """``linear`` or ``monotone``."""
    beta: float
    """Strength: factor of the penalty."""
    gamma: float = 1.0
    """Exponent of ``monotone``."""

    @property
    def features(self) -> np.ndarray:
        """uint64: ids of all bins."""
        return np.concatenate([np.zeros(0, dtype=np.uint64), *self.chains])

    def places(self, ids: np.ndarray) -> list[np.ndarray]:
        """int64 [N] each: the chains' positions in ``ids`` (uint64, ascending), which contain all bins."""
        return [np.searchsorted(ids, chain) for chain in self.chains]

    def of_chain(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """beta times the penalty of one chain, and its gradient; ``weights``: float64 [N]."""
        value, slope = linear(weights) if self.regularizer == "linear" else monotone(weights, self.gamma)
        return self.beta * value, self.beta * slope

    def penalty(self, weights: np.ndarray, chains: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
        """beta times the penalty of all ``chains`` (int64 [N] each, positions in ``weights``), and its gradient."""
        total, gradient = 0.0, np.zeros(len(weights))
        for chain in chains:
            value, slope = self.of_chain(weights[chain])
            total += value
            gradient[chain] += slope
        return total, gradient

    def proximal(self, weights: np.ndarray, free: np.ndarray) -> np.ndarray:
        """The v that minimises |v - w|^2 / 2 + beta times the penalty of v, for the weights w of a chain (float64 [N]).

        ``free``: bool [N], weights that are not frozen. Exact for ``linear``; for ``monotone``, which is not convex, a
        local minimum, found by L-BFGS from w.
        """
        if self.regularizer == "linear":
            return smoothed(weights, self.beta, free)
        moved = weights.copy()

        def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
            moved[free] = point
            value, slope = self.of_chain(moved)
            away = point - weights[free]
            return 0.5 * dot(away, away) + value, away + slope[free]

        if free.any():
            moved[free] = minimise(objective, weights[free]).point
        return moved


def smoothed(weights: np.ndarray, beta: float, free: np.ndarray) -> np.ndarray:
    """The proximal step of the linear penalty: the v that minimises |v - w|^2 / 2 + ``beta`` * (sum of m_j^2).

    Exact, by elimination. ``weights``: float64 [N], a chain; ``free``: bool [N], weights that are not frozen.
    """
    size, bends = len(weights), max(len(weights) - 2, 0)
    # The diagonal of 1 + 2 beta M'M and the two next to it, from the rows of M, one for each bend: 1/2, -1, 1/2.
    diagonals, solution = np.zeros((3, size + 2)), np.zeros(size + 2)
    diagonals[0] = 1.0
    for apart, products in enumerate([(0.5, 2.0, 0.5), (-1.0, -1.0), (0.5,)]):
        for first, product in enumerate(products):
            diagonals[apart, first : first + bends] += beta * product
    solution[:size] = weights
    # What is frozen goes to the right-hand side.
    for apart in (1, 2):
        pairs = max(size - apart, 0)
        cut = np.where(free[:pairs] & free[apart:], 0.0, diagonals[apart, :pairs])
        solution[:pairs] -= cut * weights[apart:]
        solution[apart:size] -= cut * weights[:pairs]
        diagonals[apart, :pairs] -= cut
    diagonals[0, :size][~free], solution[:size][~free] = 1.0, weights[~free]
    _solve(diagonals, solution)
    return solution[:size]


@kernel
def _solve(diagonals: np.ndarray, solution: np.ndarray) -> None:
    """Solve a system of n equations in place, by the factors LDL' of its matrix, which is positive definite.

    ``diagonals``: float64 [3, n + 2], that of the matrix and the two next to it, replaced by those of D and L; the rows
    n and n + 1 are those of the identity. ``solution``: float64 [n + 2], the right-hand side, replaced.
    """
    size = len(solution) - 2
    for j in range(size):
        first, second = diagonals[1, j] / diagonals[0, j], diagonals[2, j] / diagonals[0, j]
        diagonals[0, j + 1] -= first * diagonals[1, j]
        diagonals[1, j + 1] -= first * diagonals[2, j]
        diagonals[0, j + 2] -= second * diagonals[2, j]
        diagonals[1, j], diagonals[2, j] = first, second
        solution[j + 1] -= first * solution[j]
        solution[j + 2] -= second * solution[j]
    for j in range(size - 1, -1, -1):
        known = diagonals[1, j] * solution[j + 1] + diagonals[2, j] * solution[j + 2]
        solution[j] = solution[j] / diagonals[0, j] - known
