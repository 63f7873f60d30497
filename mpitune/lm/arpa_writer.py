"""Write n-gram language models in ARPA format, in the layout of lmplz (KenLM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from mpitune.corpus.shortest_digits import MOST_DIGITS, write_float32
from mpitune.corpus.vocabulary import Names
from mpitune.jit import at, inlined, int64, kernel
from mpitune.lm.interpolation import log_backoff, log_prob
from mpitune.lm.ngram_runs import Ngrams

_BUFFER = 1 << 20
"""Bytes that are written at a time, unless lines are longer."""
_NEWLINE, _TAB, _BLANK = map(ord, "\n\t ")


class ArpaWriter:
    """Writes a model, length by length."""

    def __init__(self, file: BinaryIO, words: Sequence[str], ngrams: Ngrams, levels: Sequence[range]) -> None:
        """Write the header. ``words``: their texts; ``levels``: the places of n-grams of each length, from 0 on."""
        self._file = file
        self._names = Names.of(words)
        self._ngrams = ngrams
        longest_word = int(np.diff(self._names.ptr).max())
        self._longest_line = len(levels) * (longest_word + 1) + 2 * (MOST_DIGITS + 1)
        self._buffer = np.empty(max(_BUFFER, self._longest_line), dtype=np.uint8)
        counts = (f"ngram {n}={len(level)}\n" for n, level in enumerate(levels[1:], start=1))
        file.write(("\\data\\\n" + "".join(counts)).encode())

    def begin(self, n: int) -> None:
        """Begin the section of n-grams of length ``n``."""
        self._file.write(f"\n\\{n}-grams:\n".encode())

    def write(self, places: range, prob: np.ndarray, mass: np.ndarray) -> None:
        """Write the n-grams at ``places``: log10 of probabilities and backoffs, in the digits of a float32.

        ``prob``: float64 [n-grams]; ``mass``: of each as a context, as in `interpolation`; none for the longest ones.
        """
        names, place = self._names, places.start
        while place < places.stop:
            done = place - places.start
            place, used = _write_lines(
                self._ngrams, place, prob[done:], mass[done:], names.text, names.ptr, self._buffer, self._longest_line
            )
            self._file.write(self._buffer[:used].data)

    def end(self) -> None:
        """Write what a model ends with."""
        self._file.write(b"\n\\end\\\n")


@kernel
def _write_lines(
    ngrams: Ngrams,
    place: int,
    prob: np.ndarray,
    mass: np.ndarray,
    text: np.ndarray,
    ptr: np.ndarray,
    buffer: np.ndarray,
    longest_line: int,
) -> tuple[int, int]:
    """Write the n-grams from ``place`` on, one for each ``prob``, while ``buffer`` has room for a line.

    Word w is ``text[ptr[w]:ptr[w + 1]]``. Returns the place of the next n-gram, and the end in ``buffer``.
    """
    used = 0
    for i in range(len(prob)):
        if used + longest_line > len(buffer):
            return place + i, used
        used = write_float32(log_prob(prob, i), buffer, used)
        separator, suffix = _TAB, place + i
        while suffix > 0:
            buffer[at(used)] = separator
            used = _copy(text, ptr, ngrams.first[at(suffix)], buffer, used + 1)
            separator, suffix = _BLANK, int64(ngrams.suffix[at(suffix)])
        if len(mass) > 0:
            buffer[at(used)] = _TAB
            used = write_float32(log_backoff(mass, i), buffer, used + 1)
        buffer[at(used)] = _NEWLINE
        used += 1
    return place + len(prob), used


@inlined
def _copy(text: np.ndarray, ptr: np.ndarray, word: int, buffer: np.ndarray, used: int) -> int:
    """Copy a word to ``buffer``; returns its end there."""
    for k in range(ptr[at(word)], ptr[at(word + 1)]):
        buffer[at(used)] = text[at(k)]
        used += 1
    return used
