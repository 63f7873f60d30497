"""The order in which shards are given out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from mpitune.training import scheduler


def test_the_longest_shard_is_given_out_first() -> None:
    """By the time that it took, else by its words."""
    run = cast(Any, SimpleNamespace(corpus=SimpleNamespace(source_ptr=np.array([0, 2, 3, 9, 10]))))
    shards = [np.array([1]), np.array([0, 3]), np.array([2])]
    assert scheduler._longest_first(run, shards, ()) == [2, 1, 0]
    assert scheduler._longest_first(run, shards, (3.0, 5.0, 4.0)) == [1, 2, 0]
