"""Local training (L12): from the global weights to those of one sentence, by an ultraconservative update.

L12 is Liu et al. 2012, *Locally Training the Log-Linear Model for SMT*. Both methods minimise, over the weights w,

    1/2 ||w - w_b||^2 + lambda Loss(D, w)

where w_b are the global weights and D the lists of K training sentences that are like the one to be translated. MBUU
(`mpitune.learner.local.mbuu`) has the margin loss, EBUU (`mpitune.learner.local.ebuu`) the expected error. The
result is the change w - w_b, of the features in which entries of a list differ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Update(NamedTuple):
    """A sentence's own weights."""

    change: np.ndarray
    """float64 [columns of the examples]: w - w_b."""
    objective: float
    """What has been made as small as it gets."""
    steps: int
    """Passes over the lists (MBUU), steps down the gradient (EBUU)."""
    gap: float | None
    """MBUU: the duality gap; the objective is above its minimum by that at most."""

    @property
    def distance(self) -> float:
        """||w - w_b||"""
        return math.sqrt(squared_norm(self.change))


def squared_norm(vector: np.ndarray) -> float:
    """The sum of the squares, in an order that does not depend on the number of threads."""
    return float(np.square(vector).sum())
