"""Retrieval of the nearest sentences, against the definition written out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpitune.array_files.csr import row_ends
from mpitune.corpus.retrieval import IndexedPart, Neighbours, sentences_with

VOCABULARY = 8
sentence = st.lists(st.integers(0, VOCABULARY - 1), max_size=7)
query = st.lists(st.integers(0, VOCABULARY + 2), max_size=7)
"""Words past the vocabulary are in no sentence."""


def levenshtein(a: Sequence[int], b: Sequence[int]) -> int:
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, start=1):
        before, row = row, [i]
        for j, other in enumerate(b, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other)))
    return row[-1]


def distance(a: Sequence[int], b: Sequence[int], corpus: Sequence[Sequence[int]], theta: float) -> float:
    """The definition, with no regard to speed."""
    idf = {word: math.log((len(corpus) + 1) / (sum(word in other for other in corpus) + 1)) for word in (*a, *b)}
    x, y = ({word: n * idf[word] for word, n in Counter(words).items()} for words in (a, b))
    norms = math.hypot(*x.values()) * math.hypot(*y.values())
    cosine = sum(x[word] * y[word] for word in x.keys() & y.keys()) / norms if norms else 0.0
    edit = levenshtein(a, b) / max(len(a), len(b), 1)
    return theta * edit + (1 - theta) * (1 - cosine)


def in_parts(corpus: Sequence[Sequence[int]], parts: int, theta: float) -> list[IndexedPart]:
    ptr = row_ends([len(words) for words in corpus])
    words = np.array([word for words in corpus for word in words], dtype=np.int32)
    cuts = [len(corpus) * n // parts for n in range(parts + 1)]
    bounds = list(pairwise(cuts))
    frequency = sum(sentences_with(ptr[a : b + 1], words[ptr[a] : ptr[b]], VOCABULARY) for a, b in bounds)
    return [IndexedPart(ptr[a : b + 1], words, a, frequency, len(corpus), theta) for a, b in bounds]


def search(parts: Sequence[IndexedPart], words: Sequence[int], k: int) -> Neighbours:
    found = [part.search(np.array(words, dtype=np.int32), k) for part in parts]
    return Neighbours(
        *(np.concatenate([getattr(each, name) for each in found]) for name in Neighbours._fields)
    ).nearest(k)


@settings(deadline=None)
@given(
    st.lists(sentence, min_size=1, max_size=25),
    st.lists(query, min_size=1, max_size=3),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_the_nearest_are_those_of_the_definition(
    corpus: list[list[int]], queries: list[list[int]], k: int, theta: float
) -> None:
    whole, three = in_parts(corpus, 1, theta), in_parts(corpus, 3, theta)
    for words in queries:
        found = search(whole, words, k)
        expected = np.array([distance(words, other, corpus, theta) for other in corpus])
        np.testing.assert_allclose(found.distance, np.sort(expected)[:k], atol=1e-12)
        np.testing.assert_allclose(found.distance, expected[found.number], atol=1e-12)
        assert len(set(found.number.tolist())) == min(k, len(corpus))
        # In order, and equals by their numbers.
        pairs = list(zip(found.distance.tolist(), found.number.tolist(), strict=True))
        assert pairs == sorted(pairs)
        # Each part by itself: the same bits.
        apart = search(three, words, k)
        assert (apart.number.tobytes(), apart.distance.tobytes()) == (found.number.tobytes(), found.distance.tobytes())
        # Nothing that was left out is as near, by the same bits.
        everything = search(whole, words, len(corpus))
        assert everything.number[:k].tolist() == found.number.tolist()


def test_the_sentence_itself_is_nearest_and_the_first_of_equals() -> None:
    corpus = [[1, 2, 3], [4, 5], [1, 2, 3], [3, 2, 1], [], [4, 5, 6]]
    found = search(in_parts(corpus, 1, 0.1), [1, 2, 3], 3)
    assert found.number.tolist() == [0, 2, 3]
    assert found.distance[:2] == pytest.approx([0.0, 0.0], abs=1e-15)
    # The same words, of which two are in other places.
    assert found.distance[2] == pytest.approx(0.1 * 2 / 3)
    nothing = search(in_parts(corpus, 2, 0.1), [], 6)
    assert nothing.number.tolist() == [4, 0, 1, 2, 3, 5]
    assert nothing.distance == pytest.approx([0.9, *[1.0] * 5])


def test_few_candidates_are_looked_at_word_by_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is worth something: of sentences that share nothing with the query, no edit distance is found."""
    random = np.random.default_rng(1)
    corpus = [random.integers(0, 4, size=6).tolist() for _ in range(20)]
    corpus += [random.integers(4, VOCABULARY, size=6).tolist() for _ in range(500)]
    (part,), looked = in_parts(corpus, 1, 0.1), []
    exactly = IndexedPart._exactly

    def counted(self: IndexedPart, candidates: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        looked.append(len(candidates))
        return exactly(self, candidates, *rest)

    monkeypatch.setattr(IndexedPart, "_exactly", counted)
    found = part.search(np.array([0, 1, 2, 3], dtype=np.int32), 5)
    assert found.number.max() < 20 and sum(looked) <= 25
