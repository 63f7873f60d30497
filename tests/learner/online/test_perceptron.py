from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support import naive
from support.online_learners import SIZE, averaged, perceptron_learner, random_list

from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import KBest
from mpitune.errors import UsageError
from mpitune.learner.online.columns import columns_of
from mpitune.learner.online.evidence import PRIOR, SPARSE_STEP
from mpitune.learner.online.gram import fill_gram
from mpitune.learner.weights import Weights

pytestmark = pytest.mark.kernel


def twin_of(**options: Any) -> naive.Perceptron:
    return naive.Perceptron(SIZE, step=SPARSE_STEP, prior=PRIOR, **options)


def both(
    lists: Sequence[tuple[KBest, np.ndarray]], start: np.ndarray, pairs: str = "multipartite", **options: Any
) -> tuple[np.ndarray, np.ndarray, int]:
    """The weights that a shard of ``lists`` ends with, ours and the plain twin's, and how many updates there were."""
    ours, theirs = start.copy(), start.copy()
    perceptron, twin = perceptron_learner(pairs=pairs, **options), twin_of(**options)
    random = np.random.default_rng(0)
    perceptron.start_shard(ours)
    total = 0
    for kbest, gold in lists:
        counts = perceptron.update(kbest, gold, ours, random)
        compared = naive.everything(gold) if pairs == "all" else naive.multipartite(gold, 0.1, False)
        updates = twin.update(naive.dense(kbest, SIZE), compared, gold, theirs)
        assert counts[:2] == (len(compared), updates)
        total += updates
    perceptron.end_shard(ours)
    twin.end_shard(theirs)
    return ours, theirs, total


CASES: list[dict[str, Any]] = [
    {},
    {"margin": 0.7},
    {"scale_by_gold": True},
    {"rate": "adagrad"},
    {"rate": "adadelta"},
    {"rate": "adadelta", "margin": 0.1, "l2": 0.5, "scale_by_gold": True},
    {"l2": 0.3},
    {"l2": 400.0},  # weights shrink to nothing within a list, and change sign
    {"l1": 0.05},
    {"l1": 0.02, "l2": 0.1, "rate": "adagrad", "margin": 0.2},
    {"frozen": (1, 4, 7, 9, 12, 20)},
    {"frozen": (0, 2, 3, 5, 11, 21), "l1": 0.02, "l2": 0.2},
    {"frozen": (0, 2, 3, 5, 11, 21), "rate": "adadelta", "l1": 0.02},
    {"pairs": "all"},
    {"margin": 2.0, "margin_by_gold": True},
    {"margin": 2.0, "margin_by_gold": True, "rate": "adagrad", "l2": 0.3},
    {"margin_by_gold": True},
]


@pytest.mark.parametrize("order", ["sequential", "sentence"])
@pytest.mark.parametrize("options", CASES, ids=str)
def test_weights_are_those_of_the_definition(options: dict[str, Any], order: str) -> None:
    random = np.random.default_rng(11)
    lists = [random_list(random, k) for k in (12, 20, 0, 1, 2, 3, 15, 9)]
    start = random.normal(size=SIZE) * (random.random(SIZE) < 0.7)
    for weights in (np.zeros(SIZE), start):
        ours, theirs, updates = both(lists, weights, learning_rate=0.05, order=order, **options)
        assert updates > 0
        assert ours == pytest.approx(theirs, abs=1e-9, rel=1e-9)
        frozen = list(options.get("frozen", ()))
        assert (ours[frozen] == weights[frozen]).all()


NORMALIZED: list[dict[str, Any]] = [
    {},
    {"margin": 0.7},
    {"margin": 2.0, "margin_by_gold": True, "pairs": "all"},
    {"first_sparse": SIZE},
    {"first_sparse": 12, "margin": 2.0, "margin_by_gold": True},
    {"first_sparse": 12, "scale_by_gold": True, "frozen": (0, 2, 3, 13, 14, 21)},
    {"first_sparse": 12, "l1": 0.02},
    {"first_sparse": 12, "l1": 0.02, "l2": 0.2, "frozen": (0, 2, 3, 13, 14, 21)},
]


@pytest.mark.parametrize("options", NORMALIZED, ids=str)
def test_the_normalized_rate_is_that_of_the_definition(options: dict[str, Any]) -> None:
    """The weights and the state, over two passes, the second of which goes on from the state of the first."""
    random = np.random.default_rng(20)
    lists = [random_list(random, k) for k in (12, 20, 0, 1, 2, 3, 15, 9)]
    options = {"learning_rate": 0.05, "rate": "normalized", "order": "sentence", **options}
    pairs = options.pop("pairs", "multipartite")
    start = random.normal(size=SIZE) * (random.random(SIZE) < 0.7)
    for weights in (np.zeros(SIZE), start):
        ours, theirs = weights.copy(), weights.copy()
        perceptron, twin = perceptron_learner(pairs=pairs, **options), twin_of(**options)
        state: tuple[np.ndarray, ...] = ()
        total = 0
        for passes in (0, 3):
            perceptron.start_shard(ours, state, passes)
            twin.start_shard(theirs, state, passes)
            for kbest, gold in lists:
                counts = perceptron.update(kbest, gold, ours, random)
                compared = naive.everything(gold) if pairs == "all" else naive.multipartite(gold, 0.1, False)
                assert counts[:2] == (len(compared), twin.update(naive.dense(kbest, SIZE), compared, gold, theirs))
                total += counts.updates
                assert ours == pytest.approx(theirs, abs=1e-9, rel=1e-9)
            state = perceptron.end_shard(ours)
            twin.end_shard(theirs)
            assert ours == pytest.approx(theirs, abs=1e-9, rel=1e-9)
            assert len(state) == 4
            for mine, array in zip(state, (twin.squares, twin.sums, twin.sizes, twin.lists), strict=True):
                assert mine == pytest.approx(array, abs=1e-9, rel=1e-9) and mine.any()
        assert total > 0
        frozen = list(options.get("frozen", ()))
        assert (ours[frozen] == weights[frozen]).all() and not any(array[frozen].any() for array in state)


def test_what_was_learned_from_small_differences_shrinks_when_they_grow() -> None:
    """Or the first lists, if they hardly differ in a feature, give it a weight that later ones do not undo."""
    perceptron = perceptron_learner(
        rate="normalized", order="sentence", learning_rate=0.5, margin=1.0, first_sparse=SIZE
    )
    weights, random = np.append([0.25], np.zeros(SIZE - 1)), np.random.default_rng(0)
    perceptron.start_shard(weights)
    found = []
    for better, worse, gold in ((0.0, 0.125, [1.0, 0.0]), (16.0, 0.0, [0.5, 0.5]), (8.0, -8.0, [0.75, 0.5])):
        kbest = naive.kbest_of([[1], [2]], [{0: better, 1: 0.5}, {0: worse, 1: -0.5}])
        perceptron.update(kbest, np.array(gold), weights, random)
        found.append(weights[0])
    # A step of 0.5 in units of 1/8; no pair; the step in the unit of both lists that have one, then the second step.
    assert found[0] == found[1] == 0.25 - 0.5 * 8
    unit = ((0.125**2 + 16**2) / 2) ** 0.5
    shrunk = 0.25 - 0.5 * 8 * 0.125 / unit
    assert found[2] == pytest.approx(shrunk + 0.5 * 16 / unit / unit / (1 + (16 / unit) ** 2) ** 0.5)


FACTORS = 2.0 ** np.random.default_rng(21).integers(-7, 11, SIZE)


def scaled(kbest: KBest) -> KBest:
    """Each feature times its own factor."""
    return kbest._replace(feature_value=kbest.feature_value * FACTORS[kbest.feature_index])


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("rate", ["normalized", "adagrad"])
def test_scales_of_features_do_not_matter_to_the_normalized_rate(rate: str, averages: bool) -> None:
    """Powers of 2, so that nothing is rounded: model scores keep all their bits. Adagrad minds."""
    random = np.random.default_rng(22)
    lists = [random_list(random, k) for k in (12, 20, 2, 15, 9, 17, 14, 16, 18)]
    options = {"rate": rate, "order": "sentence", "margin": 1.0, "margin_by_gold": True, "learning_rate": 0.05}

    def scores(change: Any) -> list[np.ndarray]:
        perceptron = perceptron_learner(first_sparse=12, **options)
        perceptron = averaged(perceptron) if averages else perceptron
        weights, found = np.zeros(SIZE), []
        state: tuple[np.ndarray, ...] = ()
        for _ in range(2):
            perceptron.start_shard(weights, state)
            for kbest, gold in lists:
                perceptron.update(change(kbest), gold, weights, random)
                found.append(naive.dense(change(kbest), SIZE) * weights)
            state = perceptron.end_shard(weights)
        assert weights[:12].any() and weights[12:].any()
        return [*found, *(naive.dense(change(kbest), SIZE) * weights for kbest, _ in lists)]

    plain, other = scores(lambda kbest: kbest), scores(scaled)
    same = [(a == b).all() for a, b in zip(plain, other, strict=True)]
    assert all(same) if rate == "normalized" else not any(same[1:])


def test_scales_that_round_matter_no_more_than_that() -> None:
    random = np.random.default_rng(23)
    lists = [random_list(random, k) for k in (12, 20, 2, 15, 9, 17)]
    options = {"rate": "normalized", "order": "sentence", "margin": 1.0, "margin_by_gold": True, "learning_rate": 0.05}
    found = []
    for factor in (1.0, 0.01, 100.0, 1000.0):
        perceptron, weights = perceptron_learner(first_sparse=12, **options), np.zeros(SIZE)
        perceptron.start_shard(weights)
        for kbest, gold in lists:
            perceptron.update(kbest._replace(feature_value=kbest.feature_value * factor), gold, weights, random)
        found.append(weights * factor)
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=1e-12, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "order"),
    [(rate, order) for rate in ("constant", "adagrad") for order in ("sequential", "sentence")],
)
def test_two_passes_with_what_is_kept_are_one(rate: str, order: str) -> None:
    """In all bits; where it is forgotten they are not, but for the constant rate, which keeps nothing.

    The normalized rate shrinks what was learned in a pass as units grow, so that it matters where a pass begins.
    """
    random = np.random.default_rng(24)
    lists = [random_list(random, k) for k in (12, 20, 0, 2, 15, 9)]
    ends = {}
    for passes in ("one", "kept", "forgotten"):
        perceptron, weights = (
            perceptron_learner(rate=rate, order=order, learning_rate=0.1, first_sparse=12),
            np.zeros(SIZE),
        )
        perceptron.start_shard(weights)
        for n, (kbest, gold) in enumerate(lists):
            if n == 3 and passes != "one":
                state = perceptron.end_shard(weights)
                assert len(state) == len(perceptron.learner.state)
                before = [array.copy() for array in state]
                perceptron.start_shard(weights, state if passes == "kept" else ())
            perceptron.update(kbest, gold, weights, random)
        ends[passes] = weights, perceptron.end_shard(weights)
        if passes == "kept":
            assert all((a == b).all() for a, b in zip(state, before, strict=True)), "what was handed over is left alone"
    for one, kept in zip(ends["one"][1], ends["kept"][1], strict=True):
        assert (one == kept).all()
    assert (ends["one"][0] == ends["kept"][0]).all()
    assert (ends["one"][0] != ends["forgotten"][0]).any() == (rate != "constant")


@pytest.mark.parametrize("order", ["sequential", "sentence"])
@pytest.mark.parametrize("margin", [0.0, 2.0])
def test_whole_numbers_leave_no_rounding(order: str, margin: float) -> None:
    """With counts as features and a power of two as rate even margins of exactly 0 are judged alike."""
    random = np.random.default_rng(12)
    lists = [random_list(random, k, whole=True) for k in (12, 18, 5, 20)]
    ours, theirs, _ = both(lists, np.zeros(SIZE), learning_rate=0.125, order=order, margin=margin)
    assert (ours == theirs).all()


def test_an_update_of_a_single_pair() -> None:
    """w.d = 0 is an update; sequential and sentence order agree on a single pair."""
    kbest = naive.kbest_of([[1], [2]], [{0: 1.0, 3: 2.0}, {0: 4.0, 5: 1.0}])
    for order in ("sequential", "sentence"):
        perceptron, weights = perceptron_learner(learning_rate=0.5, order=order), np.zeros(SIZE)
        perceptron.start_shard(weights)
        assert perceptron.update(kbest, np.array([0.0, 1.0]), weights, np.random.default_rng(0))[:2] == (1, 1)
        assert {slot: weights[slot] for slot in np.flatnonzero(weights)} == {0: 1.5, 3: -1.0, 5: 0.5}
        assert perceptron.update(kbest, np.array([0.0, 1.0]), weights, np.random.default_rng(0))[:2] == (1, 0)


@pytest.mark.parametrize("preferred", [0, 1])
def test_a_feature_more_makes_a_difference(preferred: int) -> None:
    kbest = naive.kbest_of([[1], [2]], [{0: 1.0}, {0: 1.0, 5: 2.0}])
    perceptron, weights = perceptron_learner(learning_rate=0.5), np.zeros(SIZE)
    perceptron.start_shard(weights)
    assert perceptron.update(kbest, np.eye(2)[preferred], weights, np.random.default_rng(0))[:2] == (1, 1)
    assert weights[5] == (1.0 if preferred == 1 else -1.0)


def test_orders_differ_where_a_pair_sees_what_the_one_before_it_did() -> None:
    # Three entries along one feature: after the first pair the others are right already.
    kbest = naive.kbest_of([[1], [2], [3]], [{0: 3.0}, {0: 2.0}, {0: 1.0}])
    moved = {}
    for order in ("sequential", "sentence"):
        perceptron, weights = perceptron_learner(learning_rate=1.0, order=order), np.zeros(SIZE)
        perceptron.start_shard(weights)
        counts = perceptron.update(kbest, np.array([0.9, 0.5, 0.1]), weights, np.random.default_rng(0))
        moved[order] = (counts.pairs, counts.updates, weights[0])
    assert moved == {"sequential": (3, 1, 1.0), "sentence": (3, 3, 4.0)}


@pytest.mark.parametrize("options", [{}, {"order": "sentence"}, {"rate": "adagrad"}, {"margin": 1.0}], ids=str)
def test_equal_vectors_are_pairs_but_not_updates(options: dict[str, Any]) -> None:
    kbest = naive.kbest_of([[1], [2]], [{0: 1.0, 4: 0.1, 6: 0.0}, {0: 1.0, 2: 0.0, 4: 0.1}])
    different_where_frozen = naive.kbest_of([[1], [2]], [{0: 1.0, 9: 1.0}, {0: 1.0, 9: 5.0}])
    perceptron, weights = perceptron_learner(frozen=[9], **options), np.zeros(SIZE)
    weights[9] = 1.0
    perceptron.start_shard(weights)
    for each in (kbest, different_where_frozen):
        assert perceptron.update(each, np.array([1.0, 0.0]), weights, np.random.default_rng(0))[:2] == (1, 0)
    assert np.flatnonzero(weights).tolist() == [9]


@pytest.mark.parametrize("order", ["sequential", "sentence"])
@pytest.mark.parametrize("scale_by_gold", [False, True])
def test_shared_features_stay_exactly_zero(order: str, scale_by_gold: bool) -> None:
    """Slot 0 is the same in all rows, slot 1 in all but the last, which no update touches: rounding must not show."""
    random = np.random.default_rng(13)
    for _ in range(20):
        rows: list[naive.Row] = [{0: 0.1, 1: 0.7, 2: float(random.normal()), 3: 0.3} for _ in range(10)]
        rows[9] |= {1: 1.3, 4: -100.0}  # far behind, as its gold score is
        gold = np.append(random.permutation(9) / 9 + 0.1, 0.0)
        perceptron = perceptron_learner(order=order, scale_by_gold=scale_by_gold, pairs="all", learning_rate=0.1)
        weights = np.zeros(SIZE)
        weights[4] = 1.0
        perceptron.start_shard(weights)
        assert perceptron.update(naive.kbest_of([[1]] * 10, rows), gold, weights, random).updates > 0
        assert np.flatnonzero(weights).tolist() == [2, 4]


def test_counts_that_add_up_to_0_move_nothing() -> None:
    """A gradient of exactly 0, divided by the pairs: what rounding left of it would be a whole step of its feature."""
    random = np.random.default_rng(19)
    seen = 0
    for _ in range(300):
        kbest, gold = random_list(random, 10, whole=True)
        pairs, x = naive.everything(gold), naive.dense(kbest, SIZE)
        perceptron, weights = perceptron_learner(pairs="all", rate="normalized", order="sentence"), np.zeros(SIZE)
        perceptron.start_shard(weights)
        perceptron.update(kbest, gold, weights, random)
        still = sum((x[a] - x[b] for a, b in pairs), np.zeros(SIZE)) == 0
        seen += int(np.count_nonzero(still & (x != x[0]).any(axis=0)))
        assert not weights[still].any()
    assert seen > 50


def test_rounding_of_a_feature_is_no_difference() -> None:
    """A count times a factor, summed over the rules of derivations in other orders: rounding must not become a unit."""
    random = np.random.default_rng(25)
    parts = [[0.1] * 3 + [0.3] * 3, [0.3] * 3 + [0.1] * 3, [0.3, 0.1] * 3]
    lists: list[tuple[list[naive.Row], np.ndarray]] = []
    for n in range(6):
        # Feature 0 differs by rounding in the first three lists, and by whole steps, 0.3, in the others.
        sums = [sum(parts[j % 3]) + (0.3 * (j % 4) if n > 2 else 0.0) for j in range(12)]
        assert n > 2 or 0 < max(sums) - min(sums) < 1e-15
        rows: list[naive.Row] = [{0: value, 1: float(random.normal()), 2: 1.0} for value in sums]
        lists.append((rows, random.permutation(12) / 12))
    options: dict[str, Any] = {"rate": "normalized", "order": "sentence", "margin": 1.0, "learning_rate": 0.05}
    options["first_sparse"] = SIZE

    def learned(digits: int, number: int) -> np.ndarray:
        perceptron, weights = perceptron_learner(pairs="all", **options), np.zeros(SIZE)
        perceptron.start_shard(weights)
        for rows, gold in lists[:number]:
            rounded: list[naive.Row] = [row | {0: round(row[0], digits)} for row in rows]
            perceptron.update(naive.kbest_of([[1]] * 12, rounded), gold, weights, random)
        return weights

    assert learned(20, 3)[0] == 0.0 != learned(20, 3)[1]
    assert learned(20, 6) == pytest.approx(learned(9, 6), rel=1e-9)
    assert 0.0 < abs(learned(20, 6)[0]) < 10.0


def test_weights_may_shrink_to_nothing() -> None:
    """2 l2 learning_rate / P = 1: each update leaves no weight at all, and the next one starts from there."""
    kbest = naive.kbest_of([[1], [2], [3]], [{0: 3.0}, {0: 2.0}, {0: 1.0, 1: 1.0}])
    perceptron, weights = perceptron_learner(learning_rate=0.5, l2=3.0), np.ones(SIZE) * -1
    perceptron.start_shard(weights)
    counts = perceptron.update(kbest, np.array([0.9, 0.5, 0.1]), weights, np.random.default_rng(0))
    assert counts[:2] == (3, 3)
    assert (weights == 0).all()


def test_gradients_too_small_to_square_move_nothing() -> None:
    perceptron, weights = perceptron_learner(rate="adagrad"), np.zeros(SIZE)
    perceptron.start_shard(weights)
    kbest = naive.kbest_of([[1], [2]], [{0: 1e-200}, {}])
    assert perceptron.update(kbest, np.array([1.0, 0.0]), weights, np.random.default_rng(0))[:2] == (1, 1)
    assert not weights.any()


def test_state_belongs_to_a_shard() -> None:
    random = np.random.default_rng(14)
    lists = [random_list(random, 10) for _ in range(4)]
    for options in ({"rate": "adagrad", "l1": 0.01}, {"rate": "adadelta", "l1": 0.01}):
        perceptron = perceptron_learner(learning_rate=0.1, **options)
        results = []
        for _ in range(2):
            weights = np.zeros(SIZE)
            perceptron.start_shard(weights)
            for kbest, gold in lists:
                perceptron.update(kbest, gold, weights, random)
            perceptron.end_shard(weights)
            results.append(weights)
        assert (results[0] == results[1]).all()
        assert results[0].any()


def test_l1_reaches_features_that_were_not_met_at_the_end_of_a_shard() -> None:
    kbest = naive.kbest_of([[1], [2]], [{0: 1.0}, {1: 1.0}])
    perceptron, weights = perceptron_learner(learning_rate=0.5, l1=0.25), np.zeros(SIZE)
    weights[[0, 5, 6, 7]] = 9.0, 9.0, -9.0, 0.2
    perceptron.start_shard(weights)
    for _ in range(4):
        perceptron.update(kbest, np.array([1.0, 0.0]), weights, np.random.default_rng(0))
    assert weights[[0, 5, 6, 7]].tolist() == [8.5, 9.0, -9.0, 0.2]
    perceptron.end_shard(weights)
    assert weights[[0, 1, 5, 6, 7]].tolist() == [8.5, 0.0, 8.5, -8.5, 0.0]


GROWING: list[dict[str, Any]] = [
    {"rate": rate, "l1": l1, "l2": l2, "order": order}
    for rate in ("constant", "adagrad", "adadelta", "normalized")
    for l1, l2 in ((0.0, 0.0), (0.02, 0.0), (0.02, 0.1))
    for order in ("sequential", "sentence")
    if (rate, order) != ("normalized", "sequential")
]


@pytest.mark.parametrize("options", GROWING, ids=str)
def test_features_met_late_learn_as_if_always_known(options: dict[str, Any]) -> None:
    """Slots that come in the middle of a shard, none of which has fired before: the same bits as with room for them."""
    random = np.random.default_rng(18)
    lists = []
    for size in (10, 10, *[17] * 5, 24, SIZE, SIZE):
        rows = [{slot: float(random.normal()) for slot in range(size) if random.random() < 0.3} for _ in range(12)]
        gold = random.integers(0, 12, 12) / 16
        if size > 12:  # one that all lists agree on
            rows = [row | {12: float(score)} for row, score in zip(rows, gold, strict=True)]
        lists.append((naive.kbest_of([[1]] * 12, rows), gold, size))
    all_known = np.zeros(SIZE)
    all_known[:10] = random.normal(size=10)
    growing = all_known[:10].copy()
    results = []
    known = perceptron_learner(frozen=[1, 4], first_sparse=7, learning_rate=0.05, **options)
    met_late = perceptron_learner(frozen=[1, 4], first_sparse=7, size=10, learning_rate=0.05, **options)
    states: list[tuple[np.ndarray, ...]] = [(), ()]
    for _ in range(2):  # The second shard begins with all of them.
        known.start_shard(all_known, states[0])
        met_late.start_shard(growing, states[1])
        for kbest, gold, size in lists:
            growing = np.append(growing, np.zeros(max(size - len(growing), 0)))
            counts = [p.update(kbest, gold, w, random) for p, w in ((known, all_known), (met_late, growing))]
            assert counts[0] == counts[1]
            assert (growing == all_known[: len(growing)]).all()
        states = [known.end_shard(all_known), met_late.end_shard(growing)]
        assert (growing == all_known).all()
        assert all((a == b).all() for a, b in zip(*states, strict=True))
        results.append(growing.copy())
    assert results[0][10:].any() and (results[0] != results[1]).any()
    assert (growing[[1, 4]] == results[0][[1, 4]]).all()


def test_random_pairs_come_from_the_generator() -> None:
    random = np.random.default_rng(15)
    kbest, gold = random_list(random, 30)
    results = []
    for seed in (1, 1, 2):
        perceptron, weights = perceptron_learner(pairs="pro", learning_rate=0.1), np.zeros(SIZE)
        perceptron.start_shard(weights)
        assert perceptron.update(kbest, gold, weights, np.random.default_rng(seed)).pairs == 50
        results.append(weights)
    assert (results[0] == results[1]).all() and (results[0] != results[2]).any()


def test_gram_is_the_inner_products_of_what_is_not_constant() -> None:
    random = np.random.default_rng(16)
    weights = Weights(FeatureTable())
    weights.resize(SIZE)
    weights.frozen[::5] = True
    frozen = weights.frozen
    for k in (1, 2, 7, 25):
        kbest, _ = random_list(random, k)
        columns = columns_of(kbest, weights)
        x = naive.dense(kbest, SIZE)
        assert sorted(columns.slot) == np.flatnonzero((x != 0).any(axis=0) & ~frozen).tolist()
        x = x[:, ~frozen & (x != x[0]).any(axis=0)]
        gram = np.empty((k, k))
        fill_gram(columns, gram)
        assert gram == pytest.approx(x @ x.T, abs=1e-12)
        assert (gram == gram.T).all()
        assert (weights.array("place") == -1).all()


def test_lists_beyond_the_weights_are_refused() -> None:
    perceptron = perceptron_learner()
    perceptron.start_shard(np.zeros(SIZE))
    with pytest.raises(ValueError, match="slot 30"):
        perceptron.update(naive.kbest_of([[1]], [{SIZE: 1.0}]), np.zeros(1), np.zeros(SIZE), np.random.default_rng(0))


def test_the_normalized_rate_needs_the_order_of_sentences() -> None:
    with pytest.raises(
        UsageError, match='learner.rate: found "normalized" with learner.order = "sequential", expected'
    ):
        perceptron_learner(rate="normalized", order="sequential")
