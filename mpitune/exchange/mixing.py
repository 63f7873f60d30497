"""Parameter mixing: weight vectors of shards and of epochs to their mean.

- ``uniform``: Simianer, Riezler and Dyer (2012), algorithms 1 to 3: unweighted means, in which a feature that a vector
  does not name counts as 0.
- ``active``: each feature's mean is weighted by the shards' squared gradients of that feature, where the learner keeps
  them. Dense features, which fire everywhere, come out nearly as before; what one of Z shards has learned of a rare
  feature is no longer divided by Z. McDonald, Hall and Mann (2010, section 4) allow any convex weights of shards; a set
  of weights for each feature is *(ours)*.

Sums run in shard order and in epoch order, so that their bits depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mpitune.exchange.comm import ALONE, Comm
from mpitune.exchange.sparse_rows import SparseVectors
from mpitune.jit import kernel


class WeightColumns(NamedTuple):
    """Stacked weight vectors by column: for each feature, its weights in the shards that have it, in shard order."""

    id: np.ndarray
    """uint64 [columns]: features, ascending."""
    ptr: np.ndarray
    """int64 [columns + 1]: column c is ``value[ptr[c]:ptr[c + 1]]``."""
    value: np.ndarray
    """float64"""
    state: tuple[np.ndarray, ...] = ()
    """float64 each: the rows of `SparseVectors.state`, in the order of ``value``."""


def columns(vectors: SparseVectors) -> WeightColumns:
    """The columns of the matrix whose rows are ``vectors`` (which stand in shard order)."""
    order = np.argsort(vectors.index, kind="stable")
    index = vectors.index[order]
    first = np.ones(len(index), dtype=np.bool_)
    np.not_equal(index[1:], index[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    ptr = np.append(starts, len(index)).astype(np.int64)
    return WeightColumns(index[starts], ptr, vectors.value[order], tuple(kept[order] for kept in vectors.state))


def sums(stacked: WeightColumns) -> np.ndarray:
    """float64 [columns]: the sum of each column, added up in shard order."""
    return _sums_of(stacked.ptr, stacked.value)


def _sums_of(ptr: np.ndarray, value: np.ndarray) -> np.ndarray:
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
    """float64 [columns]: the mean weights over all ``shards``, and the means of what they have added to each state."""
    return sums(stacked) / shards, tuple(_sums_of(stacked.ptr, kept) / shards for kept in stacked.state)


def active_mean(stacked: WeightColumns, shards: int) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """As `uniform_mean`, each shard's weight and squared gradients weighted by the shard's squared gradients.

    A feature that no shard has moved has the same weight in all, which it keeps. What else belongs to the state adds
    up. Without a state the means are uniform.
    """
    if not stacked.state:
        return uniform_mean(stacked, shards)
    squares, *others = stacked.state
    value, mixed = np.zeros(len(stacked.id)), np.zeros(len(stacked.id))
    _active_means(stacked.ptr, stacked.value, squares, value, mixed)
    return value, (mixed, *(_sums_of(stacked.ptr, kept) for kept in others))


@kernel
def _active_means(
    ptr: np.ndarray, value: np.ndarray, squares: np.ndarray, means: np.ndarray, mixed: np.ndarray
) -> None:
    """Fill ``means`` and ``mixed`` (float64 [columns], all 0) with means of ``value`` and ``squares`` by column.

    They are weighted by ``squares``; where these are 0, the mean is the first value.
    """
    for c in range(len(means)):
        total = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            total += squares[i]
        if total == 0.0:
            means[c] = value[ptr[c]]
            continue
        for i in range(ptr[c], ptr[c + 1]):
            share = squares[i] / total
            means[c] += share * value[i]
            mixed[c] += share * squares[i]


MIXINGS: dict[str, Callable[[WeightColumns, int], tuple[np.ndarray, tuple[np.ndarray, ...]]]] = {
    "active": active_mean,
    "uniform": uniform_mean,
}
"""The values of the key ``parallel.mixing``: weights, and what is added to the state, from columns and the shards."""


class Mixed(NamedTuple):
    """The shards' vectors mixed to one, or a rank's part of it: a range of feature ids."""

    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which nobody asks of these
    """uint64 [n]: the features that it names, ascending."""
    value: np.ndarray
    """float64 [n]: their means over all shards."""
    active: int
    """How many features any shard names, over all ranks."""
    threshold: float | None
    """lambda, where columns were selected: every feature kept has at least this norm, on all ranks. Where K was given:
    the K-th largest norm, None where fewer than K columns have a norm other than 0."""
    norm: np.ndarray = np.zeros(0)
    """float64 [n]: the column norms of the features that it names; empty where columns were not selected, and beside
    rank 0 where that mixes all."""
    profile: tuple[tuple[float, int], ...] = ()
    """Where columns were selected: norms, ascending, and how many columns of all ranks have at least that one."""
    state: tuple[np.ndarray, ...] = ()
    """float64 [n] each: what is added to the state that the learner keeps of the features."""


def mean(vectors: SparseVectors, comm: Comm = ALONE, *, mixing: str = "uniform") -> Mixed:
    """The mean of the shards' vectors (algorithm 3, IterMixSGD: v = 1/Z sum_z w_z), as `MIXINGS` has it.

    It names the features that any of them names. ``vectors``: the rows of all shards, in shard order; over ``comm``,
    their columns of this rank's part (`Comm.alltoall`), and all ranks call this.
    """
    stacked = columns(vectors)
    value, state = MIXINGS[mixing](stacked, len(vectors.shard))
    return Mixed(stacked.id, value, comm.sum(len(stacked.id)), None, state=state)


class RunningMean:
    """The mean over epochs of a weight vector: what algorithms 1 and 2 return, 1/T sum_t w_t.

    ``rising``: epoch t counts t times, so that what was learned from first, bad lists is soon outweighed (polynomial
    decay averaging, Shamir and Zhang 2013, with eta = 1). `epochs`, `index` (uint64 ascending) and `total` (float64,
    the sum over the epochs) are all of its state: from them it goes on as if never interrupted.
    """

    def __init__(
        self,
        epochs: int = 0,
        index: np.ndarray | None = None,
        total: np.ndarray | None = None,
        *,
        rising: bool = False,
    ) -> None:
        self._rising = rising
        self.epochs = epochs
        self.index = np.zeros(0, dtype=np.uint64) if index is None else index
        self.total = np.zeros(0, dtype=np.float64) if total is None else total

    def add(self, index: np.ndarray, value: np.ndarray) -> None:
        """Take in the weights of one more epoch: ``index`` uint64 [n], none twice; ``value`` float64 [n]."""
        rows = np.array([0, 1], dtype=np.int64)
        ptr = np.cumsum([0, len(self.index), len(index)], dtype=np.int64)
        self.epochs += 1
        counted = value * self.epochs if self._rising else value
        both = np.concatenate([self.index, index]), np.concatenate([self.total, counted])
        stacked = columns(SparseVectors(rows, ptr, *both))
        self.index, self.total = stacked.id, sums(stacked)

    @property
    def value(self) -> np.ndarray:
        """float64: the means of the features `index`."""
        return self.total / (self.epochs * (self.epochs + 1) / 2 if self._rising else self.epochs)
