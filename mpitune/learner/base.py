"""Interfaces between the learners and the training loop.

An online learner (`OnlineLearner`) updates the weights after each k-best list. The state of its learning rate continues
from shard to shard and from epoch to epoch; its other state is reset at the start of each shard. A batch learner
(`BatchLearner`) updates the weights once an epoch, from the accumulated lists of all sentences and all epochs so far.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.learner.forests import Forests
from mpitune.learner.pool import NBestPool
from mpitune.learner.weights import SparseWeights, Weights


class Counts(NamedTuple):
    """Statistics of one online update."""

    pairs: int
    """Pairs compared."""
    updates: int
    """Pairs that changed the weights."""
    oracle: int = -1
    """Entry used as the oracle translation; -1 for methods without one."""
    prediction: int = -1
    """Entry used as the prediction, which the update moves away from; -1 for methods without one."""


class OnlineLearner(Protocol):
    """Updates the weights after each k-best list.

    The weights may grow between calls: features discovered while decoding start with weight 0. Their arrays are also
    where a learner keeps what it knows of each feature.
    """

    state: tuple[str, ...] = ()
    """Names of the arrays that continue from shard to shard; the first one is the sum of squared gradients."""
    changes_all: bool = False
    """True if an update may change weights of features that are not in the list."""

    def start_shard(self, weights: Weights, passes: int = 0) -> None:
        """Start a pass over a shard with these weights, newly loaded with their state; forget all earlier lists.

        ``passes``: how often the same sentences were learned from before.
        """
        return

    @abstractmethod
    def update(self, kbest: KBest, gold: np.ndarray, weights: Weights, random: np.random.Generator) -> Counts:
        """Learn from ``kbest`` with gold scores ``gold`` (float64 [k]); ``random`` is the only source of randomness."""

    def end_shard(self, weights: Weights) -> None:
        """Finish the pass: apply postponed updates, if there are any."""
        return


class FeatureRows(NamedTuple):
    """Feature vectors (CSR), a row for each entry of a list, or of many lists."""

    ptr: np.ndarray
    """int64 [entries + 1]"""
    slot: np.ndarray
    """int32: features."""
    value: np.ndarray
    """float64: values of these features."""


class GivenLists(NamedTuple):
    """Lists that do not change with the weights, n of them, to learn from in this order."""

    first: np.ndarray
    """int64 [n]: the first entry of each list, a row of ``features``."""
    size: np.ndarray
    """int64 [n]: its entries; 0: there are none, which gives one translation of no words."""
    row: np.ndarray
    """int64 [n]: the first entry, or that translation, in the arrays of scores."""
    features: FeatureRows
    gold: np.ndarray
    """float64: gold scores."""
    sentence_score: np.ndarray
    """float64: scores without context."""
    most_values: int
    """Largest number of features of an entry."""


class Chosen(NamedTuple):
    """The choices of a learner in n lists, and its changes of the weights; entries are counted from 0 in each list."""

    best: np.ndarray
    """int64 [n]: the 1-best."""
    oracle: np.ndarray
    """int64 [n]"""
    prediction: np.ndarray
    """int64 [n]"""
    largest: np.ndarray
    """int64 [n]: the entry of the largest ``sentence_score``; of equals the first under the weights."""
    updates: np.ndarray
    """int64 [n]: constraints that changed the weights."""
    change_ptr: np.ndarray
    """int64 [n + 1]: list i changes weights by ``change[change_ptr[i]:change_ptr[i + 1]]``, and by zeros."""
    change: np.ndarray
    """float64"""


@runtime_checkable
class ListLearner(Protocol):
    """An online learner that can go over given lists without `OnlineLearner.update`, with the same result."""

    @property
    def longest(self) -> int:
        """The number of entries of the longest list that it can learn from so."""
        ...

    def learn_lists(self, lists: GivenLists, weights: Weights) -> Chosen:
        """Learn from ``lists`` one after the other.

        Ends before the first list with a model score that is not finite: the result has the lists before it.
        """
        ...


class EvidenceLearner(OnlineLearner):
    """An online learner whose weights of sparse features follow from their state."""

    @abstractmethod
    def merge(self, start: SparseWeights, mixed: SparseWeights, passes: int) -> np.ndarray:
        """float64 [n]: the weights that follow from the state of all shards, of features that are sparse.

        ``start``: weights and state that the shards began with; ``mixed``: those of all shards together, of the same
        features; ``passes``: over the sentences so far.
        """


Reply = tuple[np.ndarray, ...]
"""One shard's share of the objective at a point: value, gradient or whatever the learner sums over shards."""

EvaluateShards = Callable[[np.ndarray], Iterator[Reply]]
"""Evaluates all shards at a point; yields the replies in shard order. The caller must exhaust the iterator."""


class ShardObjective(Protocol):
    """One shard's part of a batch learner's objective in one epoch."""

    pairs: int
    """Pairs compared."""

    def evaluate(self, point: np.ndarray) -> Reply:
        """The shard's share of the objective at ``point``, an array that `BatchLearner.optimise` chooses."""
        ...


class OptimizerResult(NamedTuple):
    """Result of `BatchLearner.optimise`."""

    weights: np.ndarray
    """float64 [features]"""
    objective: float
    """Value of the objective at the optimum that was found; of PRO, before it is interpolated with older weights."""
    steps: int
    """Optimisation steps taken."""


@runtime_checkable
class BatchLearner(Protocol):
    """Updates the weights once an epoch from all lists so far. Lists stay on their rank: each shard evaluates its own.

    Vectors are float64 [features] over all features that occur in any list or have a weight, ascending by id.
    """

    def shard_objective(
        self, pool: NBestPool, place: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> ShardObjective:
        """Prepare one shard.

        ``place``: int64 [pool's features], their positions among all features; ``random(s)``: the generator for
        sentence s of the pool.
        """
        ...

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, evaluate_shards: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """New weights, from the epoch's ``weights``; ``free``: bool [features], those that are not frozen.

        Runs on one process; ``evaluate_shards`` reaches all shards.
        """
        ...


@runtime_checkable
class ChainLearner(BatchLearner, Protocol):
    """A batch learner that can regularise chains of features towards smooth curves."""

    @property
    def chained(self) -> np.ndarray:
        """uint64: ids of the features of all chains; they are optimised even if no list contains them."""
        ...

    def set_feature_order(self, ids: np.ndarray) -> None:
        """Set the features (uint64, ascending ids) of the vectors of the next `optimise`."""
        ...


@runtime_checkable
class ForestLearner(BatchLearner, Protocol):
    """A batch learner that uses all derivations of the epoch's forests, besides the lists so far."""

    def forest_objective(
        self, pool: NBestPool, place: np.ndarray, forests: Forests, forest_place: np.ndarray
    ) -> ShardObjective:
        """Prepare one shard, instead of `shard_objective`.

        ``forest_place``: int64 [forests' features], their positions among all features.
        """
        ...
