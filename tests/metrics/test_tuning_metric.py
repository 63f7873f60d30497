"""TER and chrF by statistics that add up, beside sacreBLEU."""

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
from mpitune.metrics import bleu, ter
from mpitune.metrics.tuning_metric import SCORES, Metric

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
        theirs = TER().sentence_score(text, references)
        assert (edits[i], length[i]) == (theirs.num_edits, pytest.approx(theirs.ref_length)), (text, references)
    expected = TER().corpus_score(texts, by_reference).score
    assert -100 * SCORES["ter"](counted.sum(axis=0)[None, bleu.WIDTH :])[0] == pytest.approx(expected)

    counted = ours("chrf", sentences)
    found = 100 * SCORES["chrf"](counted[:, bleu.WIDTH :])
    assert found.tolist() == pytest.approx([CHRF().sentence_score(*sentence).score for sentence in sentences])
    expected = CHRF().corpus_score(texts, by_reference).score
    assert 100 * SCORES["chrf"](counted.sum(axis=0)[None, bleu.WIDTH :])[0] == pytest.approx(expected)


few = st.lists(st.sampled_from(["a", "b", "ab", "A", "ba", "c"]), max_size=14)
reordered = st.permutations(["one", "two", "three", "One", "four", "five", "six", "two"])
odd = st.lists(st.sampled_from(["straße", "STRASSE", "ΑΣ", "ας", "-"]), max_size=4)
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
    found = 100 * SCORES["chrf"](Metric({"chrf": 1.0}, vocabulary.words).statistics(kbest, references)[:, bleu.WIDTH :])
    texts = ["the blue house", "", "The house is blue"]
    assert found.tolist() == pytest.approx([CHRF().sentence_score(text, ["the house is blue"]).score for text in texts])
    assert Metric({"bleu": 1.0}, vocabulary.words).width == bleu.WIDTH
