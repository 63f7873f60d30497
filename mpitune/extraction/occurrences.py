"""Search for occurrences of cores (source sides without gaps at their edges) in a bitext.

A core without gaps is a range of the suffix array (Lopez, "Hierarchical Phrase-Based Translation with Suffix Arrays",
EMNLP-CoNLL 2007). A core with gaps is searched for around the occurrences of its rarest chunk. The first `SAMPLES`
occurrences found are a random sample, because the pairs of the bitext are in random order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.phrase_pairs import SPAN
from mpitune.extraction.suffix_array import AlignedTexts, Bitext, Suffixes
from mpitune.jit import inlined, int64, kernel

SAMPLES = 300
"""Maximum number of sampled occurrences of a core (Lopez 2007)."""


class Chunk(NamedTuple):
    """The chunks of a core, as phrases of the sentence for which rules are extracted."""

    word: np.ndarray
    """int64 [3]: position of the first word in the sentence."""
    length: np.ndarray
    """int64 [3]: number of words."""
    low: np.ndarray
    """int64 [3]: the suffixes that begin with the chunk ..."""
    high: np.ndarray
    """int64 [3]: ... up to here, excluded."""


@kernel
def narrow(texts: AlignedTexts, suffixes: Suffixes, low: int, high: int, depth: int, word: int) -> tuple[int, int]:
    """The range of suffixes, within ``low`` to ``high``, whose word number ``depth`` is ``word``.

    The suffixes ``low`` to ``high`` (excluded) must begin with the same ``depth`` words. Binary search.
    """
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
    """True if chunk ``c`` occurs at ``place`` of ``texts.source``."""
    same = texts.source[place]["word"] == words[chunk.word[c]]
    k = 1
    while same and k < chunk.length[c]:
        same = texts.source[place + k]["word"] == words[chunk.word[c] + k]
        k += 1
    return bool(same)


@kernel
def occurrences(bitext: Bitext, words: np.ndarray, chunk: Chunk, chunks: int, places: np.ndarray) -> int:
    """Sample occurrences of a core; returns their number, at most `SAMPLES`.

    ``words``: int32, the sentence; ``chunk``: the core, with ``chunks`` chunks, each of which the bitext has;
    ``places``: int32 [SAMPLES, 3], receives the place of each chunk in ``bitext.texts.source``.
    """
    if chunks == 1:
        return _evenly(bitext, chunk, places)
    rarest = 0
    for c in range(1, chunks):
        if chunk.high[c] - chunk.low[c] < chunk.high[rarest] - chunk.low[rarest]:
            rarest = c
    low, size = chunk.low[rarest], chunk.high[rarest] - chunk.low[rarest]
    # Occurrences of a word are in the order of the text, which is random. Suffixes that begin with several words are in
    # the order of the words that follow: they are visited in steps of about the golden section of their number, which
    # reach each of them once.
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
    """A number near the golden section of ``size`` and coprime to it."""
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
    """Sample occurrences of chunk 0, evenly spaced in the suffix array; returns their number, at most `SAMPLES`."""
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
    """Add the occurrences whose chunk ``rarest`` is at ``place``, in the order of their places.

    Depth-first search: row ``count`` of ``places`` holds the places of the chunks before chunk ``c``. ``count`` is the
    number of occurrences so far; returns the new one, at most `SAMPLES`.
    """
    pair = texts.source[place]["pair"]
    begin, end = texts.source_ptr[pair], texts.source_ptr[pair + 1] - 1
    c, at = 0, int64(place if rarest == 0 else max(begin, place + chunk.length[rarest] - SPAN))
    while True:
        # The last place of chunk c that leaves space for the chunks up to the rarest one, or up to the end of the span.
        if c <= rarest:
            last, following = int64(place), rarest
        else:
            last, following = min(end, places[count, 0] + SPAN) + 1, chunks
        for k in range(c, following):
            last -= chunk.length[k] + 1
        while at <= last and c != rarest and not _is_there(texts, words, chunk, c, at):
            at += 1
        if at > last:
            if c == 0:
                return count
            c -= 1
            at = places[count, c] + 1
            continue
        places[count, c] = at
        if c + 1 < chunks:
            at = place if c + 1 == rarest else at + chunk.length[c] + 1
            c += 1
            continue
        count += 1
        if count == SAMPLES:
            return count
        for k in range(c):
            places[count, k] = places[count - 1, k]
        at += 1
