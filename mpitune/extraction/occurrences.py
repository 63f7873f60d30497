"""Where source sides without gaps at their edges (cores) occur in a bitext.

One without gaps is a range of the suffix array (Lopez 2007). One with gaps is looked for around the occurrences of its
rarest chunk; of many, the first are as good a sample as any, because the pairs of the bitext lie in random order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.phrase_pairs import SPAN
from mpitune.extraction.suffix_array import AlignedTexts, Bitext, Suffixes
from mpitune.jit import inlined, int64, kernel

SAMPLES = 300
"""The most occurrences of a core that are looked at (Lopez 2007)."""


class Chunk(NamedTuple):
    """The chunks of a core, as words of the sentence that rules are extracted for."""

    word: np.ndarray
    """int64 [3]: place of the first word in the sentence."""
    length: np.ndarray
    """int64 [3]"""
    low: np.ndarray
    """int64 [3]: the suffixes that begin with the chunk ..."""
    high: np.ndarray
    """int64 [3]: ... up to here, excluded."""


@kernel
def narrow(texts: AlignedTexts, suffixes: Suffixes, low: int, high: int, depth: int, word: int) -> tuple[int, int]:
    """Those of the suffixes ``low`` to ``high``, which share ``depth`` words, whose next word is ``word``."""
    first, end = low, high
    while first < end:
        middle = (first + end) >> 1
        if texts.source[suffixes.suffix[middle] + depth]["word"] < word:
            first = middle + 1
        else:
            end = middle
    last, end = first, high
    while last < end:
        middle = (last + end) >> 1
        if texts.source[suffixes.suffix[middle] + depth]["word"] <= word:
            last = middle + 1
        else:
            end = middle
    return first, last


@inlined
def _is_there(texts: AlignedTexts, words: np.ndarray, chunk: Chunk, c: int, place: int) -> bool:
    """Whether chunk ``c`` stands at ``place``."""
    same = texts.source[place]["word"] == words[chunk.word[c]]
    k = 1
    while same and k < chunk.length[c]:
        same = texts.source[place + k]["word"] == words[chunk.word[c] + k]
        k += 1
    return bool(same)


@kernel
def occurrences(bitext: Bitext, words: np.ndarray, chunk: Chunk, chunks: int, places: np.ndarray) -> int:
    """Fill ``places`` (int32 [SAMPLES, 3]: of each chunk) with occurrences of a core; returns how many.

    ``words``: int32, the sentence's.
    """
    if chunks == 1:
        return _evenly(bitext, chunk, places)
    rarest = 0
    for c in range(1, chunks):
        if chunk.high[c] - chunk.low[c] < chunk.high[rarest] - chunk.low[rarest]:
            rarest = c
    low, size = chunk.low[rarest], chunk.high[rarest] - chunk.low[rarest]
    # Those of a single word lie in the order of the text. Those of several lie in the order of what follows, which is
    # not random: they are visited in steps about the golden section of their number, which lead to each of them once.
    step = 1 if chunk.length[rarest] == 1 else _step(size)
    count, k = 0, 0
    for _ in range(size):
        place = bitext.suffixes.occurrence[low + k] if chunk.length[rarest] == 1 else bitext.suffixes.suffix[low + k]
        count = _around(bitext.texts, words, chunk, chunks, rarest, place, places, count)
        if count == SAMPLES:
            break
        k = (k + step) % size
    return count


@kernel
def _step(size: int) -> int:
    """A number near the golden section of ``size`` that has no divisor in common with it."""
    step = max(int64(0.618 * size), 1)
    while True:
        a, b = size, step
        while b > 0:
            a, b = b, a % b
        if a == 1:
            return step
        step += 1


@kernel
def _evenly(bitext: Bitext, chunk: Chunk, places: np.ndarray) -> int:
    """At most `SAMPLES` of a chunk's occurrences, at even distances in the suffix array."""
    size = chunk.high[0] - chunk.low[0]
    count = int64(min(size, SAMPLES))
    for k in range(count):
        places[k, 0] = bitext.suffixes.suffix[chunk.low[0] + k * size // count]
    return count


@kernel
def _around(
    texts: AlignedTexts,
    words: np.ndarray,
    chunk: Chunk,
    chunks: int,
    rarest: int,
    place: int,
    places: np.ndarray,
    count: int,
) -> int:
    """Add the occurrences whose chunk ``rarest`` stands at ``place``; returns how many there are now."""
    pair = texts.source[place]["pair"]
    begin, end = texts.source_ptr[pair], texts.source_ptr[pair + 1] - 1
    if rarest == 0:
        first, last = place, place
    else:
        first = max(begin, place + chunk.length[rarest] - SPAN)
        last = place - chunk.length[0] - 1
        for c in range(1, rarest):
            last -= chunk.length[c] + 1
    for a in range(first, last + 1):
        if a != place and not _is_there(texts, words, chunk, 0, a):
            continue
        stop = min(end, a + SPAN)
        b_first, b_last = a + chunk.length[0] + 1, stop - chunk.length[1]
        if rarest == 1:
            b_first = b_last = place
        elif rarest == 2:
            b_last = place - chunk.length[1] - 1
        elif chunks == 3:
            b_last -= chunk.length[2] + 1
        for b in range(b_first, b_last + 1):
            if b != place and not _is_there(texts, words, chunk, 1, b):
                continue
            if chunks == 2:
                places[count, 0], places[count, 1] = a, b
                count += 1
                if count == SAMPLES:
                    return count
                continue
            c_first, c_last = b + chunk.length[1] + 1, stop - chunk.length[2]
            if rarest == 2:
                c_first = c_last = place
            for c in range(c_first, c_last + 1):
                if c == place or _is_there(texts, words, chunk, 2, c):
                    places[count, 0], places[count, 1], places[count, 2] = a, b, c
                    count += 1
                    if count == SAMPLES:
                        return count
    return count
