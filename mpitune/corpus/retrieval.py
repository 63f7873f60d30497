"""Search for the sentences of a corpus most similar to a sentence, by TF-IDF and word edit distance.

    dist(f1, f2) = theta edit(f1, f2) + (1 - theta) tfidf(f1, f2)

After Watanabe and Sumita 2003; Liu et al. 2012 retrieve training examples with it. The exact definitions of edit and
tfidf, both from 0 to 1, are a choice of this implementation: edit is the Levenshtein distance in words divided by the
length of the longer sentence (0 for two empty ones); tfidf is 1 - the cosine of the vectors of counts times
ln((S + 1) / (df + 1)), for S sentences of which df contain the word (cosine 0 for a zero vector).

A corpus may be searched in parts by different processes: distances do not depend on the division.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.sparse import csr_array

from mpitune.array_files.csr import select_rows
from mpitune.portable_math import log, logs


class Neighbours(NamedTuple):
    """Sentences in the order of distance; ties in the order of their numbers."""

    number: np.ndarray
    """int64 [found]"""
    distance: np.ndarray
    """float64 [found]"""

    def nearest(self, k: int) -> Neighbours:
        """The nearest ``k``, sorted; the fields of ``self`` may be in any order."""
        order = np.lexsort((self.number, self.distance))[:k]
        return Neighbours(self.number[order], self.distance[order])


def sentences_with(ptr: np.ndarray, words: np.ndarray, size: int) -> np.ndarray:
    """int64 [size]: the number of sentences that contain each word; ``ptr`` and ``words`` as in `IndexedPart`."""
    sentence = np.repeat(np.arange(len(ptr) - 1, dtype=np.int64), np.diff(ptr))
    return np.bincount(np.unique(sentence * size + words) % max(size, 1), minlength=size)


class IndexedPart:
    """A part of a corpus with an index for search."""

    def __init__(
        self, ptr: np.ndarray, words: np.ndarray, first: int, frequency: np.ndarray, sentences: int, theta: float
    ) -> None:
        """``ptr``: int64 [n + 1], sentence i is ``words[ptr[i]:ptr[i + 1]]`` (int32), number ``first`` + i of all.

        ``frequency``: int64 [vocabulary], the number of sentences of the whole corpus that contain each word;
        ``sentences``: the number of sentences of the whole corpus; ``theta``: from 0 to 1.
        """
        self._ptr, self._words, self._first, self._theta = ptr - ptr[0], words[ptr[0] : ptr[-1]], first, theta
        self._length = np.diff(ptr)
        self._idf = logs((sentences + 1) / (frequency + 1))
        self._unknown = log(sentences + 1.0)
        shape = (len(self._length), len(frequency))
        # Copied, because sum_duplicates sorts and merges in place.
        counts = csr_array((np.ones(len(self._words)), self._words, self._ptr), shape=shape, copy=True)
        counts.sum_duplicates()
        sentence = np.repeat(np.arange(shape[0]), np.diff(counts.indptr))
        squares = np.square(counts.data) * np.square(self._idf)[counts.indices]
        self._norm = np.sqrt(np.bincount(sentence, squares, minlength=shape[0]))
        self._postings = counts.T.tocsr()
        """Inverted index [vocabulary, sentences]: counts of each word."""
        self._code = np.zeros(len(frequency), dtype=np.uint32)

    def search(self, words: np.ndarray, k: int) -> Neighbours:
        """The ``k`` sentences nearest to ``words`` (int32; numbers past the vocabulary: words of no sentence)."""
        if len(self._length) == 0:
            return Neighbours(np.zeros(0, dtype=np.int64), np.zeros(0))
        longer = np.maximum(self._length, len(words))
        angle, shared = self._compare(words)
        # Lower bound: each word of the longer sentence that is not shared costs an edit at least.
        least = self._distance(longer - shared, longer, angle)
        if k < len(least):
            # A sentence with a lower bound above the largest distance of any k others is not among the nearest k.
            some = np.argpartition(least, k - 1)[:k]
            farthest = self._exactly(some, words, longer, angle).max()
            candidates = np.flatnonzero(least <= farthest)
        else:
            candidates = np.arange(len(least))
        return Neighbours(self._first + candidates, self._exactly(candidates, words, longer, angle)).nearest(k)

    def _compare(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """1 - the cosine with each sentence (float64 [n]), and the number of words shared with it (float64 [n])."""
        known, count = np.unique(words[words < len(self._idf)], return_counts=True)
        unknown = np.unique(words[words >= len(self._idf)], return_counts=True)[1]
        squared = np.square(count * self._idf[known]).sum() + np.square(unknown * self._unknown).sum()
        found = self._postings[known]
        # Summed word by word: the order, and so the rounding, does not depend on the division into parts.
        of_word, size = np.repeat(count * np.square(self._idf[known]), np.diff(found.indptr)), len(self._length)
        product = np.bincount(found.indices, found.data * of_word, minlength=size)
        norms = self._norm * np.sqrt(squared)
        cosine = np.divide(product, norms, out=np.zeros(len(norms)), where=norms > 0)
        shared = np.minimum(found.data, np.repeat(count, np.diff(found.indptr)))
        return np.clip(1.0 - cosine, 0.0, 1.0), np.bincount(found.indices, shared, minlength=size)

    def _exactly(self, candidates: np.ndarray, words: np.ndarray, longer: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """float64: the distances of the sentences ``candidates`` (int64)."""
        # Words become characters: 1, 2, ... for those of ``words``, 0 for all others, which equal none of them.
        distinct, codes = np.unique(words, return_inverse=True)
        known = distinct[distinct < len(self._code)]
        self._code[known] = np.arange(1, len(known) + 1)
        ptr, flat = select_rows(self._ptr, self._words, candidates)
        text = _characters(self._code[flat])
        self._code[known] = 0
        bounds = ptr.tolist()
        texts = [text[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        edits = cdist([_characters(codes.astype(np.uint32) + 1)], texts, scorer=Levenshtein.distance, dtype=np.int64)
        return self._distance(edits[0], longer[candidates], angle[candidates])

    def _distance(self, edits: np.ndarray, longer: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """float64: the distances; monotonic in ``edits``, even with rounding."""
        result: np.ndarray = self._theta * (edits / np.maximum(longer, 1)) + (1.0 - self._theta) * angle
        return result


def _characters(codes: np.ndarray) -> str:
    """A string with a character for each number (uint32), for comparison only."""
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
