"""TER, translation edit rate (Snover et al. 2006): word edits, including shifts of blocks, per reference word.

The search is Tercom's as implemented by sacreBLEU, with its limits: of all blocks of words that also occur in the
reference, the shift that saves most edits is applied, repeatedly, until no shift saves an edit; the remaining edits are
insertions, deletions and substitutions. The statistics of a translation are its number of edits to the closest
reference and the mean length of the references. Words are lowercased, sacreBLEU's default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import int64, kernel
from mpitune.metrics.tuning_metric import METRICS, Counter

LONGEST_SHIFT = 10
"""Maximum number of words in a block."""
FARTHEST_SHIFT = 50
"""Maximum distance, in words, of a block's positions in translation and reference."""
MOST_SHIFTS = 1000
"""Maximum number of shifts tried; the search then stops, and the shift that it would apply next is dropped."""
BEAM = 25
"""Half the width of the band around the diagonal in which edit distances are computed."""
UNIT = 720720
"""Length units per word: the mean of up to 16 lengths is a whole number of units."""
EDITS, LENGTH = 0, 1
"""Columns of a row of statistics."""
WIDTH = 2

_FAR = 1 << 30


class _Workspace(NamedTuple):
    """Working space of the search, for translations of up to n words and references of up to m words."""

    words: np.ndarray
    """int32 [n]: the translation after the shifts so far."""
    shifted: np.ndarray
    """int32 [n]: the translation after one more shift, to measure the edits that it saves."""
    cost: np.ndarray
    """int32 [n + 1, m + 1]: edit distances between the prefixes of ``words`` and of the reference."""
    shifted_cost: np.ndarray
    """int32 [n + 1, m + 1]: edit distances between the prefixes of ``shifted`` and of the reference."""
    aligned: np.ndarray
    """int32 [m]: position of the word aligned to each reference word, or of the last word before it, or -1."""
    wrong: np.ndarray
    """int32 [n + 1]: number of unmatched words in each prefix of the translation."""
    missed: np.ndarray
    """int32 [m + 1]: number of unmatched words in each prefix of the reference."""


class _Shift(NamedTuple):
    """A move of the ``length`` words at ``start`` to before word ``target``, which saves ``saved`` edits."""

    saved: int
    length: int
    start: int
    target: int


@METRICS.register("ter")
class Ter(Counter):
    """Counts the statistics of translations; ``words``, the vocabulary, may grow."""

    label, width, larger_is_better = "TER", WIDTH, False

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._number: dict[str, int] = {}
        self._lowered = np.zeros(0, dtype=np.int32)

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, 2]: edits, and mean reference length in units of 1 / `UNIT` words.

        ``references``: int32 [words] each, at least one.
        """
        if new := self._words[len(self._lowered) :]:
            numbers = [self._number.setdefault(word.lower(), len(self._number)) for word in new]
            self._lowered = np.append(self._lowered, np.array(numbers, dtype=np.int32))
        n, m = int(np.diff(kbest.word_ptr).max(initial=0)), max(map(len, references))
        work = _Workspace(
            *(np.empty(n, dtype=np.int32) for _ in range(2)),
            *(np.empty((n + 1, m + 1), dtype=np.int32) for _ in range(2)),
            *(np.empty(size, dtype=np.int32) for size in (m, n + 1, m + 1)),
        )
        edits = np.full(kbest.size, _FAR, dtype=np.int64)
        for reference in references:
            _fewest(kbest.word_ptr, self._lowered[kbest.word], self._lowered[reference], work, edits)
        length = sum(map(len, references)) * UNIT // len(references)
        return np.stack([edits, np.full(kbest.size, length)], axis=1)

    @staticmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: -TER, so that larger is better, in edits per reference word; ``statistics``: int64 [n, 2]."""
        edits, length = statistics[:, EDITS], statistics[:, LENGTH]
        rate: np.ndarray = np.where(length > 0, edits * UNIT / np.maximum(length, 1), np.minimum(edits, 1))
        return -rate


@kernel
def _fewest(ptr: np.ndarray, words: np.ndarray, reference: np.ndarray, work: _Workspace, edits: np.ndarray) -> None:
    """Set ``edits`` (int64 [k]) to the minimum of its value and the edits to ``reference`` (int32 [m]).

    ``ptr``: int64 [k + 1]; ``words``: int32, translation j is ``words[ptr[j]:ptr[j + 1]]``.
    """
    for j in range(len(edits)):
        edits[j] = min(edits[j], _edits(words[ptr[j] : ptr[j + 1]], reference, work))


@kernel
def _edits(text: np.ndarray, reference: np.ndarray, work: _Workspace) -> int:
    """The number of edits, shifts included, from ``text`` (int32 [n]) to ``reference`` (int32 [m])."""
    n, m = len(text), len(reference)
    if m == 0:
        return n
    for i in range(n):
        work.words[i] = text[i]
    for j in range(m + 1):
        work.cost[0, j] = j
        work.shifted_cost[0, j] = j
    shifts = 0
    tried = 0
    while True:
        _distances(work.words, n, reference, 0, work.cost)
        _align(n, reference, work)
        shift, tried = _best_shift(n, reference, work, tried)
        if tried >= MOST_SHIFTS or shift.saved <= 0:
            return shifts + int64(work.cost[n, m])
        _move(work.words, n, shift.start, shift.length, shift.target, work.shifted)
        for i in range(n):
            work.words[i] = work.shifted[i]
        shifts += 1


@kernel
def _distances(words: np.ndarray, n: int, reference: np.ndarray, done: int, cost: np.ndarray) -> None:
    """Fill rows ``done`` + 1 to ``n`` of ``cost`` (int32 [n + 1, m + 1]); the rows before are given.

    ``words``: int32, the first ``n`` of which are compared with ``reference`` (int32 [m]).
    """
    m = len(reference)
    slope = m / n if n > 0 else 1.0
    beam = BEAM if slope / 2 <= BEAM else int(math.ceil(slope / 2 + BEAM))
    for i in range(done + 1, n + 1):
        diagonal = int(math.floor(i * slope))
        low = max(0, diagonal - beam)
        high = m + 1 if i == n else min(m + 1, diagonal + beam)
        for j in range(m + 1):
            cost[i, j] = _FAR
        for j in range(low, high):
            nearest = min(cost[i - 1, j] + 1, _FAR)
            if j > 0:
                replaced = cost[i - 1, j - 1] + (words[i - 1] != reference[j - 1])
                nearest = min(nearest, replaced, cost[i, j - 1] + 1)
            cost[i, j] = nearest


@kernel
def _align(n: int, reference: np.ndarray, work: _Workspace) -> None:
    """Align the words by ``work.cost``: fill ``work.aligned``, ``work.wrong`` and ``work.missed``.

    Of equal cost, substitution comes before deletion of a word of the translation, and this before insertion.
    ``reference``: int32 [m]; ``work.words`` has ``n`` words.
    """
    i, j = n, len(reference)
    for a in range(n + 1):
        work.wrong[a] = 0
    for b in range(j + 1):
        work.missed[b] = 0
    while i > 0 or j > 0:
        differ = i > 0 and j > 0 and work.words[i - 1] != reference[j - 1]
        if i > 0 and j > 0 and work.cost[i, j] == work.cost[i - 1, j - 1] + differ:
            i -= 1
            j -= 1
            work.aligned[j] = i
            work.wrong[i + 1] = differ
            work.missed[j + 1] = differ
        elif i > 0 and work.cost[i, j] == work.cost[i - 1, j] + 1:
            i -= 1
            work.wrong[i + 1] = 1
        else:
            j -= 1
            work.aligned[j] = i - 1
            work.missed[j + 1] = 1
    for a in range(n):
        work.wrong[a + 1] += work.wrong[a]
    for b in range(len(reference)):
        work.missed[b + 1] += work.missed[b]


@kernel
def _best_shift(n: int, reference: np.ndarray, work: _Workspace, tried: int) -> tuple[_Shift, int]:
    """The shift that saves most edits, and the number of shifts tried so far, starting from ``tried``.

    Ties: the longest block, then the first block, then the first target. ``reference``: int32 [m]; ``work.words`` has
    ``n`` words.
    """
    m = len(reference)
    best = _Shift(-_FAR, 0, 0, 0)
    for start in range(n):
        for other in range(max(0, start - FARTHEST_SHIFT), min(m, start + FARTHEST_SHIFT + 1)):
            for length in range(1, min(LONGEST_SHIFT, n - start, m - other) + 1):
                if work.words[start + length - 1] != reference[other + length - 1]:
                    break
                if (
                    work.wrong[start + length] == work.wrong[start]
                    or work.missed[other + length] == work.missed[other]
                    or start <= work.aligned[other] < start + length
                ):
                    continue
                before = -1
                for place in range(other - 1, other + length):
                    target = work.aligned[place] + 1 if place >= 0 else 0
                    if target == before:
                        continue
                    before = target
                    _move(work.words, n, start, length, target, work.shifted)
                    done = min(start, target)
                    for j in range(m + 1):
                        work.shifted_cost[done, j] = work.cost[done, j]
                    _distances(work.shifted, n, reference, done, work.shifted_cost)
                    saved = work.cost[n, m] - work.shifted_cost[n, m]
                    tried += 1
                    if saved > best.saved or (
                        saved == best.saved
                        and (
                            length > best.length
                            or (length == best.length and start == best.start and target < best.target)
                        )
                    ):
                        best = _Shift(saved, length, start, target)
                if tried >= MOST_SHIFTS:
                    return best, tried
    return best, tried


@kernel
def _move(words: np.ndarray, n: int, start: int, length: int, target: int, result: np.ndarray) -> None:
    """Write ``words`` (int32 [n]) to ``result``, the ``length`` words at ``start`` moved to before word ``target``.

    If ``target`` lies inside the block, the block moves right by the target's offset in it, at most to the end.
    """
    place = target
    if target > start + length:
        place = target - length
    elif target > start:
        place = min(target, n - length)
    source = 0
    for i in range(n):
        if place <= i < place + length:
            result[i] = words[start + i - place]
        else:
            if source == start:
                source += length
            result[i] = words[source]
            source += 1
