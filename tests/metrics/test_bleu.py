from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU
from support import naive

from mpitune.metrics.bleu import LONGEST, WIDTH, statistics
from mpitune.metrics.sentence_bleu import SENTENCE_METRICS, make_sentence_metric

pytestmark = pytest.mark.kernel

SENTENCE_SCORES = ("liang", "bleu+1", "nakov", "papineni", "sum")

texts = st.lists(st.integers(0, 5), max_size=12)


def count(hypotheses: list[list[int]], references: list[list[int]]) -> np.ndarray:
    kbest = naive.kbest_of(hypotheses, [{} for _ in hypotheses])
    return statistics(kbest, [np.array(reference, dtype=np.int32) for reference in references])


def score(name: str, hypothesis: str, *references: str) -> float:
    number: dict[str, int] = {}
    numbers = [[number.setdefault(word, len(number)) for word in text.split()] for text in (hypothesis, *references)]
    return float(make_sentence_metric(name).score(count(numbers[:1], numbers[1:]), 1)[0])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(texts, max_size=4), st.lists(texts, min_size=1, max_size=3))
def test_statistics_are_those_of_the_definition(hypotheses: list[list[int]], references: list[list[int]]) -> None:
    expected = [naive.statistics(hypothesis, references) for hypothesis in hypotheses]
    assert count(hypotheses, references).tolist() == expected


def test_word_numbers_may_be_large() -> None:
    top = 2**31 - 1
    hypothesis, reference = [top, 0, top - 1, 7, top], [top, 0, top - 1, top - 1, 7, top]
    assert count([hypothesis], [reference]).tolist() == [naive.statistics(hypothesis, [reference])]


def test_long_sentences_fill_the_table() -> None:
    random = np.random.default_rng(5)
    references = [random.integers(0, 1000, 150).tolist() for _ in range(2)]
    hypotheses = [references[0][20:120], references[1][:60] + references[0][60:], random.integers(0, 1000, 80).tolist()]
    assert count(hypotheses, references).tolist() == [naive.statistics(text, references) for text in hypotheses]


def test_sacrebleu_agrees() -> None:
    random = np.random.default_rng(1)
    metric = BLEU(tokenize="none", smooth_method="none")
    positive = 0
    for _ in range(100):
        hypothesis, *references = (random.integers(0, 3, random.integers(1, 14)).tolist() for _ in range(4))
        words = [" ".join(f"w{word}" for word in text) for text in (hypothesis, *references)]
        theirs = metric.corpus_score(words[:1], [[reference] for reference in words[1:]])
        ours = count([hypothesis], references)
        assert ours[0, :LONGEST].tolist() == [*theirs.counts, *theirs.totals, theirs.sys_len, theirs.ref_len]
        assert make_sentence_metric("papineni").score(ours, 1)[0] == pytest.approx(theirs.score / 100, abs=1e-12)
        positive += theirs.score > 0
    assert positive > 20


def test_closest_reference_is_the_shorter_one_on_a_tie() -> None:
    assert count([[1] * 5], [[1] * 7, [1] * 3, [1] * 9])[0, 9] == 3
    assert count([[1] * 5], [[1] * 3, [1] * 7])[0, 9] == 3
    assert count([[1] * 5], [[1] * 2, [1] * 7])[0, 9] == 7


def test_the_longest_reference_is_told_too() -> None:
    for references in ([[1] * 3, [1] * 9, [1] * 7], [[1] * 9], [[], [1] * 9]):
        assert count([[1] * 5, [], [1] * 20], references)[:, LONGEST].tolist() == [9, 9, 9]


def test_matches_are_clipped_by_the_reference_that_has_most() -> None:
    assert count([[1, 1, 1, 2]], [[1, 1], [1, 2]])[0, :2].tolist() == [3, 2]


def test_no_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="reference"):
        count([[1]], [])


def test_empty_lists_and_empty_texts() -> None:
    assert count([], [[1, 2]]).shape == (0, WIDTH)
    assert count([[]], [[]]).tolist() == [[0] * WIDTH]
    for name in SENTENCE_METRICS:
        gold = make_sentence_metric(name)
        assert gold.score(count([], [[1, 2]]), 3).shape == (0,)
        assert gold.report(count([], [[1, 2]])) == 0.0
        assert gold.score(count([[], []], [[1, 2], []]), 3).tolist() == [0.0, 0.0]
        assert gold.score(count([[1], [1, 2]], [[]]), 3).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("liang", 5 / 6 / 16 + math.sqrt(1 / 2) / 8 + 1 / 2 / 4),
        ("bleu+1", (5 / 6 * 4 / 6 * 2 / 5 * 1 / 4) ** (1 / 4)),
        ("nakov", math.exp(1 - 7 / 6) * (5 / 6 * 4 / 6 * 2 / 5 * 1 / 4) ** (1 / 4)),
        ("papineni", 0.0),
        ("sum", 5 / 6 / 16 + 3 / 5 / 8 + 1 / 4 / 4),
    ],
)
def test_a_worked_example(name: str, expected: float) -> None:
    """Matches 5/6, 3/5, 1/4, 0/3."""
    assert score(name, "the cat sat on the mat", "the cat is on the mat") == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("liang", 0.9375), ("bleu+1", 1.0), ("nakov", math.exp(-1 / 5)), ("papineni", 1.0), ("sum", 0.9375)],
)
def test_a_perfect_translation(name: str, expected: float) -> None:
    assert score(name, "a b c d e", "a b c d e") == pytest.approx(expected, abs=1e-15)
    # Two of the four words a reference has: precisions 1, brevity e^-1, no n-grams of the orders above.
    if name == "liang":
        assert score(name, "a b", "a b c d") == pytest.approx(math.exp(-1) * (1 / 16 + 1 / 8))
    if name == "papineni":
        assert score(name, "a b c", "a b c") == 0.0


WORSE = {
    "a": ["b", "", "a b", "a a"],
    "a dog": ["a", "dog", "dog a", "a dog .", "a a dog"],
    "a dog .": ["a dog", "a", ". dog a", "a cat .", "a dog . .", "a a dog .", "a dog . a dog ."],
    "a dog runs .": ["a dog runs", "a dog .", "a dog runs . .", "a a dog runs . ."],
}
"""By reference, translations of it that are not perfect."""


@pytest.mark.parametrize("reference", WORSE)
def test_nothing_is_better_than_the_reference_however_short(reference: str) -> None:
    assert score("bleu+1", reference, reference) == 1.0
    for text in WORSE[reference]:
        assert score("bleu+1", text, reference) < 1.0, text


@pytest.mark.parametrize(
    ("text", "references", "expected"),
    [
        # N = 3: 3/4, (2 + 1)/(3 + 1), (1 + 1)/(2 + 1).
        ("a dog . .", ["a dog ."], (3 / 4 * 3 / 4 * 2 / 3) ** (1 / 3)),
        # N = 3, and no trigrams: 2/2, (1 + 1)/(1 + 1), (0 + 1)/(0 + 1).
        ("a dog", ["a dog ."], math.exp(1 - 3 / 2)),
        # N = 1.
        ("a b", ["a"], 1 / 2),
        # Of several references the longest tells N, whichever comes first or is the closest.
        ("a dog b .", ["a dog . c d e", "a dog ."], (3 / 4 * 2 / 4 * 1 / 3 * 1 / 2) ** (1 / 4)),
        ("a dog .", ["a dog ."], 1.0),
        ("a dog .", ["a dog .", "a dog runs . ."], 1.0),
        ("a dog b", ["a dog .", "a"], (2 / 3 * 2 / 3 * 1 / 2) ** (1 / 3)),
        ("a dog b", ["a", "a dog ."], (2 / 3 * 2 / 3 * 1 / 2) ** (1 / 3)),
        ("a dog b", ["a dog .", "a dog . ."], (2 / 3 * 2 / 3 * 1 / 2 * 1 / 1) ** (1 / 4)),
        # No word matches.
        ("b", ["a dog ."], 0.0),
    ],
)
def test_short_texts_have_the_scores_of_the_definition(text: str, references: list[str], expected: float) -> None:
    assert score("bleu+1", text, *references) == pytest.approx(expected, abs=1e-15)
    lengths = [len(reference.split()) for reference in references]
    length = len(text.split())
    closest = min((abs(other - length), other) for other in lengths)[1]
    penalty, longer = (min(1.0, math.exp(1 - other / length)) for other in (closest, closest + 1))
    assert score("nakov", text, *references) == pytest.approx(expected / penalty * longer, abs=1e-15)


def test_corpus_scores_do_not_look_at_the_longest_reference() -> None:
    rows = count([[1, 2, 3, 4, 5], [1, 2, 3, 4]], [[1, 2, 3, 4, 6, 7]])
    other = rows.copy()
    other[:, LONGEST] = [0, 3]
    for name in ("papineni", "chiang", "context"):
        gold, blind = make_sentence_metric(name), make_sentence_metric(name)
        for each, seen in ((gold, rows), (blind, other)):
            each.start_epoch(seen.astype(np.int32))
            each.update_context(seen, 5)
        assert gold.score(rows, 5).tolist() == blind.score(other, 5).tolist() != [0.0, 0.0]


@pytest.mark.parametrize("name", SENTENCE_SCORES)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(hypotheses=st.lists(texts, min_size=1, max_size=4), references=st.lists(texts, min_size=1, max_size=3))
def test_scores_are_those_of_the_definition(
    name: str, hypotheses: list[list[int]], references: list[list[int]]
) -> None:
    rows = count(hypotheses, references)
    gold = make_sentence_metric(name)
    scores = gold.score(rows, 1)
    assert scores == pytest.approx([naive.gold(name, row) for row in rows.tolist()], abs=1e-12)
    assert gold.report(rows) == scores[0]
    assert all(0 <= value <= (0.9375 if name in ("liang", "sum") else 1) for value in scores)


@pytest.mark.parametrize("name", list(SENTENCE_METRICS))
def test_bits_do_not_depend_on_the_rest_of_the_list(name: str) -> None:
    random = np.random.default_rng(3)
    reference = random.integers(0, 4, 15).tolist()
    rows = count([random.integers(0, 4, length).tolist() for length in range(1, 24)], [reference])
    gold = make_sentence_metric(name)
    assert gold.score(rows, 9).tolist() == [gold.score(rows[j : j + 1], 9)[0] for j in range(len(rows))]


def test_chiang_remembers_its_shard() -> None:
    random = np.random.default_rng(2)
    lists = []
    for _ in range(6):
        references = [random.integers(0, 3, random.integers(3, 12)).tolist() for _ in range(2)]
        hypotheses = [random.integers(0, 3, random.integers(0, 12)).tolist() for _ in range(5)]
        lists.append((count(hypotheses, references), int(random.integers(1, 12))))
    expected = naive.chiang([(rows.tolist(), length) for rows, length in lists])
    gold = make_sentence_metric("chiang")
    for _ in range(2):
        gold.start_shard()
        for (rows, length), scores in zip(lists, expected, strict=True):
            assert gold.score(rows, length) == pytest.approx(scores, rel=1e-12)
            assert gold.report(rows) == make_sentence_metric("bleu+1").report(rows)
            gold.update_context(rows, length)
    assert any(max(scores) > 1 for scores in expected)  # it is on the scale of the document


@pytest.mark.parametrize("epoch", [1, 2])
def test_document_is_that_of_the_definition(epoch: int) -> None:
    random = np.random.default_rng(4)
    lists = []
    for _ in range(8):
        references = [random.integers(0, 3, random.integers(0, 12)).tolist() for _ in range(2)]
        hypotheses = [random.integers(0, 3, random.integers(0, 12)).tolist() for _ in range(5)]
        lists.append(count(hypotheses, references))
    before = np.array([rows[1] for rows in lists] * (epoch - 1), dtype=np.int32).reshape(-1, 11)
    expected = naive.document([rows.tolist() for rows in lists], before.tolist())
    gold = make_sentence_metric("document")
    gold.start_epoch(before)
    for _ in range(2):  # each shard begins with the same document
        gold.start_shard()
        for rows, scores in zip(lists, expected, strict=True):
            assert gold.score(rows, 3) == pytest.approx(scores, rel=1e-12)
            assert gold.report(rows) == make_sentence_metric("bleu+1").report(rows)
            gold.update_context(rows, 3)
    gold.update_context(count([], [[1]]), 0)


def test_a_document_that_is_too_short_wants_longer_translations() -> None:
    """The same two translations are ranked by what came before them: corpus BLEU has one brevity penalty."""
    reference = list(range(1, 13))
    rows = count([reference[:8], [*reference[:8], 99]], [reference])
    gold = make_sentence_metric("document")
    for before, longer_is_better in ((reference * 2, False), (reference[:8], True)):
        gold.start_shard()
        for _ in range(10):
            gold.update_context(count([before], [reference]), 9)
        short, long = gold.score(rows, 9)
        assert (long > short) == longer_is_better


def test_what_was_too_long_in_the_epoch_before_is_soon_forgotten() -> None:
    reference = list(range(1, 13))
    rows = count([reference[:8], [*reference[:8], 99]], [reference])
    gold = make_sentence_metric("document")
    gold.start_epoch(count([[*reference, 99, 99, 99]] * 20, [reference]).astype(np.int32))
    short, long = gold.score(rows, 9)
    assert short > long
    for _ in range(100):
        gold.update_context(count([reference[:9]], [reference]), 9)
    short, long = gold.score(rows, 9)
    assert long > short


def test_chiang_after_an_empty_list_has_only_decayed() -> None:
    gold = make_sentence_metric("chiang")
    rows = count([[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 9]])
    gold.update_context(rows, 4)
    once = gold.score(rows, 0)[0]
    gold.update_context(count([], [[1]]), 0)
    bleu = naive.gold("papineni", [0.81 * value + value for value in rows[0].tolist()])
    assert gold.score(rows, 0)[0] == pytest.approx(0.81 * 4 * bleu)
    assert once == pytest.approx(0.9 * 4 * naive.gold("papineni", [1.9 * value for value in rows[0].tolist()]))
