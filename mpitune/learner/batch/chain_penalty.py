"""Structured regularisation in the objective of a batch learner."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mpitune.learner.bin_chains import Smoothness


class ChainPenalty:
    """The penalty of a batch learner's objective, over features whose order the epoch sets.

    The base of learners that are an `mpitune.learner.base.ChainLearner`.
    """

    def __init__(self, smoothness: Smoothness | None) -> None:
        """``smoothness``: None without a penalty."""
        self._smoothness = smoothness
        self._chains: list[np.ndarray] = []

    @property
    def chained(self) -> np.ndarray:
        return self._smoothness.features if self._smoothness else np.zeros(0, dtype=np.uint64)

    def set_feature_order(self, ids: np.ndarray) -> None:
        self._chains = self._smoothness.places(ids) if self._smoothness else []

    @property
    def penalty(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]] | None:
        """From the weights (float64 [features]) to the penalty and its gradient; None without one."""
        return partial(self._smoothness.penalty, chains=self._chains) if self._smoothness else None
