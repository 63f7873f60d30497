"""The shards' weight vectors as sparse rows: sorting by shard, partitioning by feature id."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends


class SparseVectors(NamedTuple):
    """The weight vectors of some shards as sparse rows; `sort_by_shard` orders them."""

    shard: np.ndarray
    """int64 [n]: the shard of each row."""
    ptr: np.ndarray
    """int64 [n + 1]: row i is ``ptr[i]:ptr[i + 1]`` of the next two."""
    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which is not used here
    """uint64 [entries]: feature ids, unique in each row."""
    value: np.ndarray
    """float64 [entries]: their weights; absent features have weight 0."""
    state: tuple[np.ndarray, ...] = ()
    """float64 [entries] each: the shard's increments of the learner's per-feature state; the first array is the sum of
    squared gradients."""


def sort_by_shard(vectors: SparseVectors) -> SparseVectors:
    """``vectors`` in ascending order of shard number."""
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


def partition_columns(vectors: SparseVectors, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Partition the columns of ``vectors``: ``parts`` (below 2^32) ranges of feature ids of equal width, ascending.

    Ids are hashes, so that the partitions have about the same size. Returns the positions of the entries sorted by
    partition and row (int64 [entries]), and the number of entries of each row in each partition (int64 [parts, rows]).
    """
    high = np.uint64(32)
    part = ((vectors.index >> high) * np.uint64(parts) >> high).astype(np.min_scalar_type(parts))
    rows = zip(vectors.ptr[:-1].tolist(), vectors.ptr[1:].tolist(), strict=True)
    lengths = [np.bincount(part[begin:end], minlength=parts) for begin, end in rows]
    by_row = np.array(lengths, dtype=np.int64).reshape(len(vectors.shard), parts)
    return np.argsort(part, kind="stable"), np.ascontiguousarray(by_row.T)
