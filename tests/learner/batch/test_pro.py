"""Batch learners over given lists: gradients, losses and what PRO finds."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from support.batch_lists import optimise, part_of, pool, ranking, statistics_of
from support.learner_options import BLEU, mert_options, minrisk_options, pro_options, rampion_options
from support.mpi import ROOT

from mpitune.learner.base import BatchLearner
from mpitune.learner.batch.mert import Mert
from mpitune.learner.batch.minrisk import MinRisk
from mpitune.learner.batch.pro import Pro
from mpitune.learner.batch.rampion import Rampion
from mpitune.learner.batch.smooth import minimize_lbfgs
from mpitune.learner.pair_sampling import pro
from mpitune.metrics.sentence_bleu import bleu_plus_one


@pytest.mark.kernel
@pytest.mark.parametrize(
    "learner",
    [
        Mert(mert_options(), BLEU),
        Pro(pro_options(), BLEU),
        MinRisk(minrisk_options(), BLEU),
        Rampion(rampion_options(), BLEU),
    ],
)
def test_what_is_frozen_stays(learner: BatchLearner) -> None:
    random = np.random.default_rng(0)
    entries = [(random.integers(-8, 8, 4).tolist(), statistics_of([j, j, j, j])) for j in range(9)]
    tuned = optimise(learner, [pool([entries])], [0.3, 0.1, 0.1, 0.7], [False, True, True, False])
    assert tuned.weights[[0, 3]].tolist() == [0.3, 0.7]
    assert (tuned.weights[[1, 2]] != 0.1).any()


def test_pro_recovers_planted_weights() -> None:
    planted = np.array([1.0, -2.0, 0.5, 0.0])
    pools = [ranking(seed, planted) for seed in (1, 2)]
    tuned = optimise(Pro(pro_options(interpolation=1.0, c=0.01), BLEU), pools, [0.0] * 4)
    cosine = tuned.weights @ planted / np.linalg.norm(tuned.weights) / np.linalg.norm(planted)
    assert cosine > 0.99
    assert sum(part_of(Pro(pro_options(), BLEU), each).pairs for each in pools) == 2 * 20 * 50
    old = np.array([1.0, 1.0, 1.0, 1.0])
    third = optimise(Pro(pro_options(interpolation=0.25, c=0.01), BLEU), pools, old.tolist())
    assert third.weights == pytest.approx(0.25 * tuned.weights + 0.75 * old)


@pytest.mark.kernel
@pytest.mark.parametrize("learner", [Pro(pro_options(), BLEU), MinRisk(minrisk_options(), BLEU)])
def test_gradients_are_those_of_the_losses(learner: BatchLearner) -> None:
    part = part_of(learner, ranking(5, np.array([1.0, 1.0, -1.0, 1.0])))
    at = np.array([0.2, -0.1, 0.3, 0.05])
    _, gradient = part.evaluate(at)
    for d in range(4):
        step = 1e-6 * np.eye(4)[d]
        slope = (part.evaluate(at + step)[0][0] - part.evaluate(at - step)[0][0]) / 2e-6
        assert gradient[d] == pytest.approx(slope, rel=1e-6)


@pytest.mark.kernel
def test_the_loss_of_pro_is_that_of_the_differences_of_its_pairs() -> None:
    lists, options = ranking(6, np.array([1.0, 1.0, -1.0, 1.0])), pro_options(kept=9)
    at, rows = np.array([0.2, -0.1, 0.3, 0.05]), np.zeros((len(lists.fingerprint), 4))
    rows[np.repeat(np.arange(len(rows)), np.diff(lists.feature_ptr)), lists.feature] = lists.value
    differences = []
    for s in range(lists.sentences):
        entries = slice(*lists.sentence_ptr[s : s + 2])
        gold = bleu_plus_one(lists.statistics[entries])
        pairs = pro(gold, np.random.default_rng(s), options.candidates, options.threshold, options.kept)
        differences.append(rows[entries][pairs[:, 0]] - rows[entries][pairs[:, 1]])
    d = np.concatenate(differences)
    (loss, pairs), gradient = part_of(Pro(options, BLEU), lists).evaluate(at)
    assert (loss, pairs) == (pytest.approx(np.log1p(np.exp(-d @ at)).sum()), len(d))
    assert gradient == pytest.approx(-d.T @ (1 / (1 + np.exp(d @ at))))


@pytest.mark.kernel
def test_what_no_pair_differs_in_gets_no_weight() -> None:
    random = np.random.default_rng(0)
    # 0.1 and 0.7 do not cancel exactly in sums over entries of several pairs.
    entries = [([0.1, float(random.normal()), 0.7, float(j)], statistics_of([j] * 4)) for j in range(9)]
    tuned = optimise(Pro(pro_options(), BLEU), [pool([entries] * 3)], [0.0] * 4)
    assert (tuned.weights != 0).tolist() == [True, False, False, True]


@pytest.mark.kernel
def test_losses_of_equal_scores() -> None:
    lists = ranking(5, np.ones(4))
    part, risk = part_of(Pro(pro_options(), BLEU), lists), part_of(MinRisk(minrisk_options(), BLEU), lists)
    assert part.evaluate(np.zeros(4))[0][0] == pytest.approx(part.pairs * np.log(2))
    means = bleu_plus_one(lists.statistics).reshape(20, 30).mean(axis=1)
    assert risk.evaluate(np.zeros(4))[0][0] == pytest.approx((1 - means).sum())


def test_sums_do_not_depend_on_the_cores() -> None:
    program = "import mpitune, numpy; x = numpy.sqrt(numpy.arange(2e5)); print(float(x @ x).hex())"
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    assert found[0] == found[1] != ""


def test_pro_without_pairs_keeps_the_weights() -> None:
    alike = pool([[([1.0, 2.0], statistics_of([3] * 4)), ([2.0, 1.0], statistics_of([3] * 4))]])
    tuned = optimise(Pro(pro_options(), BLEU), [alike], [0.5, 0.25, 0.0, 1.0])
    assert tuned.weights.tolist() == [0.5, 0.25, 0.0, 1.0] and tuned.steps == 0


def test_an_optimisation_without_a_step_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """No step along the gradient lowers the objective: the result has the weights and the value of the start."""

    def evaluate(weights: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(1.0 + abs(weights), np.ones(1))]

    found = minimize_lbfgs(np.zeros(1), np.ones(1, dtype=bool), 10.0, evaluate)
    assert (found.weights.tolist(), found.objective, found.steps) == ([0.0], 10.0, 0)
    assert "L-BFGS found no step that lowers the objective" in caplog.text
