"""Structured regularisation: the weights of neighbouring bins of a feature are to lie on a smooth curve.

Clark, Dyer and Lavie (TACL 2014; CDL14), section 4.2. The weights w_1, ..., w_N of a feature's bins are a chain; what
bends it at bin j is m_j = (w_{j-1} + w_{j+1}) / 2 - w_j, for j = 2, ..., N - 1.

- ``linear``: sum of m_j^2 (Sandler 2010, along a line): every bend costs.
- ``monotone``: sum of D_j m_j^2 with D_j = |tanh(m_j / r_j)|^(2 gamma) and r_j = (w_{j-1} - w_{j+1}) / 2: a bend where
  the curve goes on rising, or falling, costs little, a peak or a dip costs in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from mpitune.decoder.base import KBest
from mpitune.learner.base import Counts, OnlineLearner

_FAR = 40.0
"""From here on, tanh is 1 and flat, but for less than can be told."""


def linear(weights: np.ndarray) -> tuple[float, np.ndarray]:
    """The sum of m_j^2, and its gradient (float64 [N]), for the weights (float64 [N]) of a chain."""
    bend = _bends(weights)
    return float(bend @ bend), _gradient(2 * bend, np.zeros(len(bend)), len(weights))


def monotone(weights: np.ndarray, gamma: float) -> tuple[float, np.ndarray]:
    """The same for the sum of D_j m_j^2, where D_j is 1, with derivative 0, if r_j is 0."""
    bend, slope = _bends(weights), (weights[:-2] - weights[2:]) / 2
    flat = slope == 0
    with np.errstate(over="ignore"):
        steepness = np.clip(np.where(flat, np.inf, bend / np.where(flat, 1.0, slope)), -_FAR, _FAR)
    tanh = np.abs(np.tanh(steepness))
    damping = np.where(flat, 1.0, tanh ** (2 * gamma))
    # The derivative of D_j by m_j / r_j, times m_j^2 / r_j. Where m_j is 0 so is that, whatever gamma is.
    bent = (tanh > 0) & (tanh < 1) & ~flat
    growth = 2 * gamma * np.where(bent, tanh, 1.0) ** (2 * gamma - 1) * np.sign(steepness) / np.cosh(steepness) ** 2
    change = np.where(bent, growth * steepness**2 * slope, 0.0)
    by_bend, by_slope = 2 * damping * bend + change, -change * steepness
    return float(damping @ bend**2), _gradient(by_bend, by_slope, len(weights))


def _bends(weights: np.ndarray) -> np.ndarray:
    """float64 [N - 2]: m_2, ..., m_{N-1}; none where there are fewer than three weights."""
    bends: np.ndarray = (weights[:-2] + weights[2:]) / 2 - weights[1:-1]
    return bends


def _gradient(by_bend: np.ndarray, by_slope: np.ndarray, size: int) -> np.ndarray:
    """float64 [N]: the derivatives by m_j and r_j, float64 [N - 2] each, carried on to the weights."""
    gradient = np.zeros(size)
    if size > 2:
        gradient[:-2] += (by_bend + by_slope) / 2
        gradient[2:] += (by_bend - by_slope) / 2
        gradient[1:-1] -= by_bend
    return gradient


@dataclass(frozen=True)
class Smoothness:
    """A penalty, and the chains that it is for."""

    chains: Sequence[np.ndarray]
    """uint64 [N] each: the ids of a feature's bins."""
    regularizer: str
    """``linear`` or ``monotone``."""
    beta: float
    """What the penalty is multiplied by."""
    gamma: float = 1.0
    """That of ``monotone``."""

    @property
    def features(self) -> np.ndarray:
        """uint64: all bins."""
        return np.concatenate([np.zeros(0, dtype=np.uint64), *self.chains])

    def places(self, ids: np.ndarray) -> list[np.ndarray]:
        """int64 [N] each: where the chains stand among ``ids`` (uint64, ascending), which hold them all."""
        return [np.searchsorted(ids, chain) for chain in self.chains]

    def penalty(self, weights: np.ndarray, chains: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
        """beta times the penalty of all ``chains`` (int64 [N] each, places in ``weights``), and its gradient."""
        total, gradient = 0.0, np.zeros(len(weights))
        for chain in chains:
            each = linear(weights[chain]) if self.regularizer == "linear" else monotone(weights[chain], self.gamma)
            total += self.beta * each[0]
            gradient[chain] += self.beta * each[1]
        return total, gradient


def smoothed(weights: np.ndarray, beta: float, free: np.ndarray) -> np.ndarray:
    """The proximal step of the linear penalty: the v of the smallest |v - w|^2 / 2 + ``beta`` * (sum of m_j^2).

    Exact, by a banded Cholesky factorisation. ``weights``: float64 [N], a chain; ``free``: bool [N], those that may
    move.
    """
    size = len(weights)
    # The rows of `bends` give m_2, ..., m_{N-1}: of what is to be solved, (1 + 2 beta M'M) v = w, the diagonals.
    bends = np.zeros((max(size - 2, 0), size))
    for j in range(len(bends)):
        bends[j, j : j + 3] = 0.5, -1.0, 0.5
    matrix = np.eye(size) + 2 * beta * bends.T @ bends
    held = ~free
    right = np.where(free, weights - matrix[:, held] @ weights[held], weights)
    matrix[held, :] = matrix[:, held] = 0.0
    matrix[held, held] = 1.0
    banded = np.zeros((3, size))
    for above in range(min(3, size)):
        banded[2 - above, above:] = np.diagonal(matrix, above)
    return np.asarray(solveh_banded(banded, right))


class Smoothing:
    """An `mpitune.learner.base.OnlineLearner` whose chains are `smoothed` at the end of each pass over a shard.

    When is *(ours)*. Once a pass, and not after each list, which moves few bins and by little: a solution a chain and
    list would cost more than the list's own update, and ``beta`` would have to shrink with the length of the pass. In
    the shard, and not after the exchange: the step is linear, so that a mean over shards comes out as smooth as if it
    had been smoothed itself; it serves all algorithms, also those whose shards never meet; and selection sees what it
    has to choose from.
    """

    def __init__(self, learner: OnlineLearner, chains: Sequence[np.ndarray], beta: float, frozen: np.ndarray) -> None:
        """``chains``: int64 [N] each, the slots of a feature's bins; ``frozen``: bool [slots]."""
        self._learner = learner
        self._chains = chains
        self._beta = beta
        self._frozen = frozen
        self.state_width = learner.state_width

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = ()) -> None:
        self._learner.start_shard(weights, state)

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        return self._learner.update(kbest, gold, weights, random)

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        state = self._learner.end_shard(weights)
        for chain in self._chains:
            weights[chain] = smoothed(weights[chain], self._beta, ~self._frozen[chain])
        return state
