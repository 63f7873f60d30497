"""Averages over the sentences of a pass: those of the definition, whatever the learner does between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import naive
from support.online_learners import SIZE, OnArrays, averaged, mira_learner, perceptron_learner, random_list

pytestmark = pytest.mark.kernel

FROZEN = (0, 11)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"rate": "adagrad", "margin": 0.2},
    {"rate": "normalized", "order": "sentence", "margin": 1.0, "margin_by_gold": True},
    {"l1": 0.02},
    {"l2": 0.3},
    {"rate": "normalized", "order": "sentence", "l1": 0.02, "l2": 0.3},
]


def plain(options: dict[str, Any], size: int) -> OnArrays:
    return perceptron_learner(FROZEN, first_sparse=12, size=size, learning_rate=0.05, **options)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_pass_ends_with_the_mean_of_the_weights_after_each_list(
    options: dict[str, Any], late: bool, passes: int
) -> None:
    """Also where a list changes the weights of features that it does not have, or a pass's end does; the next pass goes
    on from the mean, and from the state that the learner without averages has."""
    random = np.random.default_rng(31)
    sizes = [12, 12, 20, 20, SIZE, SIZE, SIZE] if late else [SIZE] * 7
    lists = []
    for size, k in zip(sizes, (12, 9, 0, 15, 2, 12, 12), strict=True):
        rows = [{slot: float(random.normal()) for slot in range(size) if random.random() < 0.3} for _ in range(k)]
        lists.append((size, naive.kbest_of([[1]] * k, rows), random.integers(0, 12, k) / 16))
    start = random.normal(size=sizes[0])
    inner, ours, theirs = plain(options, sizes[0]), start.copy(), start.copy()
    averages, twin = averaged(plain(options, sizes[0]), changes_all="l2" in options), inner
    state: tuple[np.ndarray, ...] = ()
    for earlier in range(0, 3 * passes, 3):
        averages.start_shard(ours, state, earlier)
        twin.start_shard(theirs, state, earlier)
        after: list[np.ndarray] = []
        for size, kbest, gold in lists:
            ours, theirs = (np.append(w, np.zeros(max(size - len(w), 0))) for w in (ours, theirs))
            assert averages.update(kbest, gold, ours, random) == twin.update(kbest, gold, theirs, random)
            assert (ours == theirs).all(), "inside a pass they are not averaged"
            after.append(theirs.copy())
        state, expected = averages.end_shard(ours), twin.end_shard(theirs)
        assert len(state) == len(expected)
        assert all((a == b).all() for a, b in zip(state, expected, strict=True))
        # What the end of the pass does is done to the weights of the last list.
        after[-1] = theirs.copy()
        assert ours == pytest.approx(naive.averaged(after), abs=1e-12, rel=1e-9)
        assert np.abs(ours - theirs).max() > 1e-3
        frozen = [slot for slot in FROZEN if slot < sizes[0]]
        assert (ours[frozen] == start[frozen]).all()
        theirs = ours.copy()


def test_other_learners_are_averaged_too() -> None:
    random = np.random.default_rng(32)
    lists = [random_list(random, k) for k in (12, 9, 15, 2)]
    learners = averaged(mira_learner(c=0.1)), mira_learner(c=0.1)
    weights, after = [np.zeros(SIZE), np.zeros(SIZE)], []
    for each, w in zip(learners, weights, strict=True):
        each.start_shard(w)
    for kbest, gold in lists:
        for each, w in zip(learners, weights, strict=True):
            each.update(kbest, gold, w, random)
        after.append(weights[1].copy())
    assert learners[0].end_shard(weights[0]) == ()
    assert weights[0] == pytest.approx(naive.averaged(after), abs=1e-12) and (weights[0] != weights[1]).any()


def test_a_pass_over_nothing_changes_nothing() -> None:
    averages, weights = averaged(perceptron_learner()), np.arange(float(SIZE))
    averages.start_shard(weights)
    averages.end_shard(weights)
    assert weights.tolist() == list(range(SIZE))
