"""The spreads of metrics that are summed, of the scores that learners get."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import naive

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.exchange.comm import SerialComm
from mpitune.metrics import bleu
from mpitune.metrics.sentence_bleu import make_sentence_metric
from mpitune.metrics.tuning_metric import SPREAD, Metric, MetricGold
from mpitune.training.metric_spreads import fit_metric

SIZE, WORDS = 30, Vocabulary([f"w{n}" for n in range(12)])


def lists() -> list[tuple[Any, list[np.ndarray]]]:
    """Of each sentence: a list of translations with one to five wrong words, and its reference."""
    random, found = np.random.default_rng(1), []
    for _ in range(SIZE):
        reference = random.integers(0, 12, random.integers(8, 15)).astype(np.int32)
        texts = [reference.copy() for _ in range(6)]
        for n, text in enumerate(texts):
            text[random.integers(0, len(text), n)] = random.integers(0, 12, n)
        found.append((naive.kbest_of([text.tolist() for text in texts], [{}] * 6), [reference]))
    return found


def fitted(gold_name: str, weights: dict[str, float], *, is_batch: bool = False) -> tuple[Any, list[int]]:
    """A run whose metric is fitted to `lists`, and the order of the sentences."""
    every = lists()
    metric = Metric(weights, WORDS.words)
    corpus = SimpleNamespace(
        size=SIZE, references=lambda i: every[i][1], sentence=lambda i: SimpleNamespace(words=every[i][1][0])
    )
    run: Any = SimpleNamespace(
        job=SimpleNamespace(
            file="job.toml",
            run=SimpleNamespace(seed=3),
            decoder=SimpleNamespace(kbest=6),
            learner=SimpleNamespace(own=SimpleNamespace(is_batch=is_batch)),
        ),
        comm=SerialComm(),
        corpus=corpus,
        store=SimpleNamespace(tuned_sentence=lambda i: i),
        decoder=SimpleNamespace(decode=lambda i, weights, k: every[i][0]),
        first=SimpleNamespace(value=np.zeros(0)),
        metric=metric,
        gold=MetricGold(metric, make_sentence_metric(gold_name, float(SIZE))),
    )
    fit_metric(run)
    return run, np.random.default_rng(3).permutation(SIZE).tolist()


def mean_deviation(scores: list[Any]) -> float:
    return float(np.mean([np.std(of_list) for of_list in scores]))


def test_bleu_in_units_of_words_has_its_share() -> None:
    """Scores of chiang are in units of ten sentences; by its twin, and chrF's by that of a single metric."""
    run, order = fitted("chiang", {"bleu": 0.5, "chrf": 0.5})
    every = lists()
    rows = [
        [naive.statistics(kbest.translation(j), every[i][1]) for j in range(6)]
        for i in order
        for kbest in [every[i][0]]
    ]
    of_bleu = naive.chiang([(of_list, len(every[i][1][0])) for of_list, i in zip(rows, order, strict=True)])
    chrf = Metric({"chrf": 1.0}, WORDS.words)
    of_chrf = [chrf.single_scores(chrf.statistics(*every[i]))[:, 0] for i in order]
    spreads = mean_deviation(of_bleu), mean_deviation(of_chrf)
    assert spreads[0] > 10 * spreads[1]
    run.gold.start_shard()
    for i, first, second in zip(order, of_bleu, of_chrf, strict=True):
        counted = run.metric.statistics(*every[i])
        expected = SPREAD / 2 * (np.array(first) / spreads[0] + second / spreads[1])
        assert run.gold.score(counted, len(every[i][1][0])) == pytest.approx(expected)
        run.gold.update_context(counted, len(every[i][1][0]))


@pytest.mark.parametrize("gold", ["context", "document", "chiang", "papineni"])
def test_the_spread_is_that_of_each_epoch(gold: str) -> None:
    """With BLEU alone, at twice its weight: as large in the first epoch as in those after it."""
    run, order = fitted(gold, {"bleu": 2.0})
    counted = [run.metric.statistics(*each) for each in lists()]
    best = np.stack([each[0] for each in counted])[:, : bleu.WIDTH].astype(np.int32)
    for before in (best[:0], best):
        run.gold.start_epoch(before)
        run.gold.start_shard()
        scores = []
        for i in order:
            scores.append(run.gold.score(counted[i], len(lists()[i][1][0]), i))
            run.gold.update_context(counted[i], len(lists()[i][1][0]))
        assert mean_deviation(scores) == pytest.approx(SPREAD)


def test_batch_methods_have_the_spread_of_their_own_scores() -> None:
    run, _ = fitted("chiang", {"bleu": 0.5, "chrf": 0.5}, is_batch=True)
    counted = [run.metric.statistics(*each) for each in lists()]
    only_bleu = Metric({"bleu": 1.0}, WORDS.words)
    spread = mean_deviation([only_bleu.sentence_scores(each[:, : bleu.WIDTH]) for each in counted])
    chrf = Metric({"chrf": 1.0}, WORDS.words)
    of_chrf = [chrf.single_scores(chrf.statistics(*each))[:, 0] for each in lists()]
    for each, second in zip(counted, of_chrf, strict=True):
        expected = (
            SPREAD / 2 * (only_bleu.sentence_scores(each[:, : bleu.WIDTH]) / spread + second / mean_deviation(of_chrf))
        )
        assert run.metric.sentence_scores(each) == pytest.approx(expected)
