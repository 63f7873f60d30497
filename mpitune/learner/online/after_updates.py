"""Steps that follow the updates of any online learner: l1, the mean over sentences, smooth weights of bins.

Averaging (Collins 2002, *Discriminative Training Methods for Hidden Markov Models*, section 2.3): the final weights
alone depend most on the last few sentences, so a pass ends with the mean of the weights after each of them. With w_t
the weights after sentence t of T, the mean is w_T - 1/T sum_t (t - 1) (w_t - w_{t-1}): each change is added once, when
it happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.learner.base import Counts, OnlineLearner
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.weights import Weights


class AfterUpdates:
    """A step that changes the weights after each update of any learner, and at the end of a pass; this one does not."""

    def start_shard(self, weights: Weights) -> None:
        """Start a pass over a shard."""

    def update(self, kbest: KBest, weights: Weights) -> None:
        """Follow an update by ``kbest``."""

    def end_shard(self, weights: Weights) -> None:
        """Finish the pass."""


@dataclass(frozen=True)
class Composed:
    """An online learner, and what is done after its updates, in this order."""

    learner: OnlineLearner
    after: Sequence[AfterUpdates] = ()

    @property
    def state(self) -> tuple[str, ...]:
        """That of the learner: what comes after it has none."""
        return self.learner.state

    def start_shard(self, weights: Weights, passes: int = 0) -> None:
        """See `OnlineLearner`."""
        self.learner.start_shard(weights, passes)
        for each in self.after:
            each.start_shard(weights)

    def update(self, kbest: KBest, gold: np.ndarray, weights: Weights, random: np.random.Generator) -> Counts:
        """See `OnlineLearner`."""
        counts = self.learner.update(kbest, gold, weights, random)
        for each in self.after:
            each.update(kbest, weights)
        return counts

    def end_shard(self, weights: Weights) -> None:
        """See `OnlineLearner`."""
        self.learner.end_shard(weights)
        for each in self.after:
            each.end_shard(weights)


class Clipping(AfterUpdates):
    """Cumulative clipping by an l1 penalty (Tsuruoka et al. 2009): after each list its features, in the end all."""

    def __init__(self, penalty: float, *, dense_only: bool = False) -> None:
        """``penalty``: that of a list; ``dense_only``: sparse features have none."""
        self._penalty, self._dense_only = penalty, dense_only

    def start_shard(self, weights: Weights) -> None:
        """Forget the penalties of earlier lists."""
        self._due = 0.0

    def update(self, kbest: KBest, weights: Weights) -> None:
        """Apply the outstanding penalty to the weights of the list's features."""
        self._due += self._penalty
        used, place = kbest.feature_index[kbest.feature_value != 0.0], weights.array("place", -1, np.int32)
        # Each feature once, without sorting.
        place[used] = number = np.arange(len(used), dtype=np.int32)
        last = used[place[used] == number]
        place[used] = -1
        self._clip(last, weights)

    def end_shard(self, weights: Weights) -> None:
        """Apply the outstanding penalty to all weights."""
        self._clip(np.arange(len(weights.value)), weights)

    def _clip(self, slots: np.ndarray, weights: Weights) -> None:
        free = ~weights.frozen[slots]
        if self._dense_only:
            free &= slots < weights.first_sparse
        _clip(slots[free].astype(np.int32), self._due, weights.array("paid"), weights.value)


@kernel
def _clip(slots: np.ndarray, due: float, paid: np.ndarray, weights: np.ndarray) -> None:
    """Apply the outstanding l1 penalty to the weights, not past 0 (Tsuruoka et al. 2009, figure 2).

    ``slots``: int32 [n], the weights to clip; ``due``: the penalty that the shard has accumulated so far (u); ``paid``:
    float64 [D], the signed penalty that each weight has received so far (q); ``weights``: float64 [D].
    """
    for i in range(len(slots)):
        slot = slots[i]
        before = weights[slot]
        if before > 0.0:
            weights[slot] = max(0.0, before - (due + paid[slot]))
        elif before < 0.0:
            weights[slot] = min(0.0, before + (due - paid[slot]))
        paid[slot] += weights[slot] - before


class Smoothing(AfterUpdates):
    """Structured regularisation: smooths its chains at the end of each shard's pass.

    The point in time is *(ours)*. Once a pass, not after each list: a list changes few bins by little, solving for
    every chain would cost more than the list's own update, and ``beta`` would have to depend on the length of the pass.
    In the shard, not after the exchange: it works with all algorithms, also those that do not mix shards; selection
    ranks smoothed weights; and the step of ``linear`` is linear, so that the mean over shards, in which all bins of a
    chain have the same part of a shard, is as smooth as if it had been smoothed itself.
    """

    def __init__(self, smoothness: Smoothness) -> None:
        self._smoothness = smoothness

    def end_shard(self, weights: Weights) -> None:
        """Smooth the weights of all chains."""
        for ids in self._smoothness.chains:
            chain = weights.features.find(ids)
            weights.value[chain] = self._smoothness.proximal(weights.value[chain], ~weights.frozen[chain])


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
