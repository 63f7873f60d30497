"""Regularisation that does not depend on the learner: l1 after each list, smooth weights of bins after each pass."""

from __future__ import annotations

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.learner.base import AfterUpdates
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.weights import Weights


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
        used = kbest.feature_index[kbest.feature_value != 0.0]
        self._clip(np.unique(used), weights)

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

    The point in time is *(ours)*. Once a pass, not after each list: a list
    changes few bins by little, solving for every chain would cost more than the list's own update, and ``beta`` would
    have to depend on the length of the pass. In the shard, not after the exchange: it works with all algorithms, also
    those that do not mix shards; selection ranks smoothed weights; and the step of ``linear`` is linear, so that the
    mean over shards, in which all bins of a chain have the same part of a shard, is as smooth as if it had itself been
    smoothed.
    """

    def __init__(self, smoothness: Smoothness) -> None:
        self._smoothness = smoothness

    def end_shard(self, weights: Weights) -> None:
        """Smooth the weights of all chains."""
        for ids in self._smoothness.chains:
            chain = weights.features.find(ids)
            weights.value[chain] = self._smoothness.proximal(weights.value[chain], ~weights.frozen[chain])
