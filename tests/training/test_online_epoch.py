"""What a rank's shards have learned, on its way to the exchange."""

from __future__ import annotations

import tracemalloc

import numpy as np

from mpitune.run_folder.checkpoint import ShardResult
from mpitune.training.online_epoch import _stacked
from mpitune.training.state import State

NOTHING = State(shared_weights=(np.zeros(0, dtype=np.uint64), np.zeros(0)))


def test_what_an_epoch_adds_to_what_learners_keep() -> None:
    """Totals less those that the epoch began with; a feature that is new began with 0."""
    state = State(shared_weights=(np.array([9, 4], dtype=np.uint64), np.ones(2)), learner=(np.array([5.0, 2.0]),))
    index = np.array([4, 7, 9], dtype=np.uint64)
    result = ShardResult(1, index, np.ones(3), {}, learner=(np.array([2.5, 3.0, 5.0]),))
    assert [added.tolist() for added in _stacked(state, [result], 1).state] == [[0.5, 3.0, 0.0]]


def test_vectors_are_held_once() -> None:
    tracemalloc.start()
    results = [
        ShardResult(z, np.arange(z * 1000, dtype=np.uint64), np.full(z * 1000, z / 4), {"gold": z}, [f"name {z}"])
        for z in (0, 3, 50, 7)
    ]
    before = tracemalloc.get_traced_memory()[0]
    stacked = _stacked(NOTHING, results, 0)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after < before + 10000 < 2 * before
    assert stacked.shard.tolist() == [0, 3, 50, 7] and stacked.ptr.tolist() == [0, 0, 3000, 53000, 60000]
    for z, row in zip((3, 50, 7), range(1, 4), strict=True):
        entries = slice(stacked.ptr[row], stacked.ptr[row + 1])
        assert np.array_equal(stacked.index[entries], np.arange(z * 1000, dtype=np.uint64))
        assert stacked.value[entries].tolist() == [z / 4] * (z * 1000)
    assert [(each.shard, each.statistics["gold"], each.names) for each in results] == [
        (z, z, [f"name {z}"]) for z in (0, 3, 50, 7)
    ]
    assert all(len(each.index) == len(each.value) == 0 for each in results)


def test_a_rank_without_shards() -> None:
    stacked = _stacked(NOTHING, [], 2)
    assert stacked.ptr.tolist() == [0] and stacked.shard.dtype == np.int64
    assert [len(added) for added in stacked.state] == [0, 0]
    assert (len(stacked.index), stacked.index.dtype, stacked.value.dtype) == (0, np.uint64, np.float64)
