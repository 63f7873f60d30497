"""TER, chrF and chrF++ by statistics that add up, beside sacreBLEU; metrics as learners get them."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from support import naive

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import empty_translation
from mpitune.errors import UsageError
from mpitune.metrics import bleu, chrf, sentence_bleu, ter
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.sentence_bleu import SentenceMetric, bleu_plus_one, liang, make_sentence_metric
from mpitune.metrics.tuning_metric import METRICS, SPREAD, UNIT, Metric, MetricGold, sentence_metric

Sentences = Sequence[tuple[str, Sequence[str]]]
"""A translation with its references."""


def ours(name: str, sentences: Sentences) -> np.ndarray:
    """int64 [sentences, columns]: statistics; the vocabulary grows from sentence to sentence."""
    vocabulary = Vocabulary()
    metric = Metric({name: 1.0}, vocabulary.words)
    rows = []
    for text, references in sentences:
        encoded = [vocabulary.encode(reference.split()) for reference in references]
        kbest = naive.kbest_of([vocabulary.encode(text.split()).tolist()], [{}])
        rows.append(metric.statistics(kbest, encoded))
        assert rows[-1].shape == (1, metric.width)
        assert rows[-1][:, : bleu.WIDTH].tolist() == bleu.statistics(kbest, encoded).tolist()
    return np.concatenate(rows)


def check(sentences: Sentences) -> None:
    """Statistics of every sentence and scores of all together."""
    texts = [text for text, _ in sentences]
    by_reference = [list(column) for column in zip(*(references for _, references in sentences), strict=True)]
    counted = ours("ter", sentences)
    edits, length = counted[:, bleu.WIDTH + ter.EDITS], counted[:, bleu.WIDTH + ter.LENGTH] / ter.UNIT
    for i, (text, references) in enumerate(sentences):
        each = TER().sentence_score(text, references)
        assert (edits[i], length[i]) == (each.num_edits, pytest.approx(each.ref_length)), (text, references)
    expected = TER().corpus_score(texts, by_reference).score
    assert -100 * METRICS["ter"].score(counted.sum(axis=0)[None, bleu.WIDTH :])[0] == pytest.approx(expected)

    for name, theirs in (("chrf", CHRF()), ("chrf++", CHRF(word_order=2))):
        counted = ours(name, sentences)
        found = 100 * METRICS[name].score(counted[:, bleu.WIDTH :])
        assert found.tolist() == pytest.approx([theirs.sentence_score(*sentence).score for sentence in sentences])
        expected = theirs.corpus_score(texts, by_reference).score
        assert 100 * METRICS[name].score(counted.sum(axis=0)[None, bleu.WIDTH :])[0] == pytest.approx(expected)


few = st.lists(st.sampled_from(["a", "b", "ab", "A", "ba", "c"]), max_size=14)
reordered = st.permutations(["one", "two", "three", "One", "four", "five", "six", "two"])
odd = st.lists(st.sampled_from(["straße", "STRASSE", "ΑΣ", "ας", "-", "(as)", "as.", "..", "“as”"]), max_size=4)
texts = (few | reordered | odd).map(" ".join)


def with_references(count: int) -> st.SearchStrategy[Sentences]:
    return st.lists(
        st.tuples(texts, st.lists(texts, min_size=count, max_size=count)),
        min_size=1,
        max_size=3,
    )


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3).flatmap(with_references))
def test_statistics_of_random_sentences_are_sacrebleus(sentences: Sentences) -> None:
    check(sentences)


@pytest.mark.slow
@pytest.mark.parametrize("words", [4, 200])
def test_long_sentences_reach_the_limits_of_the_search(words: int) -> None:
    """Blocks of more than 10 words, moved by more than 50; more than 1,000 shifts; far from the diagonal."""
    random = np.random.default_rng(words)
    reference = random.choice([f"w{n}" for n in range(words)], 80).tolist()
    moved = reference[60:] + reference[20:60] + reference[:20]
    jumbled = random.permutation(reference[:30]).tolist()
    references = [" ".join(reference), " ".join(reference[40:])]
    check([(" ".join(text), references) for text in (moved, jumbled, reference[:3])])


@pytest.mark.slow
@pytest.mark.parametrize("data", ["multi30k/val", "nc/nc"])
def test_statistics_of_real_lists_are_sacrebleus(shared: Path, data: str) -> None:
    kbest = "multi30k" if "multi30k" in data else "nc"
    with gzip.open(shared / "golden" / f"{kbest}.kbest.gz", "rt", encoding="utf-8") as file:
        entries = [line.split(" ||| ")[:2] for line in file][::25]
    with gzip.open(shared / "data" / f"{data}.en.gz", "rt", encoding="utf-8") as file:
        references = [line.strip() for line in file]
    # A translation of its neighbour stands in for a second reference.
    check([(text, [references[int(i)], entries[n - 1][1]]) for n, (i, text) in enumerate(entries)])


def test_statistics_are_of_each_entry_of_a_list() -> None:
    vocabulary = Vocabulary(["the", "house", "blue", "is", "The"])
    kbest = naive.kbest_of([[0, 2, 1], [], [4, 1, 3, 2]], [{}] * 3)
    references = [np.array([0, 1, 3, 2], dtype=np.int32)]
    counted = Metric({"ter": 1.0}, vocabulary.words).statistics(kbest, references)[:, bleu.WIDTH :]
    # "is" is missing, and "house" has to move; nothing; nothing is wrong in lower case.
    assert counted.tolist() == [[2, 4 * ter.UNIT], [4, 4 * ter.UNIT], [0, 4 * ter.UNIT]]
    found = 100 * METRICS["chrf"].score(
        Metric({"chrf": 1.0}, vocabulary.words).statistics(kbest, references)[:, bleu.WIDTH :]
    )
    texts = ["the blue house", "", "The house is blue"]
    assert found.tolist() == pytest.approx([CHRF().sentence_score(text, ["the house is blue"]).score for text in texts])
    assert Metric({"bleu": 1.0}, vocabulary.words).width == bleu.WIDTH


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
        "ter": ter.Ter.score(ter.Ter(words).statistics(KBEST, REFERENCES)),
        "comet": COMET,
        "bleu": bleu_plus_one(own),
        "chrf": chrf.Chrf.score(chrf.Chrf(words).statistics(KBEST, REFERENCES)),
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
    gold.set_spreads(spread, spread)
    assert gold.score(counted, 4).std() == pytest.approx(SPREAD)
    assert not gold.needs_previous_epoch
    # The score of a set is the mean in its own units, without lists that have no entries.
    nothing = metric.statistics(empty_translation(1), [])
    sums = np.concatenate([counted, nothing]).sum(axis=0)[None]
    assert metric.reported(sums) == pytest.approx([percent * COMET.mean()])


@pytest.mark.parametrize("larger_is_better", [True, False])
def test_a_function_of_texts_is_a_metric(larger_is_better: bool) -> None:
    """The mean of its scores of sentences; registered metrics are made in the same way."""

    @sentence_metric("first word", larger_is_better=larger_is_better)
    def first_word(translations: list[str], references: list[str]) -> list[float]:
        assert references == ["the house is blue"]
        return [0.25 if text.startswith("the ") else 0.0 for text in translations]

    counter = first_word(WORDS.words)
    counted = counter.statistics(KBEST, REFERENCES)
    sign = 1 if larger_is_better else -1
    assert counter.sentence_score(counted).tolist() == [sign * 0.25, 0.0, sign * 0.25, 0.0]
    assert counter.printed(counted.sum(axis=0)[None]).tolist() == [12.5]
    assert counter.printed(np.zeros((1, counter.width), dtype=np.int64)).tolist() == [0.0]


@pytest.mark.parametrize("wrong", [[1.0] * 3, [float("nan")] * 4, [1e5] * 4])
def test_a_function_of_texts_has_a_number_for_each(wrong: list[float]) -> None:
    counter = sentence_metric("odd")(lambda translations, references: wrong)(WORDS.words)
    with pytest.raises(UsageError, match="metric odd: found the values .*, expected 4, from -10000 to 10000"):
        counter.statistics(KBEST, REFERENCES)


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
    spreads = np.array([0.25, 0.5])
    counted = metric.statistics(KBEST, REFERENCES)
    gold = MetricGold(metric, SentenceMetric(liang))
    gold.set_spreads(spreads, spreads)
    assert gold.score(counted, 4) == pytest.approx(SPREAD * (liang(counted) / 0.25 + COMET / 0.5) / 2)
    document, inner = make_sentence_metric("document"), make_sentence_metric("document")
    gold = MetricGold(metric, inner)
    gold.set_spreads(spreads, 2 * spreads)
    assert gold.needs_previous_epoch
    for place in (slice(0, 0), slice(0, 2)):
        gold.start_epoch(counted[place, :WIDTH].astype(np.int32))
        document.start_epoch(counted[place, :WIDTH].astype(np.int32))
        own = np.ascontiguousarray(counted[:, :WIDTH])
        # With 1-best translations of an epoch before, its score has other units.
        expected = SPREAD * (document.score(own, 4) / 0.25 + COMET / 0.5) / (4 if place.stop else 2)
        assert gold.score(counted, 4) == pytest.approx(expected)
        gold.update_context(counted, 4)
        document.update_context(own, 4)
        assert gold.score(counted, 4) != pytest.approx(expected)
