"""Structured regularisation of an online learner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.learner.base import Counts, Exchanged, OnlineLearner
from mpitune.learner.bin_chains import Smoothness


class Smoothing:
    """An `mpitune.learner.base.OnlineLearner` that smooths its chains at the end of each shard's pass.

    The point in time is *(ours)*. Once a pass, not after each list: a list changes few bins by little, solving for
    every chain would cost more than the list's own update, and ``beta`` would have to depend on the length of the pass.
    In the shard, not after the exchange: it works with all algorithms, also those that do not mix shards; selection
    ranks smoothed weights; and the step of ``linear`` is linear, so that the mean over shards, in which all bins of a
    chain have the same part of a shard, is as smooth as if it had been smoothed itself.
    """

    def __init__(
        self, learner: OnlineLearner, chains: Sequence[np.ndarray], smoothness: Smoothness, frozen: np.ndarray
    ) -> None:
        """``chains``: int64 [N] each, the slots of a feature's bins; ``frozen``: bool [slots]."""
        self._learner = learner
        self._chains = chains
        self._smoothness = smoothness
        self._frozen = frozen
        self.state_width = learner.state_width

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = (), passes: int = 0) -> None:
        self._learner.start_shard(weights, state, passes)

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        return self._learner.update(kbest, gold, weights, random)

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        state = self._learner.end_shard(weights)
        for chain in self._chains:
            weights[chain] = self._smoothness.proximal(weights[chain], ~self._frozen[chain])
        return state

    def settle(self, exchanged: Exchanged) -> np.ndarray:
        return self._learner.settle(exchanged)
