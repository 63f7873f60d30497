"""What a learner is to the training loop.

An online learner, defined here, changes the weights after each k-best list; what it remembers from list to list is its
shard's, and starts afresh with each pass over the shard. A batch learner is the loop's other kind: it collects the
lists of an epoch and changes the weights once, when all are there. Its protocol belongs here beside `OnlineLearner`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from mpitune.decoder.base import KBest


class Counts(NamedTuple):
    """What a learner did with one list."""

    pairs: int
    """Pairs that were compared."""
    updates: int
    """Those of them that changed the weights."""
    oracle: int = -1
    """Which entry the method took for the best translation, where it takes one."""
    prediction: int = -1
    """Which entry it moved away from, likewise."""


class OnlineLearner(Protocol):
    """Learns from one k-best list after another.

    ``weights`` is float64 [D], by slot of the decoder's feature table, and changed in place. From one call to the next
    it may get longer: features that nobody knew before begin with weight 0.
    """

    def start_shard(self, weights: np.ndarray) -> None:
        """A pass over a shard begins with these weights: forget all earlier lists."""
        ...

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        """Learn from ``kbest`` with gold scores ``gold`` (float64 [k]); whatever is random is drawn from ``random``."""
        ...

    def end_shard(self, weights: np.ndarray) -> None:
        """The pass is over: do what was put off."""
        ...
