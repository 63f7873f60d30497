"""Averaging: the result of a pass over a shard is the mean of the weights after each of its sentences.

Collins 2002, *Discriminative Training Methods for Hidden Markov Models*, section 2.3: the final weights alone depend
most on the last few sentences. With w_t the weights after sentence t of T, the mean is w_T - 1/T sum_t (t - 1) (w_t -
w_{t-1}), so that each change is added once, when it happens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.learner.base import Counts, Exchanged, OnlineLearner


class Averaging:
    """An `mpitune.learner.base.OnlineLearner` that averages the weights of another learner."""

    def __init__(self, learner: OnlineLearner, *, changes_all: bool = False, end: int | None = None) -> None:
        """``changes_all``: updates of ``learner`` may change weights of features that do not occur in the list.

        ``end``: end of the slots that are averaged; None: all are. Sparse weights that follow from the mean of all
        gradients (`evidence`) are no less accurate after the last sentence.
        """
        self._learner = learner
        self._changes_all = changes_all
        self._end = end
        self.state_width = learner.state_width

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = (), passes: int = 0) -> None:
        self._learner.start_shard(weights, state, passes)
        self._sentences = 0
        self._before = weights.copy()
        self._late = np.zeros(len(weights))

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        self._before = grow_to(self._before, len(weights), 0.0)
        self._late = grow_to(self._late, len(weights), 0.0)
        counts = self._learner.update(kbest, gold, weights, random)
        slots = self._averaged(weights) if self._changes_all else kbest.feature_index
        if self._end is not None:
            slots = slots[slots < self._end]
        _add_changes(slots, float(self._sentences), weights, self._before, self._late)
        self._sentences += 1
        return counts

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        state = self._learner.end_shard(weights)
        if self._sentences:
            # Changes made by the other learner's `end_shard` belong to the last sentence.
            _add_changes(self._averaged(weights), float(self._sentences - 1), weights, self._before, self._late)
            weights -= self._late / self._sentences
        return state

    def settle(self, exchanged: Exchanged) -> np.ndarray:
        return self._learner.settle(exchanged)

    def _averaged(self, weights: np.ndarray) -> np.ndarray:
        return np.arange(len(weights[: self._end]), dtype=np.int32)


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
