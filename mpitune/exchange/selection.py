"""Feature selection by column norms, the core of IterSelSGD.

Simianer, Riezler and Dyer (ACL 2012), algorithm 4: stack the shards' weight vectors into a matrix of Z rows, keep the K
columns of largest norm, mix those. Each column is computed alone, from its values in shard order, and ties go to the
smaller feature id: the bits do not depend on the rank that holds a column. Ranks with one partition of the columns each
find the common threshold by counting; norms are not sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpitune.exchange.comm import SERIAL_COMM, Comm
from mpitune.exchange.mixing import Mixed, Mixing, WeightColumns, active, columns, sums_of, uniform_mean
from mpitune.exchange.sparse_rows import SparseVectors
from mpitune.jit import kernel
from mpitune.registry import Registry

_DROPPED_BITS = 50
"""Number of low bits of a norm (float64) that a profile of norms ignores."""


def select(
    vectors: SparseVectors,
    comm: Comm = SERIAL_COMM,
    *,
    norm: str,
    k: int | None = None,
    threshold: float | None = None,
    mixing: Mixing = uniform_mean,
) -> Mixed:
    """Select the ``k`` columns of largest ``norm`` (a name of `NORMS`), or those of norm >= ``threshold`` (lambda).

    ``mixing`` mixes their weights. Exactly one of ``k`` >= 1 and ``threshold`` is given; columns
    of norm 0 are never selected. ``vectors``: the rows of all shards in shard order, finite values only; with ``comm``,
    this rank's partition of their columns (`Comm.alltoall`): then all ranks call this function, and each gets the
    selected columns of its partition.

    If the vectors have states, columns that are not selected stay for theirs, with a weight and a norm of 0 *(ours)*:
    whether a feature's gradients agree may show in the lists of several shards and epochs only.
    """
    stacked = columns(vectors)
    shards = len(vectors.shard)
    norms = NORMS[norm](stacked, shards)
    if threshold is not None:
        kept = np.flatnonzero((norms > 0.0) & (norms >= threshold))
    elif k is not None:
        kept, threshold = _largest(norms, k, comm)
    else:
        raise ValueError("select() needs k or threshold")
    selected = np.zeros(len(norms), dtype=np.bool_)
    selected[kept] = True
    stays = np.ones_like(selected) if stacked.state else selected
    value, state = mixing(stacked, shards)
    return Mixed(
        index=stacked.id[stays],
        value=np.where(selected, value, 0.0)[stays],
        active=comm.sum(int(np.count_nonzero(active(stacked)))),
        threshold=threshold,
        norm=np.where(selected, norms, 0.0)[stays],
        profile=_profile(norms[norms > 0.0], comm),
        state=tuple(added[stays] for added in state),
    )


def _profile(positive: np.ndarray, comm: Comm) -> tuple[tuple[float, int], ...]:
    """Distribution of the norms of all ranks: norms, ascending, each with the number of columns of at least that norm.

    Norms are rounded down to their exponent and two more bits: four steps from a power of 2 to the next.
    """
    rounded = (positive.view(np.uint64) >> np.uint64(_DROPPED_BITS)).astype(np.int64)
    counts = comm.sum(np.bincount(rounded, minlength=1 << (63 - _DROPPED_BITS)))
    steps = np.flatnonzero(counts)
    at_least = np.cumsum(counts[::-1])[::-1][steps]
    edges = (steps.astype(np.uint64) << np.uint64(_DROPPED_BITS)).view(np.float64)
    return tuple(zip(edges.tolist(), at_least.tolist(), strict=True))


def _largest(norms: np.ndarray, k: int, comm: Comm) -> tuple[np.ndarray, float | None]:
    """Positions, ascending, on this rank of the ``k`` largest norms of all ranks; and the k-th largest norm.

    Among equal norms, lower ranks and lower positions come first.
    """
    agreed = _kth_largest(norms[norms > 0.0], k, comm)
    if agreed is None:
        return np.flatnonzero(norms), None
    threshold, wanted = agreed
    ties = np.flatnonzero(norms == threshold)
    mine = max(wanted - comm.exclusive_sum(len(ties)), 0)
    return np.sort(np.concatenate([np.flatnonzero(norms > threshold), ties[:mine]])), threshold


def _kth_largest(positive: np.ndarray, k: int, comm: Comm) -> tuple[float, int] | None:
    """The ``k``-th largest of all ranks' numbers, and the number of its equals among the ``k`` largest.

    None if there are fewer than ``k`` numbers. Radix selection: positive floats sort like their bit patterns, so that
    each round finds 8 bits of the answer from a histogram of the next 8 bits, summed over the ranks.
    """
    if comm.sum(len(positive)) < k:
        return None
    candidates, found = positive.view(np.uint64), 0
    for shift in range(56, -1, -8):
        digits = (candidates >> np.uint64(shift)).astype(np.uint8)
        counts = comm.sum(np.bincount(digits, minlength=256))
        at_least = np.cumsum(counts[::-1])[::-1]
        digit = int(np.flatnonzero(at_least >= k)[-1])
        k -= int(at_least[digit] - counts[digit])
        candidates = candidates[digits == digit]
        found = found << 8 | digit
    return float(np.uint64(found).view(np.float64)), k


def _l0(stacked: WeightColumns, shards: int) -> np.ndarray:
    return sums_of(stacked.ptr, (stacked.value != 0.0).astype(np.float64))


def _linf(stacked: WeightColumns, shards: int) -> np.ndarray:
    largest: np.ndarray = np.maximum.reduceat(np.abs(stacked.value), stacked.ptr[:-1])
    return largest


def _lplp_median(stacked: WeightColumns, shards: int) -> np.ndarray:
    # A feature whose median is negative ranks below those that no shard has, which are never selected.
    upper: np.ndarray = np.maximum(_medians(stacked, shards, shards // 2), 0.0)
    return upper


def _medians(stacked: WeightColumns, shards: int, lower: int) -> np.ndarray:
    """float64 [columns]: the mean of the values ``lower`` and ``shards`` // 2, from 0, of each column in order."""
    column = np.repeat(np.arange(len(stacked.id)), np.diff(stacked.ptr))
    ascending = stacked._replace(value=stacked.value[np.lexsort((stacked.value, column))])
    out = np.empty(len(stacked.id), dtype=np.float64)
    _fill_medians(ascending, shards, lower, out)
    return out


@kernel
def _fill_medians(ascending: WeightColumns, shards: int, lower: int, out: np.ndarray) -> None:
    """Fill `_medians` of ``shards`` values: the values of a column, ascending, and zeros for the absent ones."""
    for c in range(len(out)):
        start, end = ascending.ptr[c], ascending.ptr[c + 1]
        zeros = shards - (end - start)
        negative = start
        while negative < end and ascending.value[negative] < 0.0:
            negative += 1
        middle = 0.0
        for nth in (lower, shards // 2):
            i = start + nth
            if i < negative:
                middle += ascending.value[i]
            elif i >= negative + zeros:
                middle += ascending.value[i - zeros]
        out[c] = middle / 2.0


NORMS: Registry[Callable[[WeightColumns, int], np.ndarray]] = Registry(
    "mpitune.exchange",
    parts={
        "l2": lambda stacked, shards: np.sqrt(sums_of(stacked.ptr, np.square(stacked.value))),
        "l0": _l0,
        "l1": lambda stacked, shards: sums_of(stacked.ptr, np.abs(stacked.value)),
        "linf": _linf,
        "mean": lambda stacked, shards: np.abs(sums_of(stacked.ptr, stacked.value) / shards),
        "median": lambda stacked, shards: np.abs(_medians(stacked, shards, (shards - 1) // 2)),
        "lplp-l0": lambda stacked, shards: (_l0(stacked, shards) == shards).astype(np.float64),
        "lplp-median": _lplp_median,
    },
)
"""The column norms by name: (columns, number of shards) to float64 [columns]. A shard without the feature counts as 0;
``l0`` is the number of shards with a nonzero weight; ``mean`` and ``median`` are absolute values. Those of dtrain's
``lplp.rb``: ``lplp-l0`` is 1 for a feature of all shards, else 0; ``lplp-median`` the upper median, if above 0."""
