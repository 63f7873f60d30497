"""Means over shards and over epochs, against dense plain twins: bit by bit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from support import naive
from support.shard_rows import random_rows, random_state, sparse

from mpitune.exchange import mixing
from mpitune.exchange.sparse_rows import SparseVectors
from mpitune.learner.weights import SparseWeights


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


@pytest.mark.kernel
@pytest.mark.parametrize("how", ["active", "evenly", "uniform"])
@pytest.mark.parametrize(("shards", "features"), [(1, 15), (3, 40), (20, 60)])
def test_means_with_a_state_equal_the_plain_twin(shards: int, features: int, how: str) -> None:
    generator = np.random.default_rng(shards + 100)
    matrix, ids, _ = random_rows(shards, shards, features)
    state = random_state(matrix, generator)
    named = (matrix != 0) | (state[0] != 0)
    present = np.flatnonzero(named.any(axis=0))
    even = generator.choice(len(present), 7, replace=False) if how == "evenly" else np.zeros(0, np.int64)
    active = partial(mixing.active_mean, evenly=ids[present][even])
    vectors = sparse(matrix, ids, generator, state)
    got = mixing.mean(vectors, mixing=mixing.uniform_mean if how == "uniform" else active)
    rows, states = matrix[:, present].tolist(), [array[:, present].tolist() for array in state]
    if how != "uniform":
        means, kept = naive.active_mean(rows, states, named[:, present].tolist(), even.tolist())
    else:
        means, kept = naive.mean(rows), [naive.mean(array) for array in states]
    assert got.active == np.count_nonzero((matrix != 0).any(axis=0)) and got.index.tolist() == ids[present].tolist()
    assert got.value.tolist() == means
    assert [array.tolist() for array in got.state] == kept


def test_the_active_mean_goes_by_squared_gradients() -> None:
    """Absent is not 0: a feature of one shard is not divided. What nobody moved has the mean, or the bits of all."""
    vectors = SparseVectors(
        np.array([0, 1, 2]),
        np.array([0, 3, 6, 8]),
        np.array([4, 5, 8, 4, 5, 6, 4, 5], dtype=np.uint64),
        np.array([1.0, 0.7, 9.0, 2.0, 0.7, 9.0, 4.0, 0.7]),
        (np.array([1.0, 0.0, 0.0, 3.0, 0.0, 2.0, 0.0, 0.0]), np.full(8, 2.0), np.ones(8)),
    )
    got = mixing.mean(vectors, mixing=mixing.active_mean)
    assert (got.index.tolist(), got.value.tolist()) == ([4, 5, 6, 8], [0.25 * 1 + 0.75 * 2, 0.7, 9.0, 9.0 / 3])
    squares, sums, others = got.state
    assert (squares.tolist(), others.tolist()) == ([0.25 * 1 + 0.75 * 3, 0.0, 2.0, 0.0], [3.0, 3.0, 1.0, 1.0])
    assert sums.tolist() == [6.0, 6.0, 2.0, 2.0]


@pytest.mark.parametrize("how", [mixing.uniform_mean, mixing.active_mean])
def test_evidence_is_summed_however_weights_are_mixed(how: mixing.Mixing) -> None:
    vectors = SparseVectors(
        np.array([0, 1]),
        np.array([0, 2, 4]),
        np.array([4, 5, 4, 5], dtype=np.uint64),
        np.array([1.0, 2.0, 3.0, 4.0]),
        (np.array([1.0, 1.0, 3.0, 3.0]), np.array([5.0, 6.0, 7.0, 8.0])),
    )
    dense = np.array([4, 6], dtype=np.uint64)
    plain = mixing.mean(vectors, mixing=how)
    got = mixing.mean(vectors, mixing=partial(mixing.summed_evidence, mixing=how, dense=dense))
    assert got.value.tolist() == plain.value.tolist()
    assert [array[0] for array in got.state] == [array[0] for array in plain.state]
    assert [array[1] for array in got.state] == [4.0, 14.0] and plain.state[0][1] < 4.0


def test_without_a_state_the_active_mean_is_the_uniform_one() -> None:
    _, _, vectors = random_rows(7, 4, 30)
    active, uniform = (mixing.mean(vectors, mixing=how) for how in (mixing.active_mean, mixing.uniform_mean))
    assert active.value.tolist() == uniform.value.tolist() and active.state == ()


@pytest.mark.kernel
def test_active_sums_run_in_shard_order() -> None:
    """Weighted alike, a quarter of 1e16 + 1 + 1 - 1e16 from the left is 0."""
    sevens = np.array([7, 7, 7, 7], dtype=np.uint64)
    vectors = SparseVectors(np.arange(4), np.arange(5), sevens, np.array([4e16, 4.0, 4.0, -4e16]), (np.ones(4),))
    assert mixing.mean(vectors, mixing=mixing.active_mean).value.tolist() == [0.0]


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


def test_the_mean_of_nothing_is_nothing() -> None:
    nothing = SparseVectors(np.arange(2), np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.uint64), np.zeros(0))
    index, value, *_ = mixing.mean(nothing)
    assert len(index) == len(value) == 0


@pytest.mark.kernel
def test_running_mean_equals_the_plain_twin_and_goes_on_from_its_state() -> None:
    matrix, ids, _ = random_rows(3, 5, 25)
    unbroken, resumed = mixing.RunningMean(), mixing.RunningMean()
    for row in matrix:
        picked = np.flatnonzero(row)[::-1]
        unbroken.add(SparseWeights(ids[picked], row[picked]))
        resumed = mixing.RunningMean(resumed.epochs, resumed.total)
        resumed.add(SparseWeights(ids[picked], row[picked]))
    present = np.flatnonzero((matrix != 0).any(axis=0))
    for mean in (unbroken.mean, resumed.mean):
        assert mean.ids.tolist() == ids[present].tolist()
        assert mean.value.tolist() == naive.mean(matrix[:, present].tolist())


@pytest.mark.kernel
def test_in_a_rising_mean_epoch_t_counts_t_times() -> None:
    matrix, ids, _ = random_rows(4, 5, 25)
    unbroken, resumed = mixing.RunningMean(rising=True), mixing.RunningMean(rising=True)
    for t, row in enumerate(matrix, start=1):
        picked = np.flatnonzero(row)[::-1]
        unbroken.add(SparseWeights(ids[picked], row[picked]))
        resumed = mixing.RunningMean(resumed.epochs, resumed.total, rising=True)
        resumed.add(SparseWeights(ids[picked], row[picked]))
        seen = matrix[:t]
        present = np.flatnonzero((seen != 0).any(axis=0))
        expected = [sum(n * w for n, w in enumerate(column, 1)) / sum(range(1, t + 1)) for column in seen.T[present]]
        assert unbroken.mean.ids.tolist() == ids[present].tolist()
        assert unbroken.mean.value.tolist() == resumed.mean.value.tolist() == expected
