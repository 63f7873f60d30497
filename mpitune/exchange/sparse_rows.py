"""The weight vectors of shards as sparse rows: their order, and their parts by feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends


class SparseVectors(NamedTuple):
    """The weight vectors of some shards as sparse rows, ascending in their shard numbers."""

    shard: np.ndarray
    """int64 [n]: whose vector each row is."""
    ptr: np.ndarray
    """int64 [n + 1]: row i is ``ptr[i]:ptr[i + 1]`` of the next two."""
    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which nobody asks of these
    """uint64: feature ids, none twice in a row."""
    value: np.ndarray
    """float64: their weights; features that are not named have weight 0."""
    state: tuple[np.ndarray, ...] = ()
    """float64 [entries] each: what the shard has added to the state that its learner keeps of the features; the first
    array is that of squared gradients."""


def in_shard_order(vectors: SparseVectors) -> SparseVectors:
    """``vectors``, given in any order, ascending in their shard numbers."""
    order = np.argsort(vectors.shard, kind="stable")
    if np.array_equal(order, np.arange(len(order))):
        return vectors
    rows = [slice(vectors.ptr[i], vectors.ptr[i + 1]) for i in order]
    return SparseVectors(
        vectors.shard[order],
        row_ends(np.diff(vectors.ptr)[order]),
        np.concatenate([vectors.index[row] for row in rows]),
        np.concatenate([vectors.value[row] for row in rows]),
        tuple(np.concatenate([kept[row] for row in rows]) for kept in vectors.state),
    )


def values_of(wanted: np.ndarray, index: np.ndarray, value: np.ndarray) -> np.ndarray:
    """float64 [wanted]: the ``value`` of each id ``wanted`` among ``index`` (uint64, none twice); 0 where it is not."""
    if not len(index):
        return np.zeros(len(wanted))
    order = np.argsort(index)
    place = order[np.minimum(np.searchsorted(index, wanted, sorter=order), len(index) - 1)]
    return np.where(index[place] == wanted, value[place], 0.0)


def by_part(vectors: SparseVectors, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """The entries of ``vectors`` by part: all ids fall into ``parts`` (below 2^32) ranges of equal width, ascending.

    Ids are hashes, so that each part gets about as many. Returns where the entries stand, part by part and row by row
    within (int64 [entries]), and how many each part has of each row (int64 [parts, rows]).
    """
    high = np.uint64(32)
    part = ((vectors.index >> high) * np.uint64(parts) >> high).astype(np.min_scalar_type(parts))
    rows = zip(vectors.ptr[:-1].tolist(), vectors.ptr[1:].tolist(), strict=True)
    lengths = [np.bincount(part[begin:end], minlength=parts) for begin, end in rows]
    by_row = np.array(lengths, dtype=np.int64).reshape(len(vectors.shard), parts)
    return np.argsort(part, kind="stable"), np.ascontiguousarray(by_row.T)
