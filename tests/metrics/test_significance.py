"""Tests of significance: against all permutations of labels, against sacreBLEU; Holm's correction."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from mpitune.metrics.sentence_statistics import SentenceStatistics
from mpitune.metrics.significance import (
    approximate_randomization,
    bootstrap,
    holm,
    interval,
    label_differences,
    resampled_sums,
)

REFERENCES = ["the cat sat on the mat near the door .", "a dog barked at the tall man .", "we saw a big red house ."]
RUNS = [
    ["the cat sat on a mat near the door .", "a dog barked at tall man .", "we saw the big red house ."],
    ["the dog sat on mat near the door .", "a dog barked at the man .", "we saw a red house ."],
    ["the cat sat on the mat by the door .", "a dog barks at the tall man .", "saw a big red house ."],
    ["the cat lay on the mat by the door", "dog barked the tall man .", "we saw one big red building ."],
    ["cat sat under mat near the door .", "a dog barked at a tall person .", "they saw a big house ."],
]
COUNTER = SentenceStatistics(["bleu", "ter", "chrf"])
METRICS: dict[str, Any] = {"bleu": BLEU(tokenize="none", force=True), "ter": TER(), "chrf": CHRF()}


def difference(name: str, first: list[tuple[int, ...]]) -> float:
    """Absolute difference of sacreBLEU's scores; ``first``: for each sentence, the runs that belong to the first."""

    def score(chosen: list[list[int]]) -> float:
        pairs = [(RUNS[run][i], REFERENCES[i]) for i, runs in enumerate(chosen) for run in runs]
        hypotheses, references = zip(*pairs, strict=True)
        return float(METRICS[name].corpus_score(hypotheses, [references]).score)

    others = [[run for run in range(len(RUNS)) if run not in runs] for runs in first]
    return abs(score([list(runs) for runs in first]) - score(others))


@pytest.mark.slow
def test_all_permutations_of_labels() -> None:
    """Three sentences, two runs against three: 10 ways to label the translations of a sentence, 1,000 in all."""
    statistics = COUNTER.count(RUNS, [REFERENCES])
    assignments = [list(each) for each in product(combinations(range(5), 2), repeat=3)]
    labels = np.array([[[run in runs for run in range(5)] for runs in each] for each in assignments])
    found = label_differences(statistics, labels, COUNTER.scores)
    p_values = approximate_randomization(statistics[:, :2], statistics[:, 2:], COUNTER.scores)
    for name in METRICS:
        expected = [difference(name, each) for each in assignments]
        assert found[name].tolist() == pytest.approx(expected)
        exact = np.mean(np.array(expected) >= difference(name, [(0, 1)] * 3) - 1e-9)
        # Four standard deviations of 10,000 trials.
        assert p_values[name] == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 10_000) ** 0.5), name
        assert 0.001 < exact < 0.9


def test_each_labelling_is_equally_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[np.ndarray] = []

    def record(translations: np.ndarray, labels: np.ndarray, scores: Any) -> dict[str, np.ndarray]:
        drawn.append(labels)
        return {name: np.zeros(len(labels)) for name in ("bleu", "ter")}

    monkeypatch.setattr("mpitune.metrics.significance.label_differences", record)
    statistics = np.zeros((2, 5, 30), dtype=np.int64)
    assert set(approximate_randomization(statistics[:, :2], statistics[:, 2:], COUNTER.scores).values()) == {1.0}
    observed, trials = drawn[0], np.concatenate(drawn[1:])
    assert observed.tolist() == [[[True, True, False, False, False]] * 2]
    assert trials.shape == (10_000, 2, 5) and (trials.sum(axis=2) == 2).all()
    kinds, counts = np.unique(trials.reshape(10_000, -1), axis=0, return_counts=True)
    assert len(kinds) == 100, "sentences are independent"
    assert ((counts - 100) ** 2 / 100).sum() < 150, "chi-squared of 99 degrees of freedom: 0.999 lies below 149"


@pytest.mark.parametrize(("differing", "exact"), [(0, 1.0), (1, 1.0), (3, 0.25), (4, 0.125)])
def test_few_sentences_cannot_be_significant(differing: int, exact: float) -> None:
    """n sentences, all for the worse: of the 2^n ways to swap them, 2 give as large a difference."""
    reference = [f"the cat number {i} sat on the big red mat near the door ." for i in range(30)]
    other = [line.replace("big", "huge") if i < differing else line for i, line in enumerate(reference)]
    statistics = COUNTER.count([reference, other], [reference])
    p_values = approximate_randomization(statistics[:, :1], statistics[:, 1:], COUNTER.scores)
    assert p_values["ter"] == pytest.approx(exact, abs=0.02) and p_values["bleu"] == pytest.approx(exact, abs=0.02)


def test_p_values_of_single_runs_are_sacrebleus() -> None:
    """Without TER, whose differences are often equal: sacreBLEU counts those that exceed the observed one only."""
    generator = np.random.default_rng(3)
    words = np.array([*"abcdefghijklmn"])
    reference = [" ".join(generator.choice(words, 12)) for _ in range(40)]
    systems = []
    for rate in (0.30, 0.36):
        noise = [[word if generator.random() > rate else "x" for word in line.split()] for line in reference]
        systems.append((f"{rate}", [" ".join(line) for line in noise]))
    statistics = COUNTER.count([text for _, text in systems], [reference])
    first, second = statistics[:, :1], statistics[:, 1:]
    metrics = {"BLEU": BLEU(tokenize="none"), "chrF2": CHRF()}
    for test, ours, close in (("ar", approximate_randomization, 0.02), ("bs", bootstrap, 0.0)):
        p_values = ours(first, second, COUNTER.scores)
        _, found = PairedTest(list[Any](systems), metrics, [reference], test_type=test)()
        for name, theirs in zip(("bleu", "chrf"), metrics, strict=True):
            result: Any = found[theirs][1]
            assert p_values[name] == pytest.approx(result.p_value, abs=close + 1e-12), (test, name)
            assert 0.001 < result.p_value < 0.9
            if test == "bs":
                whole = interval(COUNTER.scores(resampled_sums(second))[name])
                assert whole == pytest.approx((result.mean, result.ci))


def test_holm() -> None:
    """By hand: 0.01 x 4, 0.02 x 3, 0.02 x 2 but no less than before, 0.9 x 1."""
    assert holm([0.02, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([0.3]) == [0.3] and holm([]) == []
