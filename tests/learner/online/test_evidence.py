"""Sparse weights by evidence: what the gradients of all lists agree on, whatever their order and shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support import naive
from support.online_learners import SIZE, OnArrays, averaged, perceptron_learner, random_list

from mpitune.decoder.base import KBest
from mpitune.learner.base import EvidenceLearner
from mpitune.learner.online.evidence import PRIOR, SPARSE_STEP
from mpitune.learner.weights import SparseWeights

pytestmark = pytest.mark.kernel

RATE = 0.5
GOLD = np.array([1.0, 0.0])
State = tuple[np.ndarray, ...]
NONE = (np.zeros(SIZE),) * 4


def learner(**options: Any) -> OnArrays:
    """No pair ever reaches its margin: gradients do not depend on the weights."""
    return perceptron_learner(rate="normalized", order="sentence", learning_rate=RATE, margin=99.0, **options)


def pair(better: naive.Row, worse: naive.Row | None = None) -> KBest:
    return naive.kbest_of([[1], [2]], [better, worse or {}])


def weight(agreement: float, lists: int, passes: int = 1) -> float:
    """By the formula of the module, in the unit of the feature."""
    return SPARSE_STEP * RATE * agreement * lists / (lists + passes * PRIOR)


def learn(lists: Sequence[KBest], weights: np.ndarray, state: State = (), passes: int = 0, **options: Any) -> State:
    perceptron = learner(**options)
    perceptron.start_shard(weights, state, passes)
    for kbest in lists:
        perceptron.update(kbest, GOLD, weights, np.random.default_rng(0))
    return perceptron.end_shard(weights)


@pytest.mark.parametrize("lists", [1, 2, 3, int(PRIOR)])
def test_a_weight_says_how_far_lists_agree(lists: int) -> None:
    """From few of them it is small; a unit of 4 makes it a quarter."""
    weights = np.zeros(SIZE)
    learn([pair({1: 1.0, 2: 4.0, 3: (-1.0) ** n}) for n in range(lists)], weights)
    assert weights[1] == pytest.approx(weight(1.0, lists)) and weights[2] == pytest.approx(weight(1.0, lists) / 4)
    assert abs(weights[3]) == pytest.approx(weight(1 / lists, lists) if lists % 2 else 0.0)
    assert lists % 2 or weights[3] == 0.0


def test_lists_without_an_update_count() -> None:
    """A feature that makes a difference without need is less important than one that is always needed."""
    weights, perceptron = np.zeros(SIZE), learner(frozen=[0])
    weights[0] = 1.0
    perceptron.start_shard(weights)
    for n in range(12):
        # Feature 0 satisfies every second pair.
        better: naive.Row = {1: 1.0, 0: 999.0 if n % 2 else -999.0}
        perceptron.update(pair(better), GOLD, weights, np.random.default_rng(0))
    squares, sums, _, lists = perceptron.end_shard(weights)
    assert (squares[1], sums[1], lists[1]) == (6.0, 6.0, 12.0)
    assert weights[1] == pytest.approx(weight(0.5**0.5, 12))


def settle(
    mixed: np.ndarray, start: np.ndarray, before: State, after: State, passes: int, **options: Any
) -> np.ndarray:
    """All features are sparse and selected."""
    perceptron, ids = learner(**options).learner.learner, np.arange(len(mixed), dtype=np.uint64)
    assert isinstance(perceptron, EvidenceLearner)
    return perceptron.merge(SparseWeights(ids, start, before), SparseWeights(ids, mixed, after), passes)


def test_the_order_of_the_lists_does_not_matter() -> None:
    random = np.random.default_rng(40)
    lists = [pair({s: float(random.choice([-2.0, 2.0, 2.0])) for s in range(8)}) for _ in range(21)]
    forward, backward = np.zeros(SIZE), np.zeros(SIZE)
    learn(lists, forward)
    learn(lists[::-1], backward)
    assert forward == pytest.approx(backward, rel=1e-12) and np.count_nonzero(forward) == 8


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("epochs", [1, 3])
def test_shards_together_know_what_one_would(shards: int, epochs: int) -> None:
    """Their states, added up, give the weights of one shard of all lists; in each shard alone they are others."""
    random = np.random.default_rng(41)
    lists = [pair({s: float(random.choice([-1.0, 1.0, 1.0])) for s in range(6)}) for _ in range(30)]
    # In the first epoch two shards find the opposite of the others in feature 7: their weights are 0 in the second.
    lists[:2], lists[15:17] = [pair({7: 1.0}), pair({7: 1.0})], [pair({7: -1.0}), pair({7: 1.0})]
    alone, start, total, state = np.zeros(SIZE), np.zeros(SIZE), NONE, NONE
    for epoch in range(epochs):
        state = learn(lists, alone, state, epoch)
        results = []
        for z in range(shards):
            weights = start.copy()
            results.append((weights, learn(lists[z::shards], weights, total, epoch)))
        after = tuple(before + sum(result[n] - before for _, result in results) for n, before in enumerate(total))
        mixed = np.mean([weights for weights, _ in results], axis=0)
        start = settle(mixed, start, total, after, epoch + 1)
        assert start == pytest.approx(alone, rel=1e-9) and start[:6].all() and start[7] != 0.0
        assert shards == 1 or np.abs(mixed - start).max() > 0.01
        total = after


def test_a_sum_of_gradients_counts_where_the_weights_of_shards_are_0() -> None:
    """Each of two shards takes back what the state has; together they have learned the opposite."""
    before = tuple(np.array([value]) for value in (1.0, -1.0, 1.0, 1.0))
    after = tuple(np.array([value]) for value in (3.0, 1.0, 3.0, 3.0))
    assert settle(np.zeros(1), np.zeros(1), before, after, 1) == pytest.approx([weight(1 / 3, 3)])


def test_initial_weights_stay_below_what_is_learned() -> None:
    weights, state = np.zeros(SIZE), ()
    weights[1], weights[2] = 0.5, -0.25
    for passes in range(3):
        state = learn([pair({1: 1.0})] * 4, weights, state, passes)
        assert (weights[1], weights[2]) == (pytest.approx(0.5 + weight(1.0, 4)), -0.25)


def test_a_feature_that_was_not_selected_comes_back_with_all_its_evidence() -> None:
    weights = np.zeros(SIZE)
    state = learn([pair({1: 1.0})] * 6, weights)
    weights[1] = 0.0
    learn([pair({1: 1.0})], weights, state)
    assert weights[1] == pytest.approx(weight(1.0, 7))


def test_the_same_sentences_are_no_further_evidence() -> None:
    """Neither to a shard that goes on from its own weights nor after an exchange."""
    lists = [pair({3: (-1.0) ** (n > 5), 4: (-1.0) ** (n > 7)}) for n in range(10)]
    weights, state = np.zeros(SIZE), NONE
    for passes in range(10):
        start, before = weights.copy(), state
        state = learn(lists, weights, before, passes)
        settled = settle(weights, start, before, state, passes + 1)
        for found in (weights, settled):
            assert found[3:5] == pytest.approx([weight(0.2, 10), weight(0.6, 10)])


@pytest.mark.parametrize("options", [{"l1": 0.25}, {"l2": 0.5}, {"l1": 0.1, "l2": 2.0}], ids=str)
def test_regularised_weights_are_the_best_of_the_objective(options: dict[str, float]) -> None:
    """The mean over lists of g w - l1 |w| - l2 w^2 - rms(g) u w^2 / 2c, in the scale of the feature; u: its unit."""
    weights, unit, lists = np.zeros(SIZE), 2.0, 4000
    state = learn([pair({1: unit * (-1.0) ** (n % 4 == 0)}) for n in range(lists)], weights, **options)
    assert state[1][1] / lists == 0.5
    l1, l2, c = options.get("l1", 0.0), options.get("l2", 0.0), SPARSE_STEP * RATE
    point = np.linspace(-1, 3, 400_001)
    objective = unit * 0.5 * point - l1 * np.abs(point) - l2 * point**2 - unit**2 * point**2 / 2 / c
    assert weights[1] == pytest.approx(point[objective.argmax()] * lists / (lists + PRIOR), abs=1e-4)
    weights = np.zeros(SIZE)
    learn([pair({1: unit})] * 20, weights, l1=unit)
    assert weights[1] == 0.0, "a penalty as large as the gradient"


def test_averages_leave_them_as_they_are() -> None:
    """Those of dense features are averaged over the sentences."""
    random = np.random.default_rng(42)
    lists = [random_list(random, k) for k in (12, 9, 15, 2, 14)]
    ends = []
    for each in (learner(first_sparse=12), averaged(learner(first_sparse=12), dense_only=True)):
        weights = np.zeros(SIZE)
        each.start_shard(weights)
        for kbest, gold in lists:
            each.update(kbest, gold, weights, random)
        each.end_shard(weights)
        ends.append(weights)
    plain, mean = ends
    assert plain[12:].any() and (plain[12:] == mean[12:]).all() and (plain[:12] != mean[:12]).any()
