"""Local training's two methods: what they find, against scipy, finite differences and definitions written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, linprog, minimize
from support import naive

from mpitune.learner.local import mbuu as mbuu_module
from mpitune.learner.local.ebuu import GRADIENT_TOLERANCE, Objective, ebuu
from mpitune.learner.local.examples import Examples, TrainingLists
from mpitune.learner.local.mbuu import GAP, PASSES, mbuu
from mpitune.learner.pool import pool_of
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.sentence_bleu import bleu_plus_one

pytestmark = pytest.mark.kernel

IDS = np.array([30, 10, 20, 40], dtype=np.uint64)
"""Feature ids by slot; kept lists have them in ascending order."""
D = len(IDS)


@dataclass(frozen=True)
class Problem:
    """Lists in parts, and global weights."""

    rows: list[list[list[list[float]]]]
    """By part, sentence, entry: values by slot."""
    matches: list[list[list[int]]]
    """By part, sentence, entry: how many words are right."""
    weights: list[float]
    frozen: list[bool]
    hope: bool = False

    def kept(self) -> TrainingLists:
        pools = []
        for rows, matches in zip(self.rows, self.matches, strict=True):
            lists = []
            for entries, right in zip(rows, matches, strict=True):
                sparse = [{slot: value for slot, value in enumerate(entry) if value != 0.5} for entry in entries]
                lists.append((naive.kbest_of([[1]] * len(entries), sparse), statistics(right)))
            pools.append(pool_of(lists, IDS))
        frozen = IDS[np.array(self.frozen)]
        return TrainingLists(pools, IDS, np.array(self.weights), frozen, hope=self.hope)

    def lists(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The feature vectors (float64 [n, 4], by slot) and gold scores of each sentence, as `kept` has them."""
        # A value that is to be 0.5 is left out, so that entries differ in what they fire.
        return [
            (np.where(np.array(entries) == 0.5, 0.0, entries), bleu_plus_one(statistics(right)))
            for rows, matches in zip(self.rows, self.matches, strict=True)
            for entries, right in zip(rows, matches, strict=True)
        ]


def statistics(right: Sequence[int]) -> np.ndarray:
    """Of translations of 12 words, of which so many are right, in a row."""
    rows = [[*(max(n - k, 0) for k in range(4)), 12, 11, 10, 9, 12, 12, 12] for n in right]
    return np.array(rows, dtype=np.int64).reshape(-1, WIDTH)


values = st.integers(-8, 8).map(lambda n: n / 4)


@st.composite
def problems(draw: st.DrawFn, most: int = 4, frozen: bool = True, hope: bool | None = None) -> Problem:
    parts = []
    for sizes in draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=most), min_size=1, max_size=2)):
        entries = st.lists(values, min_size=D, max_size=D)
        rows = [draw(st.lists(entries, min_size=n, max_size=n)) for n in sizes]
        parts.append((rows, [draw(st.lists(st.integers(0, 12), min_size=n, max_size=n)) for n in sizes]))
    flags = st.booleans() if frozen else st.just(False)
    fixed = draw(st.lists(flags, min_size=D, max_size=D))
    weights = draw(st.lists(values, min_size=D, max_size=D))
    by_hope = draw(st.booleans()) if hope is None else hope
    return Problem(*map(list, zip(*parts, strict=True)), weights, fixed, by_hope)


def oracle_of(x: np.ndarray, gold: np.ndarray, weights: np.ndarray, hope: bool) -> int:
    if hope:
        return int(np.argmax(gold + x @ weights))
    return max(range(len(gold)), key=lambda j: (gold[j], weights @ x[j], -j))


def dense(kept: TrainingLists, examples: Examples) -> np.ndarray:
    """float64 [entries, 4]: the rows, by slot."""
    result = np.zeros((len(examples.gold), D))
    slots = [IDS.tolist().index(number) for number in kept.feature_id[examples.feature].tolist()]
    for j in range(len(result)):
        for e in range(examples.row_ptr[j], examples.row_ptr[j + 1]):
            assert examples.value[e] != 0.0
            result[j, slots[examples.column[e]]] += examples.value[e]
    return result


def everything(kept: TrainingLists, problem: Problem) -> Examples:
    return kept.examples(np.arange(sum(len(part) for part in problem.rows)))


def by_slot(kept: TrainingLists, examples: Examples, change: np.ndarray) -> np.ndarray:
    result = np.zeros(D)
    for number, value in zip(kept.feature_id[examples.feature].tolist(), change.tolist(), strict=True):
        result[IDS.tolist().index(number)] = value
    return result


@settings(deadline=None)
@given(problems(), st.randoms())
def test_examples_are_differences_from_the_oracle(problem: Problem, random: object) -> None:
    kept, lists = problem.kept(), problem.lists()
    sentences = list(range(len(lists)))
    random.shuffle(sentences)  # type: ignore[attr-defined]
    weights, free = np.array(problem.weights), ~np.array(problem.frozen)
    # Twice: nothing of the first time is left over.
    for chosen in (sentences[: len(sentences) // 2 + 1], sentences):
        examples = kept.examples(np.array(chosen))
        found = dense(kept, examples)
        for i, sentence in enumerate(chosen):
            x, gold = lists[sentence]
            best = oracle_of(x, gold, weights, problem.hope)
            start, end = examples.list_ptr[i : i + 2].tolist()
            assert examples.oracle[i] == start + best
            np.testing.assert_array_equal(examples.gold[start:end], gold)
            np.testing.assert_array_equal(found[start:end], (x - x[best]) * free)
            np.testing.assert_allclose(examples.ahead[start:end], (x - x[best]) @ weights, atol=1e-12)


def constraints(problem: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each list d = x* - x in the free features, and loss - w_b.(x* - x), where the free features differ."""
    weights, free, made = np.array(problem.weights), ~np.array(problem.frozen), []
    for x, gold in problem.lists():
        best = oracle_of(x, gold, weights, problem.hope)
        differences = x[best] - x
        some = (differences * free).any(axis=1)
        made.append(((differences * free)[some], (gold[best] - gold - differences @ weights)[some]))
    return made


def by_scipy(problem: Problem, strength: float) -> tuple[float, float]:
    """The optimum of the primal and of the dual problem."""
    lists = constraints(problem)
    share, n = strength / len(lists), len(lists)
    d = np.concatenate([differences for differences, _ in lists])
    loss = np.concatenate([violations for _, violations in lists])
    which = np.repeat(np.arange(n), [len(violations) for _, violations in lists])
    slack = np.eye(n)[which]
    start = np.concatenate([np.zeros(D), [max([0.0, *violations]) for _, violations in lists]])
    primal = minimize(
        lambda v: v[:D] @ v[:D] / 2 + share * v[D:].sum(),
        start,
        jac=lambda v: np.concatenate([v[:D], np.full(n, share)]),
        bounds=[(None, None)] * D + [(0, None)] * n,
        constraints={
            "type": "ineq",
            "fun": lambda v: d @ v[:D] + v[D:][which] - loss,
            "jac": lambda v: np.hstack([d, slack]),
        },
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    dual = minimize(
        lambda a: (a @ d) @ (a @ d) / 2 - a @ loss,
        np.zeros(len(loss)),
        jac=lambda a: d @ (a @ d) - loss,
        bounds=[(0, None)] * len(loss),
        constraints={"type": "ineq", "fun": lambda a: share - a @ slack, "jac": lambda a: -slack.T},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assume(primal.success and dual.success)
    return float(primal.fun), -float(dual.fun)


@settings(deadline=None, max_examples=60)
@given(problems(), st.sampled_from([0.018, 0.3, 3.0, 50.0]))
def test_mbuu_finds_the_optimum_that_scipy_finds(problem: Problem, strength: float) -> None:
    kept = problem.kept()
    examples = everything(kept, problem)
    update = mbuu(examples, strength)
    assume(any(len(violations) for _, violations in constraints(problem)))
    primal, dual = by_scipy(problem, strength)
    rounding = 1e-7 * (1 + abs(primal))
    # In rare problems with a large strength, all passes do not suffice.
    reached = update.steps < PASSES
    assert update.gap is not None and 0 <= update.gap <= (GAP if reached else 100 * GAP) * strength
    assert primal - rounding <= update.objective <= primal + update.gap + rounding
    # Below every primal value lies every dual one, and the gap is what lies between.
    assert update.objective - update.gap <= dual + rounding
    assert dual <= update.objective + rounding
    # The objective is that of the weights that it found.
    change = by_slot(kept, examples, update.change)
    hinges = [max([0.0, *(violations - d @ change)]) for d, violations in constraints(problem)]
    assert update.objective == pytest.approx(change @ change / 2 + strength * np.mean(hinges), abs=1e-12)
    assert update.distance == pytest.approx(np.linalg.norm(change))
    assert not change[np.array(problem.frozen)].any()


def test_mbuu_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[[float(i * n % 7), float(n % 3), -float(n), 1.0] for n in range(6)] for i in range(4)]
    problem = Problem([rows], [[[n * 5 % 11 for n in range(6)]] * 4], [1.0, -1.0, 0.25, 0.0], [False] * D)
    examples = everything(problem.kept(), problem)
    enough = mbuu(examples, 10.0)
    monkeypatch.setattr(mbuu_module, "PASSES", 1)
    early = mbuu(examples, 10.0)
    assert early.steps == 1 < enough.steps
    assert early.gap is not None and enough.gap is not None
    assert early.gap > GAP * 10.0 >= enough.gap and early.objective - early.gap <= enough.objective < early.objective


@settings(deadline=None)
@given(problems(), st.lists(values, min_size=D, max_size=D), st.sampled_from([0.06, 1.0]), st.sampled_from([0.5, 2.0]))
def test_the_gradient_of_ebuu(problem: Problem, at: list[float], strength: float, alpha: float) -> None:
    kept = problem.kept()
    examples = everything(kept, problem)
    objective = Objective(examples, strength, alpha)
    change = np.array(at)[: len(examples.feature)]
    value = objective.at(change)
    np.testing.assert_allclose(objective.gradient(), approx_fprime(change, objective.at, 1e-7), atol=1e-5)
    # The definition, literally.
    weights = np.array(problem.weights) + by_slot(kept, examples, change)
    errors = []
    for x, gold in problem.lists():
        mass = np.exp(alpha * (x @ weights - (x @ weights).max()))
        errors.append(mass @ (1 - gold) / mass.sum())
    assert value == pytest.approx(change @ change / 2 + strength * np.mean(errors), abs=1e-9)


@settings(deadline=None)
@given(problems(), st.sampled_from([0.06, 1.0, 20.0]), st.sampled_from([0.5, 1.0]))
def test_ebuu_goes_down_to_where_it_is_flat(problem: Problem, strength: float, alpha: float) -> None:
    examples = everything(problem.kept(), problem)
    objective = Objective(examples, strength, alpha)
    start, update = objective.at(np.zeros(len(examples.feature))), ebuu(examples, strength, alpha)
    assert update.objective == objective.at(update.change) <= start
    assert update.gap is None
    # Where the objective is flat up to rounding, no step makes it smaller any more.
    assert update.steps == 100 or np.linalg.norm(objective.gradient()) <= 10 * GRADIENT_TOLERANCE


@settings(deadline=None)
@given(problems())
def test_without_lambda_nothing_moves(problem: Problem) -> None:
    examples = everything(problem.kept(), problem)
    for update in (mbuu(examples, 0.0), ebuu(examples, 0.0, 1.0)):
        assert not update.change.any() and update.distance == 0.0


@settings(deadline=None)
@given(problems(most=1, frozen=False, hope=False))
def test_one_list_and_a_large_lambda_put_the_oracle_first(problem: Problem) -> None:
    """Wherever some weights do: then some have it ahead of each other entry by their difference of gold scores."""
    (x, gold), kept = problem.lists()[0], problem.kept()
    weights = np.array(problem.weights)
    best = oracle_of(x, gold, weights, problem.hope)
    worse = gold < gold[best]
    d = x[best] - x
    separable = linprog(np.zeros(D), A_ub=-d, b_ub=gold - gold[best], bounds=(None, None)).status == 0
    assume(separable and worse.any())
    examples = kept.examples(np.array([0]))
    update = mbuu(examples, 1e5)
    scores = x @ (weights + by_slot(kept, examples, update.change))
    assert scores[worse].max() < scores[best]
    assert scores[best] >= scores.max() - 1e-3
