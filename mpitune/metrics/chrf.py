"""chrF (Popovic 2015), the F-score of character n-grams: chrF2 with n up to 6, sacreBLEU's default.

Case is kept; spaces are removed. The statistics of a translation are the numbers of its n-grams of each order, of the
reference's, and of the matches. Of several references, the one with the highest score counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.array_files.csr import row_ends, select_rows
from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.metrics.bleu import ReferenceNgrams, count_matches, empty_ngrams, read_references
from mpitune.metrics.tuning_metric import METRICS, Counter

ORDER = 6
"""Maximum n-gram order."""
TOTALS, REFERENCE, MATCHES = 0, ORDER, 2 * ORDER
"""Columns of a row of statistics: first n-gram count of the translation, of the reference, first match."""
WIDTH = 3 * ORDER
BETA = 2
"""Weight of recall against precision."""


@METRICS.register("chrf")
class Chrf(Counter):
    """Counts the statistics of translations; ``words``, the vocabulary, may grow."""

    label, width = "chrF", WIDTH

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._ptr = np.zeros(1, dtype=np.int64)
        self._characters = np.zeros(0, dtype=np.int32)

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, 18]: the statistics of each translation; ``references``: int32 [words] each, at least one."""
        if new := ["".join(word.split()) for word in self._words[len(self._ptr) - 1 :]]:
            self._ptr = np.append(self._ptr, self._ptr[-1] + row_ends([len(word) for word in new])[1:])
            characters = np.array([ord(character) for word in new for character in word], dtype=np.int32)
            self._characters = np.append(self._characters, characters)
        by_word, text = select_rows(self._ptr, self._characters, kbest.word)
        result = np.empty((kbest.size, WIDTH), dtype=np.int64)
        best, row = np.full(kbest.size, -1.0), np.empty(WIDTH, dtype=np.int64)
        for words in references:
            _, reference = select_rows(self._ptr, self._characters, words)
            ngrams, whole = empty_ngrams(len(reference), ORDER), np.array([0, len(reference)])
            _compare(by_word[kbest.word_ptr], text, whole, reference, ngrams, row, best, result)
        return result

    @staticmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: chrF, 0 to 1, from ``statistics`` (int64 [n, 18])."""
        scores = np.empty(len(statistics))
        _scores(np.ascontiguousarray(statistics), scores)
        return scores


@kernel
def _compare(
    ptr: np.ndarray,
    text: np.ndarray,
    whole: np.ndarray,
    reference: np.ndarray,
    ngrams: ReferenceNgrams,
    row: np.ndarray,
    best: np.ndarray,
    result: np.ndarray,
) -> None:
    """Replace the statistics of translations that score higher against ``reference`` than against earlier references.

    ``ptr``: int64 [k + 1] and ``text``: int32, characters of the translations; ``whole``: int64 [2] and ``reference``:
    int32, those of the reference; ``row``: int64 [18], working space; ``best``: float64 [k], highest score so far,
    updated; ``result``: int64 [k, 18], updated.
    """
    nodes = read_references(whole, reference, ORDER, ngrams)
    for j in range(len(result)):
        count_matches(text[ptr[j] : ptr[j + 1]], ORDER, nodes, ngrams, row[MATCHES:])
        for n in range(ORDER):
            row[REFERENCE + n] = max(len(reference) - n, 0)
            # Without reference n-grams of this order, the translation's do not count.
            row[TOTALS + n] = max(ptr[j + 1] - ptr[j] - n, 0) if row[REFERENCE + n] > 0 else 0
        found = _percent(row)
        if found > best[j]:
            best[j] = found
            for e in range(WIDTH):
                result[j, e] = row[e]


@kernel
def _scores(statistics: np.ndarray, scores: np.ndarray) -> None:
    """`score`; ``statistics``: int64 [n, 18]; ``scores``: float64 [n], filled."""
    for j in range(len(scores)):
        scores[j] = _percent(statistics[j]) / 100


@kernel
def _percent(row: np.ndarray) -> float:
    """chrF, 0 to 100, of one ``row`` of statistics (int64 [18]), averaged over the orders that both sides have."""
    precision = 0.0
    recall = 0.0
    orders = 0
    for n in range(ORDER):
        if row[TOTALS + n] > 0 and row[REFERENCE + n] > 0:
            precision += row[MATCHES + n] / row[TOTALS + n]
            recall += row[MATCHES + n] / row[REFERENCE + n]
            orders += 1
    if precision + recall == 0:
        return 0.0
    precision /= orders
    recall /= orders
    return 100 * ((1 + BETA * BETA) * precision * recall / (BETA * BETA * precision + recall))
