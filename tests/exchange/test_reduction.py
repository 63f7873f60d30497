"""The end of an epoch, by a centre and without: the same bits on any number of ranks, those of the plain twins.

This file run as a program is one rank's part under mpirun.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import naive
from support.mpi import mpirun
from support.shard_rows import random_state, sparse
from support.threads import on_ranks

from mpitune.exchange import chunked, reduction
from mpitune.exchange.comm import Comm, connect
from mpitune.exchange.mixing import Mixed, active_mean, mean, uniform_mean
from mpitune.exchange.reduction import BYTES_PER_WEIGHT, EXCHANGES, MEMORY_SHARE, reduce
from mpitune.exchange.selection import NORMS, select
from mpitune.exchange.sparse_rows import SparseVectors

AMPLE = 2**50


class Task(NamedTuple):
    """Shards' weights, and what becomes of them."""

    matrix: np.ndarray
    """float64 [shards, features]"""
    ids: np.ndarray
    """uint64 [features], ascending"""
    norm: str
    """"" keeps every column."""
    k: int | None
    threshold: float | None
    mixing: str = "uniform"
    state: tuple[np.ndarray, ...] = ()
    """float64 [shards, features] each: what the shards have added to their learners' state."""

    def expected(self) -> Mixed:
        """By the plain twins."""
        columns = self.matrix.tolist() if len(self.ids) else [[] for _ in self.matrix]
        moved = self.matrix != 0
        if self.state:
            moved |= self.state[0] != 0
        named, states = moved.any(axis=0), [array.tolist() for array in self.state]
        if self.state and self.mixing == "active":
            means, mixed = naive.active_mean(columns, states, moved.tolist())
        else:
            means, mixed = naive.mean(columns), [naive.mean(array) for array in states]
        state = [np.array(array, np.float64) for array in mixed]
        if self.norm:
            index, _, active, threshold = naive.select(
                columns, self.ids.tolist(), self.norm, self.k, self.threshold, means
            )
            selected = np.isin(self.ids, np.array(index, np.uint64))
            kept = named if self.state else selected  # what is not selected stays for its state
            values = np.where(selected, np.array(means, np.float64), 0.0)[kept]
            return Mixed(self.ids[kept], values, active, threshold, state=tuple(array[kept] for array in state))
        values = np.array(means, np.float64)[named]
        active = int((self.matrix != 0).any(axis=0).sum())
        return Mixed(self.ids[named], values, active, None, state=tuple(array[named] for array in state))

    def check(self, comm: Comm, seed: int) -> None:
        """On this rank, with the shards dealt out at random."""
        dealt = np.random.default_rng(seed).integers(0, comm.size, len(self.matrix))
        mine = self._rows(np.flatnonzero(dealt == comm.rank))
        mixing = active_mean if self.mixing == "active" else uniform_mean
        mix = partial(mean, mixing=mixing)
        if self.norm:
            mix = partial(select, norm=self.norm, k=self.k, threshold=self.threshold, mixing=mixing)
        expected = self.expected()
        for exchange in EXCHANGES:
            got = reduce(comm, mine, mix, exchange=exchange, memory=AMPLE)
            assert (got.index.dtype, got.value.dtype) == (np.uint64, np.float64)
            assert got.index.tobytes() == expected.index.tobytes(), exchange
            assert got.value.tobytes() == expected.value.tobytes(), exchange
            assert (got.active, got.threshold) == (expected.active, expected.threshold), exchange
            assert [array.tobytes() for array in got.state] == [array.tobytes() for array in expected.state], exchange
            if self.norm:
                self._check_norms(got, comm, exchange)

    def _check_norms(self, got: Mixed, comm: Comm, exchange: str) -> None:
        """Of what is kept, and of all columns in steps: norms whose floats have the same first 14 bits."""
        by_id = {
            i: naive.NORMS[self.norm](column)
            for i, column in zip(self.ids.tolist(), self.matrix.T.tolist(), strict=False)
        }
        if comm.root or exchange == "alltoall":
            columns = self.matrix.tolist() if len(self.ids) else [[] for _ in self.matrix]
            selected = naive.select(columns, self.ids.tolist(), self.norm, self.k, self.threshold)[0]
            expected = [by_id[i] if i in selected else 0.0 for i in got.index.tolist()]
            assert got.norm.tolist() == expected, exchange
        found = sorted(norm for norm in by_id.values() if norm > 0)
        edges = sorted({float(np.uint64(np.float64(n).view(np.uint64) >> 50 << 50).view(np.float64)) for n in found})
        assert got.profile == tuple((edge, sum(norm >= edge for norm in found)) for edge in edges), exchange

    def _rows(self, shards: np.ndarray) -> SparseVectors:
        if len(shards):
            states = [array[shards] for array in self.state]
            return sparse(self.matrix[shards], self.ids, np.random.default_rng(0), states)._replace(shard=shards)
        none = np.zeros(0, dtype=np.int64)
        nothing = SparseVectors(none, np.zeros(1, dtype=np.int64), none.astype(np.uint64), none.astype(np.float64))
        return nothing._replace(state=(np.zeros(0),) * len(self.state))


def random_task(seed: int) -> Task:
    """Every other one of few values, so that most norms tie; every third with all columns on the first rank or two."""
    generator = np.random.default_rng(seed)
    shards, features = generator.integers(1, 9), generator.integers(0, 40)
    matrix = generator.normal(size=(shards, features)) * 10.0 ** generator.integers(-8, 8, size=(shards, features))
    if seed % 2:
        matrix = generator.choice([-2.0, -1.0, 0.1, 1.0, 2.0], size=(shards, features))
    matrix[generator.random(matrix.shape) < generator.random()] = 0.0
    ids = generator.integers(0, 2**64, features, dtype=np.uint64) >> np.uint64(2 if seed % 3 == 0 else 0)
    assert len(np.unique(ids)) == features
    norm = generator.choice(["", *NORMS])
    k = int(generator.integers(1, 40)) if generator.random() < 0.7 else None
    threshold = None if k else float(generator.choice([0.0, 0.1, 1.0, 2.0]))
    mixing = str(generator.choice(["active", "uniform"]))
    state = tuple(random_state(matrix, generator)[: generator.integers(0, 4)])
    return Task(matrix, np.sort(ids), str(norm), k, threshold, mixing, state)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([1, 12, 2**24]))
def test_both_exchanges_give_the_bits_of_the_plain_twins(seed: int, ranks: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked, "CHUNK", chunk)
        on_ranks(ranks, lambda comm: random_task(seed).check(comm, seed))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_ties_across_ranks_go_to_the_smaller_ids(ranks: int, norm: str) -> None:
    ids = np.sort(np.random.default_rng(ranks).integers(0, 2**64, 30, dtype=np.uint64))
    matrix = np.ones((3, 30))
    matrix[:, 20] = 2.0
    for k in (1, 2, 17, 29, 30, 31):
        task = Task(matrix, ids, norm, k, None)
        if norm not in ("l0", "lplp-l0") and k < 30:
            assert task.expected().index.tolist() == sorted([ids[20], *np.delete(ids, 20)[: k - 1]])
        on_ranks(ranks, lambda comm, task=task: task.check(comm, 1))  # type: ignore[misc]


def test_no_rank_holds_all_columns_without_a_centre() -> None:
    """What a rank mixes is about its share; all rows of it, though."""
    ids = np.sort(np.random.default_rng(1).integers(0, 2**64, 3000, dtype=np.uint64))
    held: dict[int, tuple[int, int]] = {}

    def run(comm: Comm) -> None:
        def mix(vectors: SparseVectors, over: Comm) -> Mixed:
            held[comm.rank] = len(vectors.shard), len(vectors.index)
            return mean(vectors, over)

        shards = np.array([comm.rank])
        mine = SparseVectors(shards, np.array([0, 3000]), ids, np.ones(3000))
        reduce(comm, mine, mix, exchange="alltoall", memory=AMPLE)

    on_ranks(3, run)
    assert [shards for shards, _ in held.values()] == [3] * 3
    assert sum(entries for _, entries in held.values()) == 9000
    assert max(entries for _, entries in held.values()) < 3300


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_auto_takes_the_centre_up_to_its_share_of_memory(
    ranks: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And all ranks take the same, where it is too much on one of them only."""
    enough = round(5 * ranks * BYTES_PER_WEIGHT / MEMORY_SHARE) * ranks

    for name in EXCHANGES:
        monkeypatch.setitem(EXCHANGES, name, lambda *_, name=name: name)

    def choices(comm: Comm) -> list[Any]:
        mine = SparseVectors(np.array([comm.rank]), np.array([0, 5]), np.arange(5, dtype=np.uint64), np.ones(5))
        memories = enough, enough - 1, enough - (comm.rank == comm.size - 1)
        return [reduce(comm, mine, mean, exchange="auto", memory=memory) for memory in memories]

    caplog.set_level("INFO")
    assert on_ranks(ranks, choices) == [["allgather", "alltoall", "alltoall"]] * ranks
    assert caplog.messages == ["exchange by alltoall: allgather would need 0.0 GB per rank"] * 2 * ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_auto_takes_the_centre_while_that_is_quick(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EXCHANGES:
        monkeypatch.setitem(EXCHANGES, name, lambda *_, name=name: name)

    def choice(comm: Comm) -> Any:
        mine = SparseVectors(np.array([comm.rank]), np.array([0, 5]), np.arange(5, dtype=np.uint64), np.ones(5))
        return reduce(comm, mine, mean, exchange="auto", memory=AMPLE)

    monkeypatch.setattr(reduction, "MAX_ROOT_WEIGHTS", 5 * ranks)
    assert on_ranks(ranks, choice) == ["allgather"] * ranks
    monkeypatch.setattr(reduction, "MAX_ROOT_WEIGHTS", 5 * ranks - 1)
    assert on_ranks(ranks, choice) == ["allgather" if ranks == 1 else "alltoall"] * ranks


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_bits_are_the_same_under_mpirun(ranks: int) -> None:
    done = mpirun(ranks, ["-m", "mpi4py", __file__])
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"passed-\d/\d", done.stdout)) == [f"passed-{rank}/{ranks}" for rank in range(ranks)]


def _run() -> None:
    """One rank's part of the test above."""
    comm = connect()
    for seed in range(12):
        # At first few elements a call, so that most arrays take several.
        chunked.CHUNK = 40 if seed < 4 else 2**24
        random_task(seed).check(comm, seed)
    print(f"passed-{comm.rank}/{comm.size}", flush=True)


if __name__ == "__main__":
    _run()
