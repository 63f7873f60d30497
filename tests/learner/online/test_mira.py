"""MIRA on single lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from support import naive
from support.online_learners import SIZE, mira_learner, random_list

from mpitune.decoder.base import KBest
from mpitune.learner.online.mira import ORACLES, PREDICTIONS
from mpitune.learner.online.mira_qp import VIOLATION

pytestmark = pytest.mark.kernel

RANDOM = np.random.default_rng(0)
INFINITE = float("inf")


def scored(kbest: KBest, weights: np.ndarray) -> KBest:
    """As a decoder would have it: model scores filled in, in no particular order."""
    return kbest._replace(score=naive.dense(kbest, SIZE) @ weights)


@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_pairings_and_weights_are_those_of_the_pseudocode(oracle: str, prediction: str) -> None:
    random = np.random.default_rng(21)
    frozen = [1, 4, 7]
    free = np.array([slot not in frozen for slot in range(SIZE)])
    mira = mira_learner(frozen, oracle=oracle, prediction=prediction, c=0.02, kbest=9)
    ours = random.normal(size=SIZE) / 20
    theirs = ours.copy()
    mira.start_shard(ours)
    moved = 0
    for k in (1, 2, 3, 12, 9, 20, 15, 8, 30):
        kbest, gold = random_list(random, k)
        kbest = scored(kbest, ours)
        if k == 12:
            kbest = kbest._replace(score=np.round(kbest.score))  # ties
        counts = mira.update(kbest, gold, ours, RANDOM)
        best = naive.pick(oracle, gold, kbest.score)
        worst = naive.pick(prediction, gold[:9], kbest.score[:9])
        assert (counts.oracle, counts.prediction) == (best, worst)
        updated = naive.mira(naive.dense(kbest, SIZE), gold.tolist(), best, worst, 0.02, free, theirs)
        assert counts[:2] == (best != worst, updated)
        assert ours == pytest.approx(theirs, abs=1e-12)
        moved += updated
    assert moved > 2


def test_oracles_look_beyond_the_list_of_the_predictions() -> None:
    rows: list[naive.Row] = [{0: float(j)} for j in range(6)]
    kbest = naive.kbest_of([[1]] * 6, rows, scores=[5, 4, 3, 2, 1, 0])
    gold = np.array([0.1, 0.3, 0.2, 0.0, 0.9, 0.0])
    picked = {}
    for oracle in ORACLES:
        counts = mira_learner(oracle=oracle, prediction="MC", kbest=3).update(kbest, gold, np.zeros(SIZE), RANDOM)
        picked[oracle] = counts.oracle, counts.prediction
    assert picked == {"MB": (4, 0), "LU": (4, 0), "M-C": (0, 0)}


# What an update is for


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(2, 20),
    oracle=st.sampled_from(list(ORACLES)),
    prediction=st.sampled_from(list(PREDICTIONS)),
    c=st.sampled_from([INFINITE, 0.01]),
)
def test_an_update_meets_the_margin_where_c_permits(seed: int, k: int, oracle: str, prediction: str, c: float) -> None:
    random = np.random.default_rng(seed)
    before = random.normal(size=SIZE)
    kbest, gold = random_list(random, k)
    kbest, after = scored(kbest, before), before.copy()
    counts = mira_learner(oracle=oracle, prediction=prediction, c=c).update(kbest, gold, after, RANDOM)
    x = naive.dense(kbest, SIZE)
    d = x[counts.oracle] - x[counts.prediction]
    loss = gold[counts.oracle] - gold[counts.prediction]
    if counts.updates:
        assert before @ d < loss
        step = np.linalg.norm(after - before) / np.linalg.norm(d)
        assert after - before == pytest.approx(step * d, abs=1e-9)
        assert (after @ d == pytest.approx(loss, abs=1e-9)) if step < c - 1e-12 else (after @ d <= loss + 1e-9)
    else:
        assert (after == before).all() and (before @ d >= loss - 1e-9 or not d.any())


@pytest.mark.parametrize(("variant", "tolerance"), [("k-constraint", 1e-6), ("cutting-plane", 2e-4)])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 9))
def test_all_margins_are_met_when_c_is_infinite(variant: str, tolerance: float, seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    # Fewer entries than features: no two constraints contradict each other.
    x, gold = random.normal(size=(k, SIZE)), random.random(k)
    kbest = naive.kbest_of([[1]] * k, [dict(enumerate(row)) for row in x.tolist()])
    weights = np.zeros(SIZE)
    counts = mira_learner(variant=variant, c=INFINITE).update(kbest, gold, weights, RANDOM)
    losses = gold[counts.oracle] - gold
    assert ((x[counts.oracle] - x) @ weights >= losses - tolerance).all()


def quadratic_program(d: np.ndarray, losses: np.ndarray, c: float, w: np.ndarray) -> np.ndarray:
    """w' by scipy: 1/2 ||w' - w||^2 + C slack, slack >= loss_j - w'.d_j and >= 0."""

    def objective(v: np.ndarray) -> float:
        return float(((v[:-1] - w) ** 2).sum() / 2 + c * v[-1])

    def gradient(v: np.ndarray) -> np.ndarray:
        return np.append(v[:-1] - w, c)

    inequality = np.vstack([np.column_stack([d, np.ones(len(d))]), np.append(np.zeros(len(w)), 1.0)])
    constraints = {
        "type": "ineq",
        "fun": lambda v: inequality @ v - np.append(losses, 0.0),
        "jac": lambda v: inequality,
    }
    start = np.append(w, max(0.0, float((losses - d @ w).max())))
    found = minimize(
        objective, start, jac=gradient, constraints=constraints, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500}
    )
    assert found.status in (0, 8), found.message  # 8: it cannot get any closer
    return found.x[:-1]


@pytest.mark.parametrize("variant", ["k-constraint", "cutting-plane"])
@pytest.mark.parametrize("c", [0.01, 0.1, 1.0, 10.0])
def test_all_constraints_together_are_the_quadratic_program(c: float, variant: str) -> None:
    random = np.random.default_rng(23)
    for k in (2, 3, 4, 6, 8):
        x, gold, w = random.normal(size=(k, 4)), random.random(k), random.normal(size=4)
        if k == 6:
            x[3] = x[2]  # one of them has the greater loss
        kbest = naive.kbest_of([[1]] * k, [dict(enumerate(row)) for row in x.tolist()])
        weights = np.append(w, np.zeros(SIZE - 4))
        counts = mira_learner(variant=variant, oracle="LU", c=c).update(scored(kbest, weights), gold, weights, RANDOM)
        others = [j for j in range(k) if j != counts.oracle]
        expected = quadratic_program((x[counts.oracle] - x)[others], (gold[counts.oracle] - gold)[others], c, w)
        assert weights[:4] == pytest.approx(expected, abs=1e-5 if variant == "k-constraint" else 1e-3)
        assert counts.pairs == k - 1 and (weights[4:] == 0).all()


def lists_of_40(count: int) -> list[tuple[KBest, np.ndarray, np.ndarray]]:
    """Lists, gold scores, weights."""
    random = np.random.default_rng(24)
    found = []
    for _ in range(count):
        kbest, gold = random_list(random, 40)
        weights = random.normal(size=SIZE) / 20
        found.append((scored(kbest, weights), gold, weights))
    return found


def objective(kbest: KBest, gold: np.ndarray, oracle: int, before: np.ndarray, after: np.ndarray, c: float) -> float:
    x = naive.dense(kbest, SIZE)
    d, losses = x[oracle] - x, gold[oracle] - gold
    constrains = (d != 0).any(axis=1)
    slack = max(0.0, float((losses - d @ after)[constrains].max()))
    return float(((after - before) ** 2).sum() / 2 + c * slack)


def test_cutting_planes_come_as_close_as_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpitune.learner.online.mira_qp.ROUNDS", 1000)
    differs = 0
    for kbest, gold, before in lists_of_40(15):
        reached = []
        for variant in ("k-constraint", "cutting-plane"):
            weights = before.copy()
            counts = mira_learner(variant=variant, c=0.1).update(kbest, gold, weights, RANDOM)
            assert (counts.pairs, counts.updates > 0) == (39, True)
            reached.append(objective(kbest, gold, counts.oracle, before, weights, 0.1))
        assert -1e-6 <= reached[1] - reached[0] <= 0.1 * VIOLATION + 1e-6
        differs += reached[1] - reached[0] > 1e-9
    assert differs > 0, "they stop before the optimum"


def test_planes_are_added_one_by_one_and_ten_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """One plane is the update of 1-best MIRA with the prediction M+C."""
    compared = 0
    for kbest, gold, before in lists_of_40(10):
        assert mira_learner(variant="cutting-plane").update(kbest, gold, before.copy(), RANDOM).updates <= 10
        one, plane = before.copy(), before.copy()
        mira_learner(c=0.1).update(kbest, gold, one, RANDOM)
        with monkeypatch.context() as patch:
            patch.setattr("mpitune.learner.online.mira_qp.ROUNDS", 1)
            mira_learner(c=0.1, variant="cutting-plane").update(kbest, gold, plane, RANDOM)
        if (one != before).any():  # The prediction may have the oracle's features, which is no plane.
            assert plane == pytest.approx(one, abs=1e-12)
            compared += 1
    assert compared > 5


# What it leaves alone

VARIANTS = pytest.mark.parametrize("variant", ["1-best", "k-constraint", "cutting-plane"])


@VARIANTS
def test_frozen_and_shared_features_stay_exactly_where_they_are(variant: str) -> None:
    random = np.random.default_rng(25)
    rows: list[naive.Row] = [{0: 0.1, 2: float(random.normal()), 3: 0.3, 9: float(j)} for j in range(12)]
    weights = np.zeros(SIZE)
    weights[9] = 0.01
    counts = mira_learner([9], variant=variant).update(
        naive.kbest_of([[1]] * 12, rows), random.random(12), weights, random
    )
    assert counts.updates > 0
    assert np.flatnonzero(weights).tolist() == [2, 9] and weights[9] == 0.01


@VARIANTS
def test_equal_vectors_move_nothing(variant: str) -> None:
    kbest = naive.kbest_of([[1], [2]], [{0: 1.0, 4: 0.1, 6: 0.0, 9: 1.0}, {0: 1.0, 2: 0.0, 4: 0.1, 9: 5.0}])
    for c in (0.01, INFINITE):
        weights = np.zeros(SIZE)
        counts = mira_learner([9], variant=variant, c=c, oracle="LU").update(
            kbest, np.array([1.0, 0.0]), weights, RANDOM
        )
        assert counts[:2] == (1, 0) and not weights.any()


@VARIANTS
def test_lists_of_none_and_one(variant: str) -> None:
    mira, weights = mira_learner(variant=variant), np.zeros(SIZE)
    assert mira.update(naive.kbest_of([], []), np.zeros(0), weights, RANDOM) == (0, 0, -1, -1)
    assert mira.update(naive.kbest_of([[1]], [{0: 1.0}]), np.ones(1), weights, RANDOM) == (0, 0, 0, 0)
    assert not weights.any()


@VARIANTS
def test_features_met_late_learn_as_if_always_known(variant: str) -> None:
    random = np.random.default_rng(26)
    known, late = mira_learner([1], variant=variant), mira_learner([1], size=2, variant=variant)
    all_known, growing = np.zeros(SIZE), np.zeros(10)
    known.start_shard(all_known)
    late.start_shard(growing)
    for size in (10, 10, 17, 24, SIZE):
        rows = [{slot: float(random.normal()) for slot in range(size) if random.random() < 0.3} for _ in range(12)]
        kbest, gold = naive.kbest_of([[1]] * 12, rows), random.random(12)
        growing = np.append(growing, np.zeros(size - len(growing)))
        assert known.update(kbest, gold, all_known, random) == late.update(kbest, gold, growing, random)
        assert (growing == all_known[:size]).all() and growing[1] == 0
    assert growing[24:].any()


def test_lists_beyond_the_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="slot 30"):
        mira_learner().update(naive.kbest_of([[1]], [{SIZE: 1.0}]), np.zeros(1), np.zeros(SIZE), RANDOM)
