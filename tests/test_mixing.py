"""Means over shards and over epochs, against dense plain twins: bit by bit."""

from __future__ import annotations

import naive
import numpy as np
import pytest

from mpitune.exchange import mixing
from mpitune.exchange.vectors import SparseVectors


def sparse(matrix: np.ndarray, ids: np.ndarray, generator: np.random.Generator) -> SparseVectors:
    """The rows of ``matrix`` as sparse vectors, the entries of a row in any order."""
    picked = [generator.permutation(np.flatnonzero(row)) for row in matrix]
    return SparseVectors(
        np.arange(len(matrix), dtype=np.int64),
        np.cumsum([0] + [len(columns) for columns in picked], dtype=np.int64),
        ids[np.concatenate(picked)],
        np.concatenate([row[columns] for row, columns in zip(matrix, picked, strict=True)]),
    )


def random_rows(seed: int, shards: int, features: int) -> tuple[np.ndarray, np.ndarray, SparseVectors]:
    """A matrix with many zeros and full-range ids, dense and sparse."""
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(shards, features)) * 10.0 ** generator.integers(-8, 8, size=(shards, features))
    matrix[generator.random(matrix.shape) < 0.5] = 0.0
    ids = np.unique(generator.integers(0, 2**64, features, dtype=np.uint64))
    assert len(ids) == features
    return matrix, ids, sparse(matrix, ids, generator)


@pytest.mark.kernel
@pytest.mark.parametrize(("shards", "features"), [(1, 5), (3, 40), (20, 60)])
def test_mean_equals_the_plain_twin(shards: int, features: int) -> None:
    matrix, ids, vectors = random_rows(shards, shards, features)
    present = np.flatnonzero((matrix != 0).any(axis=0))
    index, value, active, *_ = mixing.mean(vectors)
    assert active == len(present)
    assert index.dtype == np.uint64 and index.tolist() == ids[present].tolist()
    assert value.tolist() == naive.mean(matrix[:, present].tolist())


def test_the_mean_is_unweighted_and_absent_counts_as_0() -> None:
    vectors = SparseVectors(
        np.array([0, 1, 2, 3]),
        np.array([0, 2, 2, 3, 4]),
        np.array([9, 4, 4, 4], dtype=np.uint64),
        np.array([8.0, 1, 2, 3]),
    )
    index, value, *_ = mixing.mean(vectors)
    assert (index.tolist(), value.tolist()) == ([4, 9], [1.5, 2.0])


def test_sums_run_in_shard_order() -> None:
    """1e16 + 1 + 1 - 1e16 is 0 from the left in float64, and 2 or 1 in other orders."""
    ones = np.array([7, 7, 7, 7], dtype=np.uint64)
    vectors = SparseVectors(np.arange(4), np.arange(5), ones, np.array([1e16, 1.0, 1.0, -1e16]))
    assert mixing.mean(vectors).value.tolist() == [0.0]


@pytest.mark.kernel
def test_columns_hold_their_values_in_shard_order() -> None:
    matrix, ids, vectors = random_rows(5, 6, 30)
    stacked = mixing.columns(vectors)
    for c, id_ in enumerate(stacked.id):
        column = matrix[:, np.flatnonzero(ids == id_)[0]]
        assert stacked.value[stacked.ptr[c] : stacked.ptr[c + 1]].tolist() == column[column != 0].tolist()


def test_nothing_learned() -> None:
    nothing = SparseVectors(np.arange(2), np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.uint64), np.zeros(0))
    index, value, *_ = mixing.mean(nothing)
    assert len(index) == len(value) == 0


@pytest.mark.kernel
def test_running_mean_equals_the_plain_twin_and_goes_on_from_its_state() -> None:
    matrix, ids, _ = random_rows(3, 5, 25)
    unbroken, resumed = mixing.RunningMean(), mixing.RunningMean()
    for row in matrix:
        picked = np.flatnonzero(row)[::-1]
        unbroken.add(ids[picked], row[picked])
        resumed = mixing.RunningMean(resumed.epochs, resumed.index, resumed.total)
        resumed.add(ids[picked], row[picked])
    present = np.flatnonzero((matrix != 0).any(axis=0))
    for mean in (unbroken, resumed):
        assert mean.index.tolist() == ids[present].tolist()
        assert mean.value.tolist() == naive.mean(matrix[:, present].tolist())
