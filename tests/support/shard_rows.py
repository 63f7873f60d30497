"""Random weights of shards, dense and sparse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.exchange.sparse_rows import SparseVectors


def sparse(
    matrix: np.ndarray, ids: np.ndarray, generator: np.random.Generator, state: Sequence[np.ndarray] = ()
) -> SparseVectors:
    """The rows of ``matrix`` as sparse vectors, the entries of a row in any order; likewise those of ``state``.

    A row has the entries of its weights other than 0 and of its squared gradients other than 0.
    """
    named = matrix != 0
    if state:
        named |= state[0] != 0
    picked = [generator.permutation(np.flatnonzero(row)) for row in named]
    return SparseVectors(
        np.arange(len(matrix), dtype=np.int64),
        np.cumsum([0] + [len(columns) for columns in picked], dtype=np.int64),
        ids[np.concatenate(picked)],
        np.concatenate([row[columns] for row, columns in zip(matrix, picked, strict=True)]),
        tuple(np.concatenate([row[columns] for row, columns in zip(of, picked, strict=True)]) for of in state),
    )


def random_state(matrix: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
    """Three arrays that shards may have added to their learners' state of ``matrix``'s features.

    Some columns nobody moved, in others only some shards moved, whether or not the weight came out as 0.
    """
    squares = generator.random(matrix.shape) * 10.0 ** generator.integers(-8, 8, size=matrix.shape)
    squares[generator.random(matrix.shape) < 0.4] = 0.0
    squares[:, generator.random(matrix.shape[1]) < 0.2] = 0.0
    others = [generator.random(matrix.shape), generator.integers(0, 9, matrix.shape).astype(np.float64)]
    for other in others:
        other[(matrix == 0) & (squares == 0)] = 0.0
    return [squares, *others]


def random_rows(seed: int, shards: int, features: int) -> tuple[np.ndarray, np.ndarray, SparseVectors]:
    """A matrix with many zeros and full-range ids, dense and sparse."""
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(shards, features)) * 10.0 ** generator.integers(-8, 8, size=(shards, features))
    matrix[generator.random(matrix.shape) < 0.5] = 0.0
    ids = np.unique(generator.integers(0, 2**64, features, dtype=np.uint64))
    assert len(ids) == features
    return matrix, ids, sparse(matrix, ids, generator)
