"""The distinct n-grams of a text with their counts, in suffix order: runs that fit the memory are sorted, and merged.

A row is the longest n-gram that ends at a token, newest word first, and how often it occurs. Before its sentence there
are as many ``<s>`` as a row needs: shorter n-grams are the beginnings of rows, up to the first ``<s>``. So the rows in
ascending order have all n-grams of all lengths in suffix order: by their last words, then by those before, and so on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.disk_array import Scratch
from mpitune.corpus.progress import Progress
from mpitune.jit import at, inlined, int64, kernel, uint64
from mpitune.lm.numbered_text import START

_LEAST_RUN = 1 << 20
"""Tokens of a run, at least: a run takes an open file, and time to merge."""
_DIGIT = 8
"""Bits that rows are sorted by at a time."""
_WINDOW = 1 << 14
"""Rows of a run that are merged at a time."""


class Ngrams(NamedTuple):
    """N-grams of all lengths, as a trie of their words from the last one back.

    Place 0 is that of the empty n-gram. N-grams of a length follow one another in suffix order; the word w is the
    1-gram at 1 + w. All are int32.
    """

    first: np.ndarray
    """The first word, w1."""
    counts: np.ndarray
    """Adjusted counts (Heafield et al. 2013, section 3.2): the number of distinct words, including ``<s>``, that
    precede w1 .. wn. For the longest n-grams, and for those that begin with ``<s>`` and so have no preceding word, it
    is the number of occurrences. That of the 1-gram ``<s>`` is 0."""
    suffix: np.ndarray
    """The place of w2 .. wn."""
    child: np.ndarray
    """The first of the n-grams that are longer by a word on the left, as many as ``counts`` says, ascending by it."""


class Runs:
    """Collects sentences into sorted runs of rows."""

    def __init__(self, order: int, scratch: Scratch, memory: int) -> None:
        """``order``: the length of the longest n-grams; ``memory``: bytes, half of which sorting a run takes, about."""
        self.order = order
        self.rows: list[np.ndarray] = []
        """int32 [rows, order + 1] each."""
        self.most = np.zeros(order + 1, dtype=np.int64)
        """int64: of each length, the n-grams of all runs together."""
        self._scratch = scratch
        # A token, and the keys of its row, twice.
        self._run_tokens = max(_LEAST_RUN, memory // (2 * (8 * order + 12)))
        self._blocks: list[np.ndarray] = []
        self._tokens = 0

    def add(self, sentences: np.ndarray, words: int) -> None:
        """Add sentences with ``order`` - 1 times ``<s>`` before each (int32); ``words``: number of the largest, + 1."""
        self._blocks.append(sentences)
        self._tokens += len(sentences)
        if self._tokens >= self._run_tokens:
            self.finish(words)

    def finish(self, words: int) -> None:
        """Sort what is left."""
        if not self._blocks:
            return
        token = np.concatenate(self._blocks)
        self._blocks.clear()
        self._tokens = 0
        bits = max(words - 1, 1).bit_length()
        per_key = 64 // bits
        keys = np.empty((np.count_nonzero(token != START), -(-self.order // per_key)), dtype=np.uint64)
        _pack(token, bits, self.order, keys)
        del token
        keys = _sorted(keys, bits * per_key)
        rows = self._scratch.empty(len(keys) * (self.order + 1), np.int32).reshape(-1, self.order + 1)
        used = 0
        for begin in range(0, len(keys), _WINDOW):
            used = _count_rows(keys[begin : begin + _WINDOW], bits, rows, used, self.most)
            self._scratch.release()
        self.rows.append(rows[:used])

    def merged(self, words: int, progress: Progress) -> tuple[Ngrams, list[range]]:
        """The n-grams of all runs, which are used up, and the places of those of each length, from 0 on.

        ``words``: the size of the vocabulary; the items of ``progress`` are rows.
        """
        begin = np.cumsum([0, 1, words, *self.most[2:]])
        size, inner = int(begin[-1]), int(begin[-2])
        ngrams = Ngrams(*(self._scratch.empty(each, np.int32) for each in (size, size, size, inner)))
        # All words are 1-grams, whether they occur or not.
        ngrams.first[: words + 1] = np.arange(-1, words)
        ngrams.counts[: words + 1] = 0
        ngrams.suffix[: words + 1] = 0
        ngrams.counts[0], ngrams.child[0] = words, 1
        end = begin[:-1].copy()
        end[:2] += 1, words
        self._merge(ngrams, end, progress)
        return ngrams, [range(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=False)]

    def _merge(self, ngrams: Ngrams, end: np.ndarray, progress: Progress) -> None:
        window = np.empty((len(self.rows), _WINDOW, self.order + 1), dtype=np.int32)
        filled, merged, used = np.zeros((3, len(self.rows)), dtype=np.int64)
        current = np.full((2, self.order), -1, dtype=np.int32)
        for run in range(len(self.rows)):
            self._fill(window, filled, merged, used, run)
        while (run := _merge(window, filled, used, current, ngrams, end)) >= 0:
            progress.advance(int(used[run]))
            self._fill(window, filled, merged, used, run)
        self.rows.clear()

    def _fill(self, window: np.ndarray, filled: np.ndarray, merged: np.ndarray, used: np.ndarray, run: int) -> None:
        """Take the next rows of a run into its ``window``."""
        part = self.rows[run][merged[run] : merged[run] + _WINDOW]
        window[run, : len(part)] = part
        merged[run] += len(part)
        filled[run], used[run] = len(part), 0
        self._scratch.release()


def _sorted(keys: np.ndarray, bits: int) -> np.ndarray:
    """The rows of ``keys`` (uint64, with so many ``bits`` in use), ascending; ``keys`` becomes anything."""
    other, start = np.empty_like(keys), np.empty((1 << _DIGIT) + 1, dtype=np.int64)
    for column in range(keys.shape[1] - 1, -1, -1):
        for shift in range(0, bits, _DIGIT):
            if _sort(keys, column, shift, start, other):
                keys, other = other, keys
    return keys


@kernel
def _pack(token: np.ndarray, bits: int, order: int, keys: np.ndarray) -> None:
    """Write the last ``order`` words at each token but `START`, newest first, to ``keys``: ``bits`` for each word.

    ``keys``: uint64 [tokens, columns]; a column has as many whole words as it can hold.
    """
    per_key = 64 // bits
    used = 0
    for p in range(len(token)):
        if token[at(p)] == START:
            continue
        back = 0
        for column in range(keys.shape[1]):
            key = uint64(0)
            for _ in range(per_key):
                key = key << uint64(bits) | uint64(token[at(p - back)] if back < order else 0)
                back += 1
            keys[at(used), at(column)] = key
        used += 1


@kernel
def _sort(keys: np.ndarray, column: int, shift: int, start: np.ndarray, sorted_: np.ndarray) -> bool:
    """Sort the rows of ``keys`` by `_DIGIT` bits of a column, from ``shift`` on, keeping the order of equal ones.

    ``start``: int64 [2^`_DIGIT` + 1], for use in here. False, and nothing is written, if these bits are equal in all.
    """
    mask = uint64(len(start) - 2)
    start[:] = 0
    for i in range(len(keys)):
        start[at((keys[at(i), at(column)] >> uint64(shift) & mask) + uint64(1))] += 1
    for digit in range(1, len(start)):
        if start[digit] == len(keys):
            return False
        start[digit] += start[digit - 1]
    for i in range(len(keys)):
        digit = keys[at(i), at(column)] >> uint64(shift) & mask
        place = start[at(digit)]
        start[at(digit)] = place + 1
        for each in range(keys.shape[1]):
            sorted_[at(place), at(each)] = keys[at(i), at(each)]
    return True


@kernel
def _count_rows(keys: np.ndarray, bits: int, rows: np.ndarray, used: int, most: np.ndarray) -> int:
    """Write the distinct rows of the sorted ``keys`` after ``used`` others of ``rows``; returns their number.

    ``most`` (int64 [order + 1]): gets the number of new n-grams of each length added to it.
    """
    order, per_key, mask = len(most) - 1, 64 // bits, (uint64(1) << uint64(bits)) - uint64(1)
    for i in range(len(keys)):
        common = order
        row = rows[used]
        for back in range(order):
            shift = bits * (per_key - 1 - back % per_key)
            row[back] = keys[at(i), at(back // per_key)] >> uint64(shift) & mask
            if common == order and (used == 0 or row[back] != rows[used - 1, back]):
                common = back
        if common == order:
            rows[used - 1, order] += 1
            continue
        row[order] = 1
        for length in range(common + 1, order + 1):
            most[length] += 1
            if row[length - 1] == START:
                break
        used += 1
    return used


@kernel
def _merge(
    window: np.ndarray, filled: np.ndarray, used: np.ndarray, current: np.ndarray, ngrams: Ngrams, end: np.ndarray
) -> int:
    """Add rows to ``ngrams`` in ascending order, until those of a run in ``window`` are used up.

    Returns the run, or -1 if there are no rows. ``filled``, ``used``: int64 [runs], rows of each run in ``window``;
    ``current``: int32 [2, order], the last row that was added, and the places of its n-grams; ``end``: int64
    [order + 1], the ends of the n-grams of each length.
    """
    order = len(end) - 1
    while True:
        least = -1
        for run in range(len(filled)):
            if used[run] == filled[run]:
                if filled[run] > 0:
                    return run
            elif least < 0 or _is_less(window[run, used[run]], window[least, used[least]]):
                least = run
        if least < 0:
            return -1
        _add(window[least, used[least]], current, ngrams, end, order)
        used[least] += 1


@inlined
def _is_less(one: np.ndarray, other: np.ndarray) -> bool:
    k = 0
    while k < len(one) - 2 and one[k] == other[k]:
        k += 1
    return bool(one[k] < other[k])


@inlined
def _add(row: np.ndarray, current: np.ndarray, ngrams: Ngrams, end: np.ndarray, order: int) -> None:
    """Add the n-grams of ``row`` that the last row does not have; if it has all of them, only the occurrences."""
    common = 0
    while common < order - 1 and row[common] == current[0, common] and row[common] != START:
        common += 1
    length = common + 1
    if row[common] == current[0, common]:
        ngrams.counts[current[1, common]] += row[order]
        return
    place = int64(current[1, common - 1]) if common > 0 else 0
    while True:
        word = row[length - 1]
        suffix = place
        if length == 1:
            place = int64(word) + 1
        else:
            place = end[length]
            end[length] += 1
            if ngrams.counts[suffix] == 0:
                ngrams.child[suffix] = place
            ngrams.counts[suffix] += 1
        ngrams.first[place] = word
        ngrams.suffix[place] = suffix
        ngrams.counts[place] = 0
        current[0, length - 1], current[1, length - 1] = word, place
        if word == START or length == order:
            ngrams.counts[place] = row[order]
            return
        length += 1
