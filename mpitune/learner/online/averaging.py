"""Averaging: the result of a pass over a shard is the mean of the weights after each of its sentences.

Collins 2002, *Discriminative Training Methods for Hidden Markov Models*, section 2.3: the final weights alone depend
most on the last few sentences. With w_t the weights after sentence t of T, the mean is w_T - 1/T sum_t (t - 1) (w_t -
w_{t-1}), so that each change is added once, when it happens.
"""

from __future__ import annotations

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.learner.base import AfterUpdates
from mpitune.learner.weights import Weights


class Averaging(AfterUpdates):
    """Averages the weights."""

    def __init__(self, *, changes_all: bool = False, dense_only: bool = False) -> None:
        """``changes_all``: see `mpitune.learner.base.OnlineLearner`.

        ``dense_only``: sparse weights are not averaged. Those that follow from the mean of all gradients (`evidence`)
        are no less accurate after the last sentence.
        """
        self._changes_all, self._dense_only = changes_all, dense_only

    def start_shard(self, weights: Weights) -> None:
        """Start a mean over no sentences."""
        self._sentences = 0
        weights.array("before")[:] = weights.value

    def update(self, kbest: KBest, weights: Weights) -> None:
        """Add the weights after a sentence."""
        self._add(kbest.feature_index, self._sentences, weights)
        self._sentences += 1

    def end_shard(self, weights: Weights) -> None:
        """Replace the weights by their mean; what the end of the pass has changed belongs to the last sentence."""
        if self._sentences:
            self._add(_all(weights), self._sentences - 1, weights)
            weights.value[:] -= weights.array("late") / self._sentences

    def _add(self, slots: np.ndarray, earlier: int, weights: Weights) -> None:
        slots = _all(weights) if self._changes_all else slots
        if self._dense_only:
            slots = slots[slots < weights.first_sparse]
        _add_changes(slots, float(earlier), weights.value, weights.array("before"), weights.array("late"))


def _all(weights: Weights) -> np.ndarray:
    return np.arange(len(weights.value), dtype=np.int32)


@kernel
def _add_changes(slots: np.ndarray, earlier: float, weights: np.ndarray, before: np.ndarray, late: np.ndarray) -> None:
    """Add the changes of the weights of ``slots`` (int32 [n], may repeat) since the previous sentence.

    ``earlier``: sentences of the pass before this one, t - 1; ``weights``: float64 [D], w_t; ``before``: float64 [D],
    w_{t-1}, set to w_t; ``late``: float64 [D], incremented: the sum of (t - 1) (w_t - w_{t-1}).
    """
    for i in range(len(slots)):
        slot = slots[i]
        change = weights[slot] - before[slot]
        if change != 0.0:
            late[slot] += earlier * change
            before[slot] = weights[slot]
