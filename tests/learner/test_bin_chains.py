"""Structured regularisation: gradients, the proximal step, and what bins can rank that no line can (CDL14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import check_grad, linprog, minimize
from scipy.sparse import csr_array
from support import naive
from support.learner_options import BLEU, pro_options

from mpitune.corpus.feature_table import FeatureTable
from mpitune.learner.base import Reply
from mpitune.learner.batch.minrisk import MinRisk, MinRiskOptions
from mpitune.learner.batch.pro import Pairs, Pro, ProObjective
from mpitune.learner.bin_chains import Smoothness, linear, monotone, smoothed
from mpitune.learner.online.after_updates import Composed, Smoothing
from mpitune.learner.pool import empty, merged, pool_of
from mpitune.learner.weights import Weights
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.sentence_bleu import bleu_plus_one

WEIGHTS = st.lists(st.floats(-3, 3, width=16), min_size=1, max_size=9).map(np.array)
Penalty = Callable[[np.ndarray], tuple[float, np.ndarray]]
GAMMAS = st.sampled_from([0.5, 1.0, 1.7])


def plainly(weights: Sequence[float], gamma: float | None) -> float:
    """The sum over j of D_j m_j^2, one term after the other; no ``gamma``: D_j = 1."""
    total = 0.0
    for j in range(1, len(weights) - 1):
        m = (weights[j - 1] + weights[j + 1]) / 2 - weights[j]
        r = (weights[j - 1] - weights[j + 1]) / 2
        damping = 1.0 if gamma is None or r == 0 else abs(np.tanh(m / r)) ** (2 * gamma)
        total += damping * m * m
    return float(total)


@given(WEIGHTS, GAMMAS)
def test_penalties_are_those_of_the_definition(weights: np.ndarray, gamma: float) -> None:
    assert linear(weights)[0] == pytest.approx(plainly(weights, None))
    assert monotone(weights, gamma)[0] == pytest.approx(plainly(weights, gamma))
    assert 0 <= monotone(weights, gamma)[0] <= linear(weights)[0] + 1e-12


def _value(penalty: Penalty, weights: np.ndarray) -> float:
    return penalty(weights)[0]


def _gradient(penalty: Penalty, weights: np.ndarray) -> np.ndarray:
    return penalty(weights)[1]


@given(WEIGHTS, GAMMAS)
def test_gradients_against_finite_differences(weights: np.ndarray, gamma: float) -> None:
    penalties: list[Penalty] = [linear, lambda w: monotone(w, gamma)]
    # Where r_j = 0 the damping has no derivative along r_j; far from that it is as smooth as tanh.
    slopes = np.abs(weights[:-2] - weights[2:])
    if (slopes < 0.05).any():
        penalties.pop()
    if gamma == 0.5:
        # |tanh| has a kink where m_j = 0.
        bends = np.abs(weights[:-2] + weights[2:] - 2 * weights[1:-1])
        assume((bends > 0.05).all())
    for penalty in penalties:
        value, gradient = (partial(side, penalty) for side in (_value, _gradient))
        error = check_grad(value, gradient, weights, epsilon=1e-7)
        assert error < 1e-4 * max(1.0, float(np.abs(weights).max()))


@pytest.mark.parametrize("gamma", [0.25, 0.5, 1.0, 3.0])
def test_gradients_are_numbers_everywhere(gamma: float) -> None:
    hard = [[0, 1, 0], [1, 1, 1], [0, 1, 2], [0, 1e-300, 0], [1, 0, 1 + 1e-16], [0, 1e9, 1e-9], [0, 1, 1e-300], [2, 1]]
    for weights in hard:
        value, gradient = monotone(np.array(weights, dtype=float), gamma)
        assert np.isfinite(value) and np.isfinite(gradient).all() and len(gradient) == len(weights)
    # r = 0: a peak costs in full, and the damping has no derivative.
    assert monotone(np.array([0.0, 1.0, 0.0]), gamma) == (1.0, pytest.approx([-1.0, 2.0, -1.0]))


def test_what_costs_and_what_does_not() -> None:
    line, rising, peak = np.arange(5.0), np.array([0.0, 1.0, 4.0, 9.0, 16.0]), np.array([0.0, 1.0, 2.0, 1.0, 0.0])
    assert linear(line)[0] == monotone(line, 1.0)[0] == 0
    assert monotone(peak, 1.0)[0] == linear(peak)[0]
    assert monotone(rising, 1.0)[0] < 0.4 * linear(rising)[0]


@given(WEIGHTS, st.floats(0.001, 100), st.data())
def test_the_proximal_step_is_exact(weights: np.ndarray, beta: float, data: st.DataObject) -> None:
    free = np.array(data.draw(st.lists(st.booleans(), min_size=len(weights), max_size=len(weights))))
    found = smoothed(weights, beta, free)
    assert (found[~free] == weights[~free]).all()
    # The gradient of |v - w|^2 / 2 + beta * penalty vanishes where it may: the problem is convex.
    gradient = found - weights + beta * linear(found)[1]
    assert np.abs(gradient[free]).max(initial=0.0) < 1e-7 * (1 + beta)


@given(WEIGHTS, st.floats(0.01, 10), st.data())
def test_the_monotone_proximal_step_is_a_minimum(weights: np.ndarray, beta: float, data: st.DataObject) -> None:
    """Against the definition: no step in any direction from there is better, nor is the place where it began."""
    free = np.array(data.draw(st.lists(st.booleans(), min_size=len(weights), max_size=len(weights))))
    found = Smoothness([], "monotone", beta, 1.0).proximal(weights, free)
    assert (found[~free] == weights[~free]).all()

    def objective(v: np.ndarray) -> float:
        return float(((v - weights) ** 2).sum() / 2 + beta * plainly(v.tolist(), 1.0))

    least = objective(found)
    assert least <= objective(weights) + 1e-12
    slope = check_slopes(objective, found)[free]
    # At a corner, r_j = 0, there is no slope; elsewhere it is 0.
    if (np.abs(found[:-2] - found[2:]) > 0.05).all():
        assert np.abs(slope).max(initial=0.0) < 1e-3 * (1 + beta)


def check_slopes(objective: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Central differences."""
    steps = 1e-6 * np.eye(len(at))
    return np.array([(objective(at + step) - objective(at - step)) / 2e-6 for step in steps])


def test_the_mean_of_smoothed_shards_is_the_smoothed_mean() -> None:
    random = np.random.default_rng(1)
    shards, free = random.normal(size=(5, 8)), np.ones(8, dtype=np.bool_)
    means = np.mean([smoothed(shard, 0.7, free) for shard in shards], axis=0), smoothed(shards.mean(axis=0), 0.7, free)
    assert means[0] == pytest.approx(means[1])


@pytest.mark.parametrize("regularizer", ["linear", "monotone"])
def test_an_online_learner_is_smoothed_when_a_pass_ends(regularizer: str) -> None:
    said: list[str] = []

    class Inner:
        state = ("kept",)
        changes_all = False

        def start_shard(self, weights: Weights, passes: int = 0) -> None:
            said.append(f"start after {passes} passes")

        def update(self, *_: object) -> None:
            said.append("update")

        def end_shard(self, weights: Weights) -> None:
            said.append("end")
            weights.value[0] = 5.0

    features = FeatureTable()
    features.slots(list("abcde"))
    loaded = Weights(features)
    loaded.value[:] = 1.0, 0.0, 3.0, 0.0, 2.0
    weights, chain = loaded.value, np.array([4, 2, 1, 0])
    smoothness = Smoothness([features.ids[chain]], regularizer, 2.0)
    learner = Composed(Inner(), [Smoothing(smoothness)])
    learner.start_shard(loaded, 3)
    learner.update(None, None, loaded, None)
    assert weights.tolist() == [1, 0, 3, 0, 2]
    learner.end_shard(loaded)
    assert said == ["start after 3 passes", "update", "end"]
    assert learner.state == ("kept",), "what goes on is that of the other learner"
    expected = smoothness.proximal(np.array([2.0, 3.0, 0.0, 5.0]), np.ones(4, np.bool_))
    if regularizer == "linear":
        assert expected.tolist() == smoothed(np.array([2.0, 3.0, 0.0, 5.0]), 2.0, np.ones(4, np.bool_)).tolist()
    assert weights[[4, 2, 1, 0]].tolist() == expected.tolist()
    assert weights[3] == 0


# What PRO makes of it

Pair = tuple[dict[str, float], dict[str, float]]
"""The features of the better and the worse translation."""


def learn(pairs: Sequence[Pair], smoothness: Smoothness | None = None, names: Sequence[str] = ()) -> dict[str, float]:
    """The weights by which PRO tells these pairs apart."""
    names = sorted({*names, *(name for pair in pairs for side in pair for name in side)})
    rows = [[[side.get(name, 0.0) for name in names] for side in pair] for pair in pairs]
    entries, ends = csr_array(np.concatenate(rows)), np.array([0, 2 * len(rows)])
    first = np.arange(0, 2 * len(rows), 2)
    every, ptr = np.arange(entries.shape[0]), entries.indptr.astype(np.int64)
    lists = Pairs(ends // 2, first, first + 1, ends, every, ptr, entries.indices, entries.data)
    part = ProObjective(lists, np.arange(len(names)))
    learner = Pro(pro_options(interpolation=1.0), BLEU, smoothness)
    learner.set_feature_order(np.arange(len(names), dtype=np.uint64))

    def ask(question: np.ndarray) -> Iterator[Reply]:
        return iter([part.evaluate(question)])

    tuned = learner.optimise(np.zeros(len(names)), np.ones(len(names), np.bool_), ask, np.random.default_rng(1))
    return dict(zip(names, tuned.weights.tolist(), strict=True))


def ranked_right(pairs: Sequence[Pair], weights: dict[str, float]) -> int:
    def score(side: dict[str, float]) -> float:
        return sum(weights[name] * value for name, value in side.items())

    return sum(score(better) > score(worse) + 1e-9 for better, worse in pairs)


Rule = float | tuple[str, float]
"""The value of its one feature, which is H where it has no name."""


def named(rule: Rule) -> tuple[str, float]:
    return rule if isinstance(rule, tuple) else ("H", rule)


def total(*rules: Rule) -> dict[str, float]:
    """The sums over a derivation of these rules: the linear model's features."""
    sums: dict[str, float] = {}
    for name, value in map(named, rules):
        sums[name] = sums.get(name, 0.0) + value
    return sums


def bins(*rules: Rule) -> dict[str, float]:
    """The indicators of their bins, added up over the derivation."""
    return {f"{name}_{value:g}": float(rules.count(rule)) for rule in rules for name, value in [named(rule)]}


COLLINEAR = (((1.0, 1.0), (2.0, 2.0)), ((3.0, 3.0), (2.0, 2.0)))
"""CDL14's figure 4: he says over she said, big lion over small kitten; the value of each rule."""
COLLIDING = (((2.0, 2.0), (4.0,)),)
"""Its figure 5: some things over something."""
A1, B1, B4 = ("A", 1.0), ("B", 1.0), ("B", -4.0)
CURVED = (((B1,), (A1, A1)), ((A1, A1, B1), (("A", 0.0),)), ((B4, B1, B1, B1), (A1,)), ((B4, A1), (B1, B1)))
"""Its figure 6: in bins, what tells better from worse is no line in the space of A and B."""
Example = Sequence[tuple[tuple[Rule, ...], ...]]
EXAMPLES = {"collinearity": (COLLINEAR, 1), "collision": (COLLIDING, 0), "a boundary that is no line": (CURVED, 3)}
"""With how many pairs a linear model can rank right."""


@pytest.mark.parametrize(("example", "by_line"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_paper(example: Example, by_line: int) -> None:
    """No weights of the features rank all pairs right; weights of bins do, and PRO finds them."""
    lines = [(total(*better), total(*worse)) for better, worse in example]
    circle = np.linspace(0.0, 2 * np.pi, 361)
    every = [{"H": float(np.cos(x)), "A": float(np.cos(x)), "B": float(np.sin(x))} for x in circle]
    assert max(ranked_right(lines, weights) for weights in every) == by_line
    assert ranked_right(lines, learn(lines)) <= by_line
    in_bins = [(bins(*better), bins(*worse)) for better, worse in example]
    assert ranked_right(in_bins, learn(in_bins)) == len(example)


def planted(count: int, seed: int) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Derivations of two rules with values 0 to 9, the better one first: rules are the better, the nearer to 4."""
    random = np.random.default_rng(seed)
    pairs = []
    while len(pairs) < count:
        one, other = (tuple(random.integers(0, 10, 2).astype(float).tolist()) for _ in range(2))
        distance = [sum((value - 4) ** 2 for value in side) for side in (one, other)]
        if distance[0] != distance[1]:
            pairs.append((one, other) if distance[0] < distance[1] else (other, one))
    return pairs


def test_a_planted_response_that_rises_and_falls() -> None:
    train, test = planted(400, 1), planted(200, 2)

    def right(kind: Callable[..., dict[str, float]], smoothness: Smoothness | None = None) -> float:
        pairs = [[(kind(*better), kind(*worse)) for better, worse in part] for part in (train, test)]
        return ranked_right(pairs[1], learn(pairs[0], smoothness)) / len(test)

    chain = [np.arange(10, dtype=np.uint64)]
    assert right(total) < 0.75
    assert right(bins) > 0.97
    assert right(bins, Smoothness(chain, "linear", 0.001)) > 0.95
    # What is monotone only would lose the peak, were it not for the data.
    assert right(bins, Smoothness(chain, "monotone", 0.001)) > 0.95


def test_smooth_weights_bridge_bins_that_were_never_seen() -> None:
    """By a penalty, and by nothing else, a bin between two others gets a weight between theirs."""
    pairs = [(bins(*better), bins(*worse)) for better, worse in planted(400, 1) if 6.0 not in (*better, *worse)]
    names = [f"H_{n}" for n in range(10)]
    assert learn(pairs, None, names)["H_6"] == 0
    for kind in ("linear", "monotone"):
        found = learn(pairs, Smoothness([np.arange(10, dtype=np.uint64)], kind, 0.1), names)
        assert found["H_7"] < found["H_6"] < found["H_5"]


def test_stronger_is_smoother() -> None:
    pairs = [(bins(*better), bins(*worse)) for better, worse in planted(300, 3)]
    chain = [np.arange(10, dtype=np.uint64)]

    def bend(kind: str, beta: float) -> float:
        return linear(np.array(list(learn(pairs, Smoothness(chain, kind, beta)).values())))[0]

    for kind in ("linear", "monotone"):
        assert bend(kind, 1.0) < 0.5 * bend(kind, 0.01)


def test_the_whole_objective_has_the_gradient_that_it_says() -> None:
    """PRO's loss, twice for each pair, and beta times the penalty for each of these; and what is found is its least."""
    pairs = [(bins(*better), bins(*worse)) for better, worse in planted(60, 4)]
    names = sorted({name for pair in pairs for side in pair for name in side})
    d = np.array([[better.get(name, 0.0) - worse.get(name, 0.0) for name in names] for better, worse in pairs])

    def objective(w: np.ndarray) -> float:
        loss = np.logaddexp(0.0, -d @ w).sum() + len(pairs) * 0.05 * plainly(w, 1.0)
        return float(w @ w / 2 + 2 * 500 * loss)

    found = learn(pairs, Smoothness([np.arange(len(names), dtype=np.uint64)], "monotone", 0.05))
    weights = np.array([found[name] for name in names])
    again = minimize(objective, weights, method="L-BFGS-B")
    assert objective(weights) <= float(again.fun) * (1 + 1e-4)


@pytest.mark.parametrize("kind", ["linear", "monotone"])
def test_minimum_risk_has_the_penalty_too(kind: str) -> None:
    """Its objective, written out: the expected loss of each list, and beta times the penalty for each; its least."""
    random, count, width = np.random.default_rng(5), 6, 5
    lists = []
    for _ in range(count):
        rows = [{slot: float(random.integers(0, 3)) for slot in range(width)} for _ in range(4)]
        statistics = np.zeros((4, WIDTH), dtype=np.int64)
        statistics[:, :4] = random.integers(1, 5, 4)[:, None]
        statistics[:, 4:8], statistics[:, 8:] = 6, 6
        lists.append((naive.kbest_of([[n] for n in range(4)], rows), statistics))
    pool = merged(empty(count), pool_of(lists, np.arange(width, dtype=np.uint64)))
    smoothness = Smoothness([np.arange(width, dtype=np.uint64)], kind, 0.05)
    learner, free = MinRisk(MinRiskOptions(c=20.0), BLEU, smoothness), np.ones(width, np.bool_)
    learner.set_feature_order(np.arange(width, dtype=np.uint64))
    part = learner.shard_objective(pool, np.arange(width), lambda s: random)

    def ask(question: np.ndarray) -> Iterator[Reply]:
        return iter([part.evaluate(question)])

    def objective(w: np.ndarray) -> float:
        total = float(w @ w / 2)
        for kbest, statistics in lists:
            x = np.array([[0.0] * width for _ in range(4)])
            for j in range(4):
                here = slice(kbest.feature_ptr[j], kbest.feature_ptr[j + 1])
                x[j, kbest.feature_index[here]] = kbest.feature_value[here]
            p = np.exp(x @ w)
            risk = 1 - float((p / p.sum()) @ bleu_plus_one(statistics))
            total += 20.0 * (risk + 0.05 * plainly(w.tolist(), None if kind == "linear" else 1.0))
        return total

    found = learner.optimise(random.normal(size=width), free, ask, random)
    assert found.objective == pytest.approx(objective(found.weights))
    assert np.abs(check_slopes(objective, found.weights)).max() < 1e-2


def test_no_line_ranks_the_examples() -> None:
    """Not only those weights that were tried: there is none, as a linear programme tells, and for bins there are."""
    for example in (COLLINEAR, COLLIDING, CURVED):
        for kind, status in ((total, 2), (bins, 0)):
            sides = [(kind(*better), kind(*worse)) for better, worse in example]
            names = sorted({name for pair in sides for side in pair for name in side})
            d = np.array([[b.get(name, 0.0) - w.get(name, 0.0) for name in names] for b, w in sides])
            found = linprog(np.zeros(len(names)), A_ub=-d, b_ub=-np.ones(len(d)), bounds=(None, None))
            assert found.status == status


def test_chains_are_found_among_the_features_of_lists() -> None:
    lists = [(naive.kbest_of([[1], [1]], [{0: 1.0}, {1: 1.0}]), np.zeros((2, WIDTH), dtype=np.int64))]
    pool = merged(empty(1), pool_of(lists, np.array([30, 10], dtype=np.uint64)))
    smoothness = Smoothness([np.array([30, 20, 10], dtype=np.uint64)], "linear", 1.0)
    learner = Pro(pro_options(), BLEU, smoothness)
    ids = np.union1d(pool.feature_id, learner.chained)
    assert ids.tolist() == [10, 20, 30]
    assert [place.tolist() for place in smoothness.places(ids)] == [[2, 1, 0]]
    weights = np.array([1.0, 4.0, 3.0])
    value, gradient = smoothness.penalty(weights, smoothness.places(ids))
    assert value == linear(np.array([3.0, 4.0, 1.0]))[0]
    assert gradient.tolist() == linear(np.array([3.0, 4.0, 1.0]))[1][::-1].tolist()
