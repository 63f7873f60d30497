"""WER and CER, error rates of words and of characters: insertions, deletions and substitutions per unit of references.

Case is kept. Characters are those of the words with one blank between them, as is usual for speech. The statistics of a
translation are its number of edits and the length of the reference; of several references, the one with the lowest rate
counts, the first of equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import int64, kernel, uint64
from mpitune.metrics.spelling import Spelling
from mpitune.metrics.tuning_metric import METRICS, Counter

EDITS, LENGTH = 0, 1
"""Columns of a row of statistics."""
BITS = 64
"""Units of a reference that are compared at a time."""

_ONE, _ALL, _TOP = np.uint64(1), np.uint64(2**BITS - 1), np.uint64(BITS - 1)


@METRICS.register("wer")
class Wer(Counter):
    """Counts the edits of words."""

    label, width, larger_is_better = "WER", 2, False
    _after = 0
    """Units after each word that do not count after the last one."""

    def __init__(self, words: Sequence[str]) -> None:
        """The statistics do not depend on the words."""

    def _units(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The units of ``words`` (int32): int64 [words + 1], their rows (CSR), and int32."""
        return np.arange(len(words) + 1), words

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, 2]: edits and length of the reference; ``references``: int32 [words] each, at least one."""
        ptr, text = self._units(kbest.word)
        begin, end = ptr[kbest.word_ptr[:-1]], ptr[kbest.word_ptr[1:]]
        end = np.maximum(end - self._after, begin)
        result = np.tile(np.array([1 << 30, 1]), (kbest.size, 1))
        for words in references:
            _, reference = self._units(words)
            reference = reference[: max(len(reference) - self._after, 0)]
            blocks = -(-len(reference) // BITS)
            work = _Workspace(
                np.zeros(max(text.max(initial=0), reference.max(initial=0)) + 1, dtype=np.int32),
                np.zeros((len(reference) + 1, blocks), dtype=np.uint64),
                *(np.empty(blocks, dtype=np.uint64) for _ in range(2)),
            )
            _compare(begin, end, text, reference, work, result)
        return result

    @staticmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: -WER, so that larger is better; of empty references -1, but 0 without edits.

        ``statistics``: int64 [n, 2].
        """
        edits, length = statistics[:, EDITS], statistics[:, LENGTH]
        rate: np.ndarray = np.where(length > 0, edits / np.maximum(length, 1), np.minimum(edits, 1))
        return -rate


@METRICS.register("cer")
class Cer(Wer):
    """Counts the edits of characters; ``words``, the vocabulary, may grow."""

    label, _after = "CER", 1

    def __init__(self, words: Sequence[str]) -> None:
        self._characters = Spelling(words, lambda word: [*map(ord, f"{word} ")])

    def _units(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._characters.of(words)


class _Workspace(NamedTuple):
    """Working space for a reference of m units."""

    row: np.ndarray
    """int32 [largest unit + 1], zeros: the row of each unit of the reference in ``places``; 0 for other units."""
    places: np.ndarray
    """uint64 [m + 1, blocks], zeros: the places of a unit in the reference, a bit each."""
    rises: np.ndarray
    """uint64 [blocks]: where the distance to a prefix of the reference is larger by one than to the prefix before."""
    falls: np.ndarray
    """uint64 [blocks]: where it is smaller by one."""


@kernel
def _compare(
    begin: np.ndarray, end: np.ndarray, text: np.ndarray, reference: np.ndarray, work: _Workspace, result: np.ndarray
) -> None:
    """Replace the statistics of translations that have a lower rate with ``reference`` (int32 [m]) than so far.

    ``begin``, ``end``: int64 [k] and ``text``: int32, the translations; ``result``: int64 [k, 2], updated.
    """
    m = len(reference)
    rows = 0
    for j in range(m):
        if work.row[reference[j]] == 0:
            rows += 1
            work.row[reference[j]] = rows
        work.places[work.row[reference[j]], j // BITS] |= _ONE << uint64(j % BITS)
    for j in range(len(result)):
        edits = _distance(text[begin[j] : end[j]], m, work)
        if edits * max(result[j, LENGTH], 1) < result[j, EDITS] * max(m, 1):
            result[j, EDITS] = edits
            result[j, LENGTH] = m


@kernel
def _distance(text: np.ndarray, m: int, work: _Workspace) -> int:
    """The edit distance of ``text`` (int32) and the reference of ``work``, which has ``m`` units.

    The columns of the matrix of distances, as bits of their differences (Myers 1999, Hyyro 2003).
    """
    if m == 0:
        return len(text)
    blocks = len(work.rises)
    for b in range(blocks):
        work.rises[b] = _ALL
        work.falls[b] = uint64(0)
    distance = m
    last = uint64((m - 1) % BITS)
    for unit in text:
        places = work.places[work.row[unit]]
        rise = _ONE
        fall = uint64(0)
        for b in range(blocks):
            equal = places[b] | fall
            diagonal = (((equal & work.rises[b]) + work.rises[b]) ^ work.rises[b]) | equal | work.falls[b]
            rises = work.falls[b] | ~(diagonal | work.rises[b])
            falls = diagonal & work.rises[b]
            if b == blocks - 1:
                distance += int64((rises >> last) & _ONE) - int64((falls >> last) & _ONE)
            along_rises = (rises << _ONE) | rise
            along_falls = (falls << _ONE) | fall
            rise = rises >> _TOP
            fall = falls >> _TOP
            work.rises[b] = along_falls | ~(diagonal | along_rises)
            work.falls[b] = along_rises & diagonal
    return distance
