"""Parameter mixing: weight vectors of shards and of epochs to their mean.

Simianer, Riezler, Dyer (2012), algorithms 1 to 3: unweighted means, in which a feature that a vector does not name
counts as 0. Sums run in shard order and in epoch order, so that their bits depend on nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.exchange.comm import ALONE, Comm
from mpitune.exchange.vectors import SparseVectors
from mpitune.kernel import kernel


class Columns(NamedTuple):
    """Stacked weight vectors by column: for each feature, its weights in the shards that have it, in shard order."""

    id: np.ndarray
    """uint64 [columns]: features, ascending."""
    ptr: np.ndarray
    """int64 [columns + 1]: column c is ``value[ptr[c]:ptr[c + 1]]``."""
    value: np.ndarray
    """float64"""


def columns(vectors: SparseVectors) -> Columns:
    """The columns of the matrix whose rows are ``vectors`` (which stand in shard order)."""
    order = np.argsort(vectors.index, kind="stable")
    index = vectors.index[order]
    first = np.ones(len(index), dtype=np.bool_)
    np.not_equal(index[1:], index[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    ptr = np.append(starts, len(index)).astype(np.int64)
    return Columns(index[starts], ptr, vectors.value[order])


def sums(stacked: Columns) -> np.ndarray:
    """float64 [columns]: the sum of each column, added up in shard order."""
    out = np.empty(len(stacked.id), dtype=np.float64)
    _sums(stacked, out)
    return out


@kernel
def _sums(stacked: Columns, out: np.ndarray) -> None:
    for c in range(len(out)):
        total = 0.0
        for i in range(stacked.ptr[c], stacked.ptr[c + 1]):
            total += stacked.value[i]
        out[c] = total


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


def mean(vectors: SparseVectors, comm: Comm = ALONE) -> Mixed:
    """The unweighted mean of the shards' vectors (algorithm 3, IterMixSGD: v = 1/Z sum_z w_z).

    It names the features that any of them names. ``vectors``: the rows of all shards, in shard order; over ``comm``,
    their columns of this rank's part (`Comm.alltoall`), and all ranks call this.
    """
    stacked = columns(vectors)
    return Mixed(stacked.id, sums(stacked) / len(vectors.shard), comm.sum(len(stacked.id)), None)


class RunningMean:
    """The mean over epochs of a weight vector: what algorithms 1 and 2 return, 1/T sum_t w_t.

    `epochs`, `index` (uint64 ascending) and `total` (float64, the sum over the epochs) are all of its state: from
    them it goes on as if never interrupted.
    """

    def __init__(self, epochs: int = 0, index: np.ndarray | None = None, total: np.ndarray | None = None) -> None:
        self.epochs = epochs
        self.index = np.zeros(0, dtype=np.uint64) if index is None else index
        self.total = np.zeros(0, dtype=np.float64) if total is None else total

    def add(self, index: np.ndarray, value: np.ndarray) -> None:
        """Take in the weights of one more epoch: ``index`` uint64 [n], none twice; ``value`` float64 [n]."""
        rows = np.array([0, 1], dtype=np.int64)
        ptr = np.cumsum([0, len(self.index), len(index)], dtype=np.int64)
        both = np.concatenate([self.index, index]), np.concatenate([self.total, value])
        stacked = columns(SparseVectors(rows, ptr, *both))
        self.epochs += 1
        self.index, self.total = stacked.id, sums(stacked)

    @property
    def value(self) -> np.ndarray:
        """float64: the means of the features `index`."""
        return self.total / self.epochs
