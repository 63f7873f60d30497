"""Parameter mixing: means of weight vectors over shards and over epochs.

- ``uniform``: Simianer, Riezler and Dyer (ACL 2012), algorithms 1 to 3: unweighted means; absent features count as 0.
- ``active``: the mean of each feature is weighted by the shards' squared gradients of that feature, if the learner has
  them. Dense features, which fire in all shards, change little; the weight of a rare feature that one of Z shards has
  learned is no longer divided by Z. McDonald, Hall and Mann (NAACL 2010, section 4) allow any convex combination of
  shards; one combination per feature is a choice of this implementation. Features whose weights are to be a smooth
  curve have the same combination, the unweighted one.

Sums run in shard order and in epoch order, so that their bits do not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mpitune.exchange.comm import SERIAL_COMM, Comm
from mpitune.exchange.sparse_rows import SparseVectors
from mpitune.jit import kernel
from mpitune.learner.weights import SparseWeights


class WeightColumns(NamedTuple):
    """Stacked weight vectors by column: the weights of each feature in the shards that have it, in shard order."""

    id: np.ndarray
    """uint64 [columns]: feature ids, ascending."""
    ptr: np.ndarray
    """int64 [columns + 1]: column c is ``value[ptr[c]:ptr[c + 1]]``."""
    value: np.ndarray
    """float64 [entries]: weights."""
    state: tuple[np.ndarray, ...] = ()
    """float64 [entries] each: `SparseVectors.state`, in the order of ``value``."""


def columns(vectors: SparseVectors) -> WeightColumns:
    """The columns of the matrix whose rows are ``vectors`` (in shard order)."""
    order = np.argsort(vectors.index, kind="stable")
    index = vectors.index[order]
    first = np.ones(len(index), dtype=np.bool_)
    np.not_equal(index[1:], index[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    ptr = np.append(starts, len(index)).astype(np.int64)
    return WeightColumns(index[starts], ptr, vectors.value[order], tuple(kept[order] for kept in vectors.state))


def active(stacked: WeightColumns) -> np.ndarray:
    """bool [columns]: True for those with a weight other than 0."""
    return sums_of(stacked.ptr, np.abs(stacked.value)) > 0.0


def sums_of(ptr: np.ndarray, value: np.ndarray) -> np.ndarray:
    """float64 [columns]: the sum of ``value`` (float64 [entries]) in each column, in shard order."""
    out = np.empty(len(ptr) - 1)
    _sums(ptr, value, out)
    return out


@kernel
def _sums(ptr: np.ndarray, value: np.ndarray, out: np.ndarray) -> None:
    for c in range(len(out)):
        total = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            total += value[i]
        out[c] = total


def uniform_mean(stacked: WeightColumns, shards: int) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """float64 [columns]: the mean weights over all ``shards``, and the mean increments of each state."""
    value, *state = (sums_of(stacked.ptr, array) / shards for array in (stacked.value, *stacked.state))
    return value, tuple(state)


def active_mean(
    stacked: WeightColumns, shards: int, evenly: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """As `uniform_mean`, but shards are weighted, for each feature, by their squared gradients.

    A feature that no shard has updated has the mean of all, and keeps its bits where all have the same weight; so do
    the features ``evenly`` (uint64, ids). State arrays are summed, but squared gradients have the weighted mean: with
    their sum, steps would become smaller the more shards there are. Without state, the means are uniform.
    """
    if not stacked.state:
        return uniform_mean(stacked, shards)
    squares, *others = stacked.state
    value, mixed = sums_of(stacked.ptr, stacked.value) / shards, np.zeros(len(stacked.id))
    even = np.isin(stacked.id, evenly) if evenly is not None else np.zeros(len(stacked.id), dtype=np.bool_)
    _active_means(stacked.ptr, stacked.value, squares, shards, even, value, mixed)
    return value, (mixed, *(sums_of(stacked.ptr, kept) for kept in others))


@kernel
def _active_means(
    ptr: np.ndarray,
    value: np.ndarray,
    squares: np.ndarray,
    shards: int,
    even: np.ndarray,
    means: np.ndarray,
    mixed: np.ndarray,
) -> None:
    """Replace the ``means`` of ``value`` over all ``shards`` by means weighted by ``squares``, but where ``even``.

    ``mixed``, all 0: receives those of ``squares``. Float64 [columns], ``even`` bool.
    """
    for c in range(len(means)):
        first, last, total = ptr[c], ptr[c + 1], 0.0
        same = last - first == shards
        for i in range(first, last):
            total += squares[i]
            same = same and value[i] == value[first]
        if same:
            means[c] = value[first]
        elif total > 0.0 and not even[c]:
            means[c] = 0.0
            for i in range(first, last):
                means[c] += squares[i] / total * value[i]
        if total > 0.0:
            for i in range(first, last):
                mixed[c] += squares[i] / total * squares[i]


Mixing = Callable[[WeightColumns, int], tuple[np.ndarray, tuple[np.ndarray, ...]]]
"""From columns and the number of shards to weights and increments of the state."""


def summed_evidence(
    stacked: WeightColumns, shards: int, mixing: Mixing, dense: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """As ``mixing``, but all state arrays of features other than ``dense`` (uint64, ids) are summed."""
    value, mixed = mixing(stacked, shards)
    is_dense = np.isin(stacked.id, dense)
    summed = (sums_of(stacked.ptr, kept) for kept in stacked.state)
    return value, tuple(np.where(is_dense, mean, total) for mean, total in zip(mixed, summed, strict=True))


class Mixed(NamedTuple):
    """The mixed weight vector, or a rank's partition of it: a range of feature ids."""

    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which is not used here
    """uint64 [n]: feature ids, ascending."""
    value: np.ndarray
    """float64 [n]: mean weights over all shards."""
    active: int
    """Number of features with a weight other than 0 in any shard's vector, over all ranks."""
    threshold: float | None
    """lambda: every selected feature has at least this column norm; None without selection. If K was given: the K-th
    largest norm of all ranks, or None if fewer than K columns have a norm other than 0."""
    norm: np.ndarray = np.zeros(0)
    """float64 [n]: with selection: the column norms of the selected features, 0 of others; empty without, and with
    allgather on ranks other than 0."""
    profile: tuple[tuple[float, int], ...] = ()
    """With selection: norms, ascending, each with the number of columns (all ranks) of at least that norm."""
    state: tuple[np.ndarray, ...] = ()
    """float64 [n] each: increments of the learner's per-feature state."""

    @property
    def weights(self) -> SparseWeights:
        """The vector, with the increments of the state."""
        return SparseWeights(self.index, self.value, self.state)


def mean(vectors: SparseVectors, comm: Comm = SERIAL_COMM, *, mixing: Mixing = uniform_mean) -> Mixed:
    """The ``mixing`` of the shards' vectors (algorithm 3, IterMixSGD: the mean, v = 1/Z sum_z w_z).

    ``vectors``: the rows of all shards, in shard order; with ``comm``, this rank's partition of their columns
    (`Comm.alltoall`), and all ranks call this function.
    """
    stacked = columns(vectors)
    value, state = mixing(stacked, len(vectors.shard))
    return Mixed(stacked.id, value, comm.sum(int(np.count_nonzero(active(stacked)))), None, state=state)


class RunningMean:
    """The mean of a weight vector over epochs, the result of algorithms 1 and 2: 1/T sum_t w_t.

    ``rising``: epoch t has weight t, so that the first epochs, with poor k-best lists, lose influence (polynomial-decay
    averaging, Shamir and Zhang, ICML 2013, with eta = 1). `epochs` and `total` (the weighted sum over the epochs) are
    its whole state: a mean restored from them continues exactly.
    """

    def __init__(self, epochs: int = 0, total: SparseWeights | None = None, *, rising: bool = False) -> None:
        self._rising = rising
        self.epochs, self.total = epochs, total or SparseWeights()

    def add(self, weights: SparseWeights) -> None:
        """Add the weights of one epoch."""
        self.epochs += 1
        ids, times = np.union1d(self.total.ids, weights.ids), self.epochs if self._rising else 1
        self.total = SparseWeights(ids, self.total.at(ids).value + times * weights.at(ids).value)

    @property
    def mean(self) -> SparseWeights:
        """The mean weights."""
        epochs = self.epochs * (self.epochs + 1) / 2 if self._rising else self.epochs
        return SparseWeights(self.total.ids, self.total.value / epochs)
