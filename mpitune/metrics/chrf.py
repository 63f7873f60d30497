"""chrF (Popovic 2015), the F-score of character n-grams, and chrF++ (Popovic 2017), with word n-grams besides.

Both as sacreBLEU computes them: chrF2 with n up to 6; words up to n = 2, one punctuation mark at the end of a word, or
else at its beginning, being a word of its own. Case is kept; of characters, spaces are removed. The statistics of a
translation are the numbers of its n-grams of each order, of the reference's, and of the matches. Of several references,
the one with the highest score counts.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.metrics.bleu import ReferenceNgrams, count_matches, empty_ngrams, read_references
from mpitune.metrics.spelling import Spelling
from mpitune.metrics.tuning_metric import METRICS, Counter

ORDER = 6
"""Maximum order of n-grams of characters."""
WORD_ORDER = 2
"""Maximum order of n-grams of words, for chrF++."""
BETA = 2
"""Weight of recall against precision."""


@METRICS.register("chrf")
class Chrf(Counter):
    """Counts the statistics of translations; ``words``, the vocabulary, may grow."""

    label, width = "chrF", 3 * ORDER

    def __init__(self, words: Sequence[str]) -> None:
        self._kinds = [(Spelling(words, lambda word: [*map(ord, "".join(word.split()))]), ORDER)]

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, width]: the statistics of each translation; ``references``: int32 [words] each, at least one."""
        texts = [spelling.of(kbest.word) for spelling, _ in self._kinds]
        result = np.empty((kbest.size, self.width), dtype=np.int64)
        best, found = np.full(kbest.size, -1.0), np.empty_like(result)
        for words in references:
            first = 0
            for (by_word, text), (spelling, order) in zip(texts, self._kinds, strict=True):
                _, reference = spelling.of(words)
                ngrams, whole = empty_ngrams(len(reference), order), np.array([0, len(reference)])
                _count(by_word[kbest.word_ptr], text, whole, reference, ngrams, first, order, found)
                first += order
            _keep_better(found, best, result)
        return result

    @staticmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: chrF, 0 to 1, from ``statistics`` (int64 [n, width])."""
        scores = np.empty(len(statistics))
        _scores(np.ascontiguousarray(statistics), scores)
        return scores


@METRICS.register("chrf++")
class ChrfPlusPlus(Chrf):
    """`Chrf` with n-grams of words as further orders."""

    label, width = "chrF++", 3 * (ORDER + WORD_ORDER)

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words)
        numbers = dict[str, int]()
        self._kinds += [
            (
                Spelling(words, lambda word: [numbers.setdefault(part, len(numbers)) for part in parts_of(word)]),
                WORD_ORDER,
            )
        ]


def parts_of(word: str) -> list[str]:
    """The words that chrF++ takes ``word`` for: a punctuation mark at its end, or else at its beginning, is its own."""
    found = []
    for part in word.split():  # at blanks of all scripts
        if len(part) > 1 and part[-1] in string.punctuation:
            found += [part[:-1], part[-1]]
        elif len(part) > 1 and part[0] in string.punctuation:
            found += [part[0], part[1:]]
        else:
            found.append(part)
    return found


@kernel
def _count(
    ptr: np.ndarray,
    text: np.ndarray,
    whole: np.ndarray,
    reference: np.ndarray,
    ngrams: ReferenceNgrams,
    first: int,
    order: int,
    found: np.ndarray,
) -> None:
    """Count n-grams of up to ``order`` units as the orders from ``first`` on.

    ``ptr``: int64 [k + 1] and ``text``: int32, units of the translations; ``whole``: int64 [2] and ``reference``:
    int32, those of the reference; ``found``: int64 [k, 3 orders], filled in part: for each order the n-grams of the
    translation, then those of the reference, then the matches.
    """
    nodes = read_references(whole, reference, order, ngrams)
    orders = found.shape[1] // 3
    for j in range(len(found)):
        row = found[j]
        count_matches(text[ptr[j] : ptr[j + 1]], order, nodes, ngrams, row[2 * orders + first :])
        for n in range(order):
            row[orders + first + n] = max(len(reference) - n, 0)
            # Without reference n-grams of this order, the translation's do not count.
            row[first + n] = max(ptr[j + 1] - ptr[j] - n, 0) if n < len(reference) else 0


@kernel
def _keep_better(found: np.ndarray, best: np.ndarray, result: np.ndarray) -> None:
    """Replace the statistics of translations that score higher in ``found`` than in ``result``.

    ``found``: int64 [k, width]; ``best``: float64 [k], highest score so far, updated; ``result``: int64 [k, width],
    updated.
    """
    for j in range(len(result)):
        score = _percent(found[j])
        if score > best[j]:
            best[j] = score
            for e in range(found.shape[1]):
                result[j, e] = found[j, e]


@kernel
def _scores(statistics: np.ndarray, scores: np.ndarray) -> None:
    """`Chrf.score`; ``statistics``: int64 [n, width]; ``scores``: float64 [n], filled."""
    for j in range(len(scores)):
        scores[j] = _percent(statistics[j]) / 100


@kernel
def _percent(row: np.ndarray) -> float:
    """chrF, 0 to 100, of one ``row`` of statistics (int64 [width]), averaged over the orders that both sides have."""
    every = len(row) // 3
    precision = 0.0
    recall = 0.0
    orders = 0
    for n in range(every):
        if row[n] > 0 and row[every + n] > 0:
            precision += row[2 * every + n] / row[n]
            recall += row[2 * every + n] / row[every + n]
            orders += 1
    if precision + recall == 0:
        return 0.0
    precision /= orders
    recall /= orders
    return 100 * ((1 + BETA * BETA) * precision * recall / (BETA * BETA * precision + recall))
