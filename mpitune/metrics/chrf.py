"""chrF (Popovic 2015), the F-score of character n-grams: chrF2, with n up to 6, as sacreBLEU has it by default.

Characters count in their own case, spaces do not count. The statistics of a translation are how many n-grams of each
order it has, how many the reference has, and how many are in both; of several references those of the one that it
scores highest against.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.array_files.csr import row_ends, select_rows
from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.metrics.bleu import ReferenceNgrams, count_matches, read_references, room_for

ORDER = 6
"""The longest n-grams that count."""
TOTALS, REFERENCE, MATCHES = 0, ORDER, 2 * ORDER
"""Where those of the translation, those of the reference, and the matches begin in a row of statistics."""
WIDTH = 3 * ORDER
BETA = 2
"""How many times as much recall counts as precision."""


class Chrf:
    """The statistics of translations in words of a vocabulary that may grow."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._ptr = np.zeros(1, dtype=np.int64)
        self._characters = np.zeros(0, dtype=np.int32)

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, 18]; ``references``: int32 [words] each, at least one."""
        if new := ["".join(word.split()) for word in self._words[len(self._ptr) - 1 :]]:
            self._ptr = np.append(self._ptr, self._ptr[-1] + row_ends([len(word) for word in new])[1:])
            characters = np.array([ord(character) for word in new for character in word], dtype=np.int32)
            self._characters = np.append(self._characters, characters)
        by_word, text = select_rows(self._ptr, self._characters, kbest.word)
        result = np.empty((kbest.size, WIDTH), dtype=np.int64)
        best, row = np.full(kbest.size, -1.0), np.empty(WIDTH, dtype=np.int64)
        for words in references:
            _, reference = select_rows(self._ptr, self._characters, words)
            ngrams, whole = room_for(len(reference), ORDER), np.array([0, len(reference)])
            _compare(by_word[kbest.word_ptr], text, whole, reference, ngrams, row, best, result)
        return result


def score(statistics: np.ndarray) -> np.ndarray:
    """float64 [n]: chrF, 0 to 1."""
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
    """Put into ``result`` the statistics against ``reference`` wherever their score is above ``best``."""
    nodes = read_references(whole, reference, ORDER, ngrams)
    for j in range(len(result)):
        count_matches(text[ptr[j] : ptr[j + 1]], ORDER, nodes, ngrams, row[MATCHES:])
        for n in range(ORDER):
            row[REFERENCE + n] = max(len(reference) - n, 0)
            # Where the reference has none, those of the translation are not held against it.
            row[TOTALS + n] = max(ptr[j + 1] - ptr[j] - n, 0) if row[REFERENCE + n] > 0 else 0
        found = _percent(row)
        if found > best[j]:
            best[j] = found
            for e in range(WIDTH):
                result[j, e] = row[e]


@kernel
def _scores(statistics: np.ndarray, scores: np.ndarray) -> None:
    for j in range(len(scores)):
        scores[j] = _percent(statistics[j]) / 100


@kernel
def _percent(row: np.ndarray) -> float:
    """From the means of precision and recall over the orders that both sides have."""
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
    return 100 * ((1 + BETA**2) * precision * recall / (BETA**2 * precision + recall))
