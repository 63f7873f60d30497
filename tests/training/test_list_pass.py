"""A pass over given lists, many at a time, against its twin that decodes and learns from list by list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.learner_options import mira_options

from mpitune.array_files.csr import row_ends
from mpitune.corpus.vocabulary import Names, Vocabulary, feature_id
from mpitune.decoder.lists.decoder import ListDecoder, ListModel, Lists
from mpitune.learner.online.after_updates import Averaging, Composed
from mpitune.learner.online.mira import ORACLES, Mira
from mpitune.learner.weights import Weights
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.sentence_bleu import SENTENCE_METRICS, SentenceMetric, make_sentence_metric
from mpitune.metrics.tuning_metric import Metric, MetricGold
from mpitune.store.store import Corpus
from mpitune.training.epoch_statistics import Change, ShardStatistics, StatisticsAccumulator, norms
from mpitune.training.list_pass import list_pass
from mpitune.training.session import ScoredList

pytestmark = pytest.mark.kernel

FEATURES, WORDS = 30, 9
NAMES = [f"f{n}" for n in range(FEATURES)]


def random_task(seed: int, sizes: Sequence[int], most: int = 12) -> tuple[ListDecoder, Corpus]:
    """Lists of so many entries: features that all or few have, equal ones and zeros; one to three references each."""
    random = np.random.default_rng(seed)
    texts, rows = [], []
    for _ in range(sum(sizes)):
        texts.append(random.integers(WORDS, size=random.integers(0, most)))
        slots = np.sort(random.choice(FEATURES, random.integers(0, 12), replace=False))
        rows.append({int(slot): float(random.integers(-2, 3)) if slot < 20 else random.normal() for slot in slots})
        if len(rows) > 1 and random.random() < 0.2:
            rows[-1] = rows[-2]
    columns = np.where(random.random((len(rows), 1)) < 0.1, np.nan, random.random((len(rows), 1)))
    lists = Lists(
        row_ends(sizes),
        row_ends([len(text) for text in texts]),
        np.concatenate(texts).astype(np.int32),
        row_ends([len(row) for row in rows]),
        np.array([slot for row in rows for slot in row], dtype=np.int32),
        np.array([value for row in rows for value in row.values()]),
        columns,
    )
    words = Vocabulary([str(word) for word in range(WORDS)])
    ids = np.array([feature_id(name) for name in NAMES], dtype=np.uint64)
    references = [random.integers(WORDS, size=random.integers(1, most)) for _ in range(3 * len(sizes))]
    counts = random.integers(1, 4, len(sizes))
    corpus = Corpus(
        row_ends(random.integers(0, 2, len(sizes))),
        np.zeros(len(sizes), dtype=np.int32),
        random.permutation(len(sizes)).astype(np.int32),
        row_ends(counts),
        row_ends([len(reference) for reference in references]),
        np.concatenate(references).astype(np.int32),
    )
    return ListDecoder(ListModel(words, lists, Names.of(NAMES), ids, FEATURES)), corpus


class OneByOne:
    """The twin: each list is sorted and counted anew."""

    def __init__(self, learner: Composed, decoder: ListDecoder, corpus: Corpus, metric: Metric, gold: Any) -> None:
        self._learner, self._decoder, self._corpus, self._metric, self._gold = learner, decoder, corpus, metric, gold

    def learn(self, sentences: np.ndarray, weights: Weights, sums: StatisticsAccumulator) -> None:
        for i in sentences.tolist():
            sentence = self._corpus.sentence(i)
            kbest = self._decoder.decode(sentence, weights.value, 100)
            counted = self._metric.statistics(kbest, self._corpus.references(i))
            gold = self._gold.score(counted, len(sentence.words), i)
            change = Change(kbest, weights.value)
            counts = self._learner.update(kbest, gold, weights, np.random.default_rng(0))
            scored = ScoredList(i, sentence.words, kbest, counted, gold, self._gold.report(counted))
            sums.add(scored, counts, change.norm(weights.value))


def gold_of(name: str, metric: Metric) -> SentenceMetric:
    gold = make_sentence_metric(name, 7.0)
    return gold if metric.is_bleu else MetricGold(metric, gold)


SIZES = [5, 0, 1, 20, 2, 7, 12, 3, 9, 30, 4, 6, 1, 8]


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(
    ("prediction", "gold", "metric"),
    [
        ("M+C", "context", {"bleu": 1.0}),
        ("PB", "bleu+1", {"bleu": 1.0}),
        ("MC", "liang", {"bleu": 1.0}),
        ("M+C", "context", {"ter": -1.0, "comet": 2.0}),
        ("PB", "liang", {"bleu": 1.0, "comet": 1.0}),
    ],
)
def test_bits_are_those_of_a_pass_list_by_list(
    oracle: str, prediction: str, gold: str, metric: dict[str, float]
) -> None:
    decoder, corpus = random_task(len(gold), SIZES)
    learner = Composed(Mira(mira_options(oracle=oracle, prediction=prediction, c=0.2)))
    tuned = Metric(metric, [str(word) for word in range(WORDS)])
    first = Weights(decoder.features)
    # Many scores are equal, and smaller than the differences of gold scores.
    first.value[:] = np.random.default_rng(1).integers(-1, 2, FEATURES) / 64
    first.frozen[[2, 21]] = True
    found: list[list[tuple[np.ndarray, ShardStatistics]]] = []
    for many in (True, False):
        score, weights = gold_of(gold, tuned), first.copy()
        at_once, one_by_one = (make(learner, decoder, corpus, tuned, score) for make in (list_pass, OneByOne))
        assert at_once is not None
        found.append([])
        for epoch in range(3):
            random, sums = np.random.default_rng(epoch), StatisticsAccumulator(decoder, tuned)
            score.start_epoch(random.integers(4, 30, (len(SIZES) if epoch else 0, WIDTH)).astype(np.int32))
            # The second epoch meets lists for the first time.
            order = random.permutation(len(SIZES))[0 if epoch else 3 :]
            for part in np.split(order, [4, 9]):
                if many:
                    sums.add_lists(at_once.learn(part, weights))
                else:
                    one_by_one.learn(part, weights, sums)
            found[-1].append((weights.value.copy(), sums.statistics(0, weights.value)))
    for (ours, our_sums), (theirs, their_sums) in zip(*found, strict=True):
        assert ours.tobytes() == theirs.tobytes()
        assert our_sums.sums | {"seconds": 0} == their_sums.sums | {"seconds": 0}
        assert np.array_equal(our_sums.bleu, their_sums.bleu)
        assert our_sums.choices.tobytes() == their_sums.choices.tobytes()
    assert their_sums.sums["changing"] > 0


def test_it_ends_before_scores_that_are_not_finite() -> None:
    decoder, corpus = random_task(3, [4, 4, 4, 4])
    slot = decoder.lists.feature[decoder.lists.feature_ptr[decoder.lists.entry_ptr[2]]]
    metric, weights = Metric({"bleu": 1.0}, ()), Weights(decoder.features)
    at_once = list_pass(Composed(Mira(mira_options())), decoder, corpus, metric, make_sentence_metric("liang"))
    assert at_once is not None
    weights.value[slot] = np.inf
    has = [
        slot in decoder.lists.feature[slice(*decoder.lists.feature_ptr[decoder.lists.entry_ptr[[n, n + 1]]].tolist())]
        for n in corpus.grammar.tolist()
    ]
    assert len(at_once.learn(np.arange(4), weights).numbers) == has.index(True)


@pytest.mark.parametrize(
    ("gold", "options", "after", "covered"),
    [
        *((gold, {}, (), gold not in ("chiang", "document")) for gold in SENTENCE_METRICS),
        ("context", {"kbest": 3}, (), False),
        ("context", {"variant": "k-constraint"}, (), False),
        ("context", {}, (Averaging(),), False),
    ],
)
def test_what_is_learned_list_by_list(gold: str, options: dict[str, Any], after: Any, covered: bool) -> None:
    """Where a gold score depends on the lists before, or weights change in other ways than by the pass's own."""
    decoder, corpus = random_task(4, [4, 2])
    learner = Composed(Mira(mira_options(**options)), after)
    found = list_pass(learner, decoder, corpus, Metric({"bleu": 1.0}, ()), make_sentence_metric(gold))
    assert (found is not None) == covered


def test_norms_are_those_of_the_rows() -> None:
    random = np.random.default_rng(5)
    lengths = [0, 3, 200, 3, 1, 9, 9, 130, 0]
    ptr, values = row_ends(lengths), random.normal(size=sum(lengths)) * (random.random(sum(lengths)) < 0.9)
    values[: ptr[2]] *= 1e200
    expected = []
    for n in range(len(lengths)):
        sizes = np.sort(np.abs([value for value in values[ptr[n] : ptr[n + 1]] if value]))
        expected.append(sizes[-1] * np.sqrt(np.square(sizes / sizes[-1]).sum()) if len(sizes) else 0.0)
    assert norms(ptr, values).tolist() == expected
