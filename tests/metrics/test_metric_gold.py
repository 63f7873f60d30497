"""Sums of metrics: scaled to their spreads, for sentences and for sets; the gold scores that learners see."""

from __future__ import annotations

import numpy as np
import pytest
from support import naive

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import empty_translation
from mpitune.metrics import chrf, sentence_bleu, ter
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.metric_gold import MetricGold
from mpitune.metrics.sentence_bleu import SentenceMetric, bleu_plus_one, liang, make_sentence_metric
from mpitune.metrics.tuning_metric import SPREAD, UNIT, Metric

WORDS = Vocabulary(["the", "house", "blue", "is", "old"])
TEXTS = [[0, 2, 1], [4, 1, 3, 2], [0, 1, 3, 2], [3]]
REFERENCES = [np.array([0, 1, 3, 2], dtype=np.int32)]
COMET = np.array([0.5, -0.25, 1.0, 0.125])
KBEST = naive.kbest_of(TEXTS, [{}] * 4)._replace(metrics=COMET[:, None])
WEIGHTS = {"ter": 2.0, "comet": -1.0, "bleu": 0.5, "chrf": 0.5}
SPREADS = np.array([0.25, 0.5, 0.125, 2.0])


def naive_parts(statistics: np.ndarray) -> dict[str, np.ndarray]:
    """Each metric of single translations, from its own counters."""
    words, own = WORDS.words, statistics[:, :WIDTH]
    return {
        "ter": ter.score(ter.Ter(words).statistics(KBEST, REFERENCES)),
        "comet": COMET,
        "bleu": bleu_plus_one(own),
        "chrf": chrf.score(chrf.Chrf(words).statistics(KBEST, REFERENCES)),
    }


def test_a_sum_of_metrics_has_each_in_units_of_its_spread() -> None:
    metric = Metric(WEIGHTS, WORDS.words)
    metric.set_spreads(SPREADS)
    statistics = metric.statistics(KBEST, REFERENCES)
    assert statistics.shape == (4, metric.width)
    expected = sum(
        weight / 4 * SPREAD / spread * naive_parts(statistics)[name]
        for (name, weight), spread in zip(WEIGHTS.items(), SPREADS.tolist(), strict=True)
    )
    assert metric.sentence_scores(statistics) == pytest.approx(expected)
    # A set of equal sentences has the score of one, except for BLEU, which is not smoothed.
    whole = Metric({name: weight for name, weight in WEIGHTS.items() if name != "bleu"}, WORDS.words)
    whole.set_spreads(SPREADS[[0, 1, 3]])
    counted = whole.statistics(KBEST, REFERENCES)
    assert whole.set_scores(7 * counted) == pytest.approx(whole.sentence_scores(counted))


@pytest.mark.parametrize("percent", [1, 100])
def test_gold_scores_of_a_column_do_not_depend_on_its_scale(percent: int) -> None:
    kbest = KBEST._replace(metrics=percent * COMET[:, None])
    metric = Metric({"comet": 1.0}, WORDS.words)
    counted = metric.statistics(kbest, [])
    assert counted[:, WIDTH:].tolist() == [[int(percent * value * UNIT), 1] for value in COMET.tolist()]
    assert not counted[:, :WIDTH].any()
    spread = metric.single_scores(counted).std(axis=0)
    metric.set_spreads(spread)
    gold = MetricGold(metric, make_sentence_metric("document"))
    assert gold.score(counted, 4).std() == pytest.approx(SPREAD)
    assert not gold.needs_previous_epoch
    # The score of a set is the mean in its own units, without lists that have no entries.
    nothing = metric.statistics(empty_translation(1), [])
    sums = np.concatenate([counted, nothing]).sum(axis=0)[None]
    assert metric.reported(sums) == pytest.approx([percent * COMET.mean()])


def test_a_negative_weight_turns_a_metric_round() -> None:
    metric = Metric({"comet": -0.5}, WORDS.words)
    metric.set_spreads(np.array([0.5]))
    counted = metric.statistics(KBEST, [])
    assert int(np.argmax(metric.sentence_scores(counted))) == 1
    assert metric.set_scores(counted.sum(axis=0)[None]) == pytest.approx([-0.5 * COMET.mean()])


def test_bleu_alone_is_what_it_was() -> None:
    metric = Metric({"bleu": 1.0}, WORDS.words)
    counted = metric.statistics(KBEST, REFERENCES)
    assert metric.is_bleu and not Metric({"bleu": 2.0}, WORDS.words).is_bleu
    assert metric.sentence_scores(counted).tolist() == bleu_plus_one(counted).tolist()
    assert metric.set_scores(counted).tolist() == sentence_bleu.papineni(counted).tolist()
    with pytest.raises(ValueError, match="at least one reference"):
        metric.statistics(KBEST, [])


def test_bleu_in_a_sum_has_the_form_of_the_gold_score() -> None:
    metric = Metric({"bleu": 1.0, "comet": 1.0}, WORDS.words)
    metric.set_spreads(np.array([0.25, 0.5]))
    counted = metric.statistics(KBEST, REFERENCES)
    found = MetricGold(metric, SentenceMetric(liang)).score(counted, 4)
    assert found == pytest.approx(SPREAD * (liang(counted) / 0.25 + COMET / 0.5) / 2)
    document, inner = make_sentence_metric("document"), make_sentence_metric("document")
    gold = MetricGold(metric, inner)
    assert gold.needs_previous_epoch
    for _ in range(2):
        gold.start_epoch(counted[:2, :WIDTH].astype(np.int32))
        document.start_epoch(counted[:2, :WIDTH].astype(np.int32))
        own = np.ascontiguousarray(counted[:, :WIDTH])
        expected = SPREAD * (document.score(own, 4) / 0.25 + COMET / 0.5) / 2
        assert gold.score(counted, 4) == pytest.approx(expected)
        gold.update_context(counted, 4)
        document.update_context(own, 4)
        assert gold.score(counted, 4) != pytest.approx(expected)
