"""Lists accumulated over the epochs of a batch method."""

from __future__ import annotations

import pytest
from support.batch_lists import IDS, pool, statistics_of

from mpitune.learner.pool import NBestPool, empty, merged, pool_of


def contents(pool: NBestPool) -> list[list[tuple[dict[int, float], list[int]]]]:
    entries = []
    for j in range(len(pool.fingerprint)):
        row = slice(pool.feature_ptr[j], pool.feature_ptr[j + 1])
        ids = pool.feature_id[pool.feature[row]].tolist()
        entries.append((dict(zip(ids, pool.value[row].tolist(), strict=True)), pool.statistics[j].tolist()))
    return [entries[a:b] for a, b in zip(pool.sentence_ptr[:-1], pool.sentence_ptr[1:], strict=True)]


@pytest.mark.kernel
def test_a_pool_has_each_entry_once_and_the_first_first() -> None:
    a, b, c = (
        ([1.0, 2.0], statistics_of([1] * 4)),
        ([1.0, 2.0], statistics_of([2] * 4)),
        ([3.0], statistics_of([1] * 4)),
    )
    old, new = pool([[a, b, a], [c]]), pool([[c, b], [c, b]])
    named = {"a": ({30: 1.0, 10: 2.0}, a[1]), "b": ({30: 1.0, 10: 2.0}, b[1]), "c": ({30: 3.0}, c[1])}
    assert contents(old) == [[named["a"], named["b"]], [named["c"]]]
    assert contents(merged(old, new)) == [[named["a"], named["b"], named["c"]], [named["c"], named["b"]]]
    assert contents(merged(empty(2), old)) == contents(old)
    assert contents(merged(empty(0), pool_of([], IDS))) == []
