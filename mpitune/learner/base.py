"""What a learner is to the training loop.

An online learner, defined here, changes the weights after each k-best list. What it keeps of each feature beside its
weight (the state of a learning rate) goes on from epoch to epoch; all else starts afresh with each pass over a shard. A
batch learner changes the weights once an epoch, when the
lists of all sentences are there, and learns from those of earlier epochs too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.learner.forests import Forests
from mpitune.learner.pool import NBestPool


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

    state_width: int
    """Arrays of what is kept of each feature from shard to shard; the first is that of summed squared gradients."""

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = ()) -> None:
        """A pass over a shard begins with these weights: forget all earlier lists.

        ``state``: what `end_shard` has returned before, float64 [D] each; empty where nothing was seen yet.
        """
        ...

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        """Learn from ``kbest`` with gold scores ``gold`` (float64 [k]); whatever is random is drawn from ``random``."""
        ...

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        """The pass is over: do what was put off, and return the state, `state_width` arrays of float64 [D]."""
        ...


Reply = tuple[np.ndarray, ...]
"""What one shard has to say to a question."""

EvaluateShards = Callable[[np.ndarray], Iterator[Reply]]
"""Puts a question to all shards; their replies come in shard order and must be read to the end."""


class ShardObjective(Protocol):
    """What a batch learner makes of one shard's lists for the time of an epoch."""

    pairs: int
    """Pairs that are compared."""

    def answer(self, question: np.ndarray) -> Reply:
        """The shard's share of what `BatchLearner.optimise` asks for."""
        ...


class OptimizerResult(NamedTuple):
    """What a batch learner arrives at."""

    weights: np.ndarray
    """float64 [features]"""
    objective: float
    """What it has made as small, or large, as it could."""
    steps: int
    """How many it took."""


@runtime_checkable
class BatchLearner(Protocol):
    """Learns once an epoch, from all lists so far, which stay where they are: each shard answers for its own.

    Vectors are float64 [features] over all features that occur in any list or have a weight, ascending in their ids.
    """

    def part(
        self, pool: NBestPool, place: np.ndarray, free: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> ShardObjective:
        """Prepare one shard.

        ``place``: int64 [pool's features], where they stand among all; ``free``: bool [features], those that may move;
        ``random(s)``: what is random about sentence s of the pool is drawn from it.
        """
        ...

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, ask: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """New weights from the epoch's ``weights``, on one process; ``ask`` reaches all shards."""
        ...


@runtime_checkable
class ChainLearner(BatchLearner, Protocol):
    """A batch learner whose features may lie in chains, along which their weights are to be smooth."""

    @property
    def chained(self) -> np.ndarray:
        """uint64: the features of all chains; they are optimised over even where no list has them."""
        ...

    def set_feature_order(self, ids: np.ndarray) -> None:
        """What is optimised over next has these features (uint64, ascending)."""
        ...


@runtime_checkable
class ForestLearner(BatchLearner, Protocol):
    """A batch learner that looks at all derivations of the epoch's forests, besides the lists so far."""

    def forest_part(
        self, pool: NBestPool, place: np.ndarray, forests: Forests, forest_place: np.ndarray
    ) -> ShardObjective:
        """Prepare one shard, instead of `part`: ``forest_place`` is to ``forests`` what ``place`` is to ``pool``."""
        ...
