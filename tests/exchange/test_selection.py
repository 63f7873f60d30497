"""Column norms and selection, against dense plain twins: bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import naive
from support.shard_rows import random_rows, sparse

from mpitune.exchange.mixing import active_mean, columns
from mpitune.exchange.selection import NORMS, select
from mpitune.exchange.sparse_rows import SparseVectors

IDS = np.array([3, 5, 8, 2**40, 2**64 - 1], dtype=np.uint64)


def rows(matrix: list[list[float]], ids: np.ndarray = IDS) -> SparseVectors:
    return sparse(np.array(matrix, dtype=np.float64), ids, np.random.default_rng(0))


def norms_of(name: str, matrix: list[list[float]]) -> list[float]:
    """The norms of the columns that any row names, by their ids."""
    return [float(norm) for norm in NORMS[name](columns(rows(matrix)), len(matrix))]


def test_the_papers_worked_example() -> None:
    """SRD12, section 4: few shared features have a smaller sum of l2 column norms than many scattered ones."""
    scattered = norms_of("l2", [[6, 4, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 2, 3]])
    shared = norms_of("l2", [[6, 4, 0, 0, 0], [3, 0, 0, 0, 0], [2, 3, 0, 0, 0]])
    assert scattered == [6, 4, 3, 2, 3] and sum(scattered) == 18
    assert shared == [7, 5] and sum(shared) == 12


def test_the_other_norms_by_hand() -> None:
    matrix: list[list[float]] = [[6, -4, 0, 1, 0], [3, 0, 0, -1, 0], [2, -3, 5, 0, 0], [1, -1, 0, 0, 0]]
    assert norms_of("l0", matrix) == [4, 3, 1, 2]
    assert norms_of("l1", matrix) == [12, 8, 5, 2]
    assert norms_of("linf", matrix) == [6, 4, 5, 1]
    assert norms_of("mean", matrix) == [3, 2, 1.25, 0]
    assert norms_of("median", matrix) == [2.5, 2, 0, 0]


@pytest.mark.kernel
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shards", [1, 2, 5, 8])
def test_norms_equal_the_plain_twins(norm: str, shards: int) -> None:
    matrix, ids, vectors = random_rows(shards, shards, 40)
    stacked = columns(vectors)
    dense = {int(id_): column for id_, column in zip(ids, matrix.T.tolist(), strict=True)}
    expected = [naive.NORMS[norm](dense[int(id_)]) for id_ in stacked.id]
    assert NORMS[norm](stacked, shards).tolist() == expected


def test_every_norm_has_a_twin() -> None:
    assert NORMS.keys() == naive.NORMS.keys()


matrices = st.integers(1, 6).flatmap(
    lambda features: st.lists(
        st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.1]), min_size=features, max_size=features),
        min_size=1,
        max_size=5,
    )
)


@pytest.mark.kernel
@settings(max_examples=200, deadline=None)
@given(matrices, st.sampled_from(list(NORMS)), st.integers(1, 7), st.integers(0, 100))
def test_selection_with_ties_equals_the_plain_twin(matrix: list[list[float]], norm: str, k: int, seed: int) -> None:
    ids = np.unique(np.random.default_rng(seed).integers(0, 2**64, len(matrix[0]), dtype=np.uint64))
    vectors = rows(matrix, ids)
    for size, threshold in ((k, None), (None, 0.1), (None, 1.0), (None, 2.0)):
        got = select(vectors, norm=norm, k=size, threshold=threshold)
        expected = naive.select(matrix, ids.tolist(), norm, size, threshold)
        assert (got.index.tolist(), got.value.tolist(), got.active, got.threshold) == expected
        assert got.index.dtype == np.uint64 and got.value.dtype == np.float64


@pytest.mark.parametrize("norm", NORMS)
def test_large_selection_equals_the_plain_twin(norm: str) -> None:
    matrix, ids, vectors = random_rows(11, 8, 500)
    for k in (1, 100, 499, 500, 501):
        got = select(vectors, norm=norm, k=k)
        expected = naive.select(matrix.tolist(), ids.tolist(), norm, k, None)
        assert (got.index.tolist(), got.value.tolist(), got.active, got.threshold) == expected


def test_ties_go_to_the_smaller_id() -> None:
    got = select(rows([[1, 2, -1, 1, 1], [0, 0, 0, 0, 0]]), norm="l2", k=3)
    assert got.index.tolist() == [3, 5, 8]
    assert got.value.tolist() == [0.5, 1.0, -0.5]
    assert (got.active, got.threshold) == (5, 1.0)


def test_columns_of_norm_0_are_never_selected() -> None:
    """Also one that is named: explicit zeros, or weights that cancel out in the mean."""
    vectors = SparseVectors(
        np.arange(2),
        np.array([0, 3, 5]),
        np.array([5, 8, 3, 5, 8], dtype=np.uint64),
        np.array([1.0, 0.0, 2.0, -1.0, 0.0]),
    )
    by_l2 = select(vectors, norm="l2", k=5)
    assert (by_l2.index.tolist(), by_l2.value.tolist()) == ([3, 5], [1.0, 0.0])
    assert (by_l2.active, by_l2.threshold) == (2, None)
    by_mean = select(vectors, norm="mean", threshold=0.0)
    assert (by_mean.index.tolist(), by_mean.active) == ([3], 2)


@pytest.mark.parametrize("wanted", [{"k": 1}, {"threshold": 1.5}])
def test_what_is_not_selected_stays_for_its_state(wanted: dict[str, Any]) -> None:
    """Gradients of other epochs add to it; its weight, and its norm, are 0."""
    vectors = SparseVectors(
        np.arange(2),
        np.array([0, 3, 5]),
        np.array([5, 8, 9, 5, 8], dtype=np.uint64),
        np.array([1.0, 2.0, 0.0, 1.0, 0.0]),
        (np.array([4.0, 4.0, 1.0, 4.0, 4.0]), np.array([2.0, 3.0, 0.5, 1.0, -1.0])),
    )
    got = select(vectors, norm="l2", mixing=active_mean, **wanted)
    assert (got.index.tolist(), got.value.tolist(), got.active) == ([5, 8, 9], [0.0, 1.0, 0.0], 2)
    assert got.norm.tolist() == [0.0, 2.0, 0.0]
    assert got.state[1].tolist() == [3.0, 2.0, 0.5]


def test_k_and_lambda_are_interchangeable() -> None:
    _, _, vectors = random_rows(4, 6, 200)
    by_k = select(vectors, norm="l2", k=50)
    by_lambda = select(vectors, norm="l2", threshold=by_k.threshold)
    assert len(by_k.index) == 50
    assert by_lambda.index.tolist() == by_k.index.tolist()
    assert by_lambda.value.tobytes() == by_k.value.tobytes()


@pytest.mark.parametrize("norm", NORMS)
def test_a_part_of_the_columns_gives_the_same_bits(norm: str) -> None:
    """What the exchange without a centre relies on: norms and means of a column do not depend on the others."""
    _, _, vectors = random_rows(9, 7, 120)
    whole = columns(vectors)
    row = np.repeat(vectors.shard, np.diff(vectors.ptr))
    for part in range(3):
        mine = vectors.index % np.uint64(3) == part
        lengths = np.bincount(row[mine], minlength=7)
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        stacked = columns(SparseVectors(vectors.shard, ptr, vectors.index[mine], vectors.value[mine]))
        place = np.searchsorted(whole.id, stacked.id)
        assert NORMS[norm](stacked, 7).tobytes() == NORMS[norm](whole, 7)[place].tobytes()


def test_nothing_learned_selects_nothing() -> None:
    nothing = SparseVectors(np.arange(2), np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.uint64), np.zeros(0))
    for got in (select(nothing, norm="l2", k=3), select(nothing, norm="median", threshold=0.5)):
        assert len(got.index) == len(got.value) == got.active == 0
