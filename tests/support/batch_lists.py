"""Made-up lists of k-best entries for batch learners, and their optimisation in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import strategies as st
from support import naive

from mpitune.learner.base import BatchLearner, OptimizerResult, Reply, ShardObjective
from mpitune.learner.pool import NBestPool, empty, merged, pool_of

IDS = np.array([30, 10, 20, 40], dtype=np.uint64)
"""Feature ids by slot; a pool has them in ascending order."""


def statistics_of(matches: Sequence[int], length: int = 12, reference: int = 12) -> list[int]:
    """Those of a translation with so many matches of each order."""
    return [*matches, *(length - n for n in range(4)), length, reference, reference]


def pool(lists: Sequence[Sequence[tuple[Sequence[float], Sequence[int]]]]) -> NBestPool:
    """Lists of entries as feature values, one a slot, and statistics."""
    made, width = [], max(len(row) for entries in lists for _, row in entries)
    for entries in lists:
        rows = [{slot: float(value) for slot, value in enumerate(values)} for values, _ in entries]
        kbest = naive.kbest_of([[1]] * len(entries), rows)
        made.append((kbest, np.array([row for _, row in entries], dtype=np.int64).reshape(-1, width)))
    return merged(empty(len(lists), width), pool_of(made, IDS))


def part_of(learner: BatchLearner, pool: NBestPool) -> ShardObjective:
    place = np.searchsorted(np.sort(IDS), pool.feature_id)
    return learner.shard_objective(pool, place, lambda s: np.random.default_rng(s))


def optimise(
    learner: BatchLearner, pools: Sequence[NBestPool], weights: Sequence[float], free: Sequence[bool] = (True,) * 4
) -> OptimizerResult:
    parts = [part_of(learner, pool) for pool in pools]

    def ask(question: np.ndarray) -> Iterator[Reply]:
        return (part.evaluate(question) for part in parts)

    return learner.optimise(np.array(weights), np.array(free), ask, np.random.default_rng(1))


values = st.lists(st.integers(-8, 8).map(float), min_size=4, max_size=4)


entry = st.tuples(values, st.lists(st.integers(0, 9), min_size=4, max_size=4).map(statistics_of))


lists_of_entries = st.lists(st.lists(entry, min_size=1, max_size=6), min_size=1, max_size=3)


def ranking(seed: int, planted: np.ndarray) -> NBestPool:
    """Lists whose gold scores are in the order of x . ``planted`` (features by ascending ids)."""
    random = np.random.default_rng(seed)
    lists = []
    for _ in range(20):
        x = random.normal(size=(30, 4))
        order = np.argsort(np.argsort(x[:, [1, 2, 0, 3]] @ planted)).tolist()
        matches = [[4 + order[j] - n for n in range(4)] for j in range(30)]
        lists.append([(x[j].tolist(), statistics_of(matches[j], 34, 34)) for j in range(30)])
    return pool(lists)
