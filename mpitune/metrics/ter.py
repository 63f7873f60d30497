"""TER, translation edit rate (Snover et al. 2006): edits of words, shifts of blocks among them, to reference words.

Edits are found as Tercom finds them, in the version of sacreBLEU, with its limits: from all blocks of words that stand
in the reference too, the shift that saves most edits is done, again and again, until none saves any; then words are
put in, left out and replaced. The statistics of a translation are its edits to the reference that takes fewest, and
the mean length of the references. Words count in lower case, as by sacreBLEU's default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import int64, kernel

LONGEST_SHIFT = 10
"""Words in a block."""
FARTHEST_SHIFT = 50
"""Words between a block's places in translation and reference."""
MOST_SHIFTS = 1000
"""How many are tried before the search is given up, and what it would do next is left out."""
BEAM = 25
"""How far edit distances are followed from the diagonal."""
UNIT = 720720
"""What lengths are counted in, a word's share: the mean of up to 16 lengths is a whole number of them."""
EDITS, LENGTH = 0, 1
"""Where edits and length stand in a row of statistics."""
WIDTH = 2

_FAR = 1 << 30


class _Work(NamedTuple):
    """What the search writes to; one for the longest translation (n words) and reference (m) will do for all."""

    words: np.ndarray
    """int32 [n]: the translation, after the shifts so far."""
    shifted: np.ndarray
    """int32 [n]: with one more shift, to see what it saves."""
    cost: np.ndarray
    """int32 [n + 1, m + 1]: edit distances between the beginnings of ``words`` and the reference."""
    shifted_cost: np.ndarray
    """int32 [n + 1, m + 1]: those of ``shifted``."""
    aligned: np.ndarray
    """int32 [m]: the word of the translation at or before each of the reference, or -1."""
    wrong: np.ndarray
    """int32 [n + 1]: how many of the translation's first words are not the reference's."""
    missed: np.ndarray
    """int32 [m + 1]: how many of the reference's first words are not the translation's."""


class _Shift(NamedTuple):
    """A block of ``length`` words at ``start`` goes to before word ``target``, which saves ``saved`` edits."""

    saved: int
    length: int
    start: int
    target: int


class Ter:
    """The statistics of translations in words of a vocabulary that may grow."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._number: dict[str, int] = {}
        self._lowered = np.zeros(0, dtype=np.int32)

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, 2]: edits, and mean reference length, in `UNIT`.

        ``references``: int32 [words] each, at least one.
        """
        if new := self._words[len(self._lowered) :]:
            numbers = [self._number.setdefault(word.lower(), len(self._number)) for word in new]
            self._lowered = np.append(self._lowered, np.array(numbers, dtype=np.int32))
        n, m = int(np.diff(kbest.word_ptr).max(initial=0)), max(map(len, references))
        work = _Work(
            *(np.empty(n, dtype=np.int32) for _ in range(2)),
            *(np.empty((n + 1, m + 1), dtype=np.int32) for _ in range(2)),
            *(np.empty(size, dtype=np.int32) for size in (m, n + 1, m + 1)),
        )
        edits = np.full(kbest.size, _FAR, dtype=np.int64)
        for reference in references:
            _fewest(kbest.word_ptr, self._lowered[kbest.word], self._lowered[reference], work, edits)
        length = sum(map(len, references)) * UNIT // len(references)
        return np.stack([edits, np.full(kbest.size, length)], axis=1)


def score(statistics: np.ndarray) -> np.ndarray:
    """float64 [n]: minus TER (1: an edit for each reference word), so that more is better."""
    edits, length = statistics[:, EDITS], statistics[:, LENGTH]
    rate: np.ndarray = np.where(length > 0, edits * UNIT / np.maximum(length, 1), np.minimum(edits, 1))
    return -rate


@kernel
def _fewest(ptr: np.ndarray, words: np.ndarray, reference: np.ndarray, work: _Work, edits: np.ndarray) -> None:
    """``edits``: int64 [k], made smaller where those to ``reference`` are fewer."""
    for j in range(len(edits)):
        edits[j] = min(edits[j], _edits(words[ptr[j] : ptr[j + 1]], reference, work))


@kernel
def _edits(text: np.ndarray, reference: np.ndarray, work: _Work) -> int:
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
def _distances(words: np.ndarray, n: int, reference: np.ndarray, known: int, cost: np.ndarray) -> None:
    """Fill in ``cost`` after its first ``known`` + 1 rows."""
    m = len(reference)
    slope = m / n if n > 0 else 1.0
    beam = BEAM if slope / 2 <= BEAM else int(math.ceil(slope / 2 + BEAM))
    for i in range(known + 1, n + 1):
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
def _align(n: int, reference: np.ndarray, work: _Work) -> None:
    """Which words stand for which by ``work.cost``: replaced rather than left out, left out rather than put in."""
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
def _best_shift(n: int, reference: np.ndarray, work: _Work, tried: int) -> tuple[_Shift, int]:
    """The shift that saves most edits, and how many have been tried by now.

    Of several the longest block, the first, to the first place.
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
                    known = min(start, target)
                    for j in range(m + 1):
                        work.shifted_cost[known, j] = work.cost[known, j]
                    _distances(work.shifted, n, reference, known, work.shifted_cost)
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
    """``result``: ``words``, the block at ``start`` now before word ``target``, or as far in itself as that is."""
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
