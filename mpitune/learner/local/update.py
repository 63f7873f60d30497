"""Local training: weights for one sentence, by an ultraconservative update of the global weights.

Liu, Cao, Watanabe, Zhao, Yu and Zhu, *Locally Training the Log-Linear Model for SMT*, EMNLP 2012. Both methods
minimise, over the weights w,

    1/2 ||w - w_b||^2 + lambda Loss(D, w)

where w_b are the global weights and D the lists of K training sentences similar to the one to be translated. MBUU
(`mpitune.learner.local.mbuu`) uses the margin loss, EBUU (`mpitune.learner.local.ebuu`) the expected error. The result
is the change w - w_b of the features in which entries of a list differ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mpitune.portable_math import dot


class Update(NamedTuple):
    """The weights of one sentence, as a change of the global weights."""

    change: np.ndarray
    """float64 [columns of the examples]: w - w_b."""
    objective: float
    """Value of the minimised objective."""
    steps: int
    """Passes over the lists (MBUU), gradient steps (EBUU)."""
    gap: float | None
    """MBUU: the duality gap, an upper bound on the distance of the objective from its minimum; EBUU: None."""

    @property
    def distance(self) -> float:
        """||w - w_b||"""
        return math.sqrt(squared_norm(self.change))


def squared_norm(vector: np.ndarray) -> float:
    """The sum of squares."""
    return dot(vector, vector)
