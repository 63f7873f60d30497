"""The cores of sentences: source sides without gaps at their edges, as paths of a trie (Chiang 2007; Lopez 2007).

A core has one to three chunks of words with gaps between them, at most `SYMBOLS` symbols in all. An edge of the trie
adds a word, either next to the previous one or after a gap.

Chiang 2007 = "Hierarchical Phrase-Based Translation", Computational Linguistics 33; Lopez 2007 = "Hierarchical
Phrase-Based Translation with Suffix Arrays", EMNLP-CoNLL.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.phrase_pairs import GAPS, SPAN, SYMBOLS
from mpitune.jit import int64, kernel, uint64

_GAPPED_WORDS = SYMBOLS - 2
"""Maximum length of the first chunk of a core with a gap."""
_THIRD_CHUNK = SYMBOLS - GAPS
"""Number of words of a core of three chunks: one in each."""
MOST_WORDS = SPAN + 1
"""Maximum number of words that a core covers in a sentence: one more than in the bitext, as in cdec's extractor."""
_NONE = -1


class Cores(NamedTuple):
    """A trie of cores; node 0 is the root, and each other node a core."""

    size: np.ndarray
    """int64 [1]: number of nodes."""
    key: np.ndarray
    """int64 [a power of 2]: hash table of the edges, parent node << 32 | symbol; -1 in an empty slot."""
    child: np.ndarray
    """int32, likewise: the node that the edge leads to."""
    parent: np.ndarray
    """int32 [nodes]"""
    symbol: np.ndarray
    """int32 [nodes]: the last word of the core; -2 - word if a gap precedes it."""


class Found(NamedTuple):
    """The cores that begin at one word."""

    size: np.ndarray
    """int64 [1]: their number."""
    node: np.ndarray
    """int32 [MOST_CORES]"""
    second: np.ndarray
    """int32 [MOST_CORES]: the place of the second chunk, -1 if there is none."""
    third: np.ndarray
    """int32 [MOST_CORES]: the place of the third chunk, likewise."""


class Search(NamedTuple):
    """A search for cores in a text."""

    cores: Cores
    words: np.ndarray
    """int32: the text; -1 for a word that no core has."""
    add: bool
    """True: cores that the trie does not have are added."""
    found: Found


def new_cores(most: int) -> Cores:
    """An empty trie with space for ``most`` cores."""
    slots = 1 << (2 * most + 2).bit_length()
    return Cores(
        size=np.ones(1, dtype=np.int64),
        key=np.full(slots, _NONE, dtype=np.int64),
        child=np.empty(slots, dtype=np.int32),
        parent=np.full(most + 1, _NONE, dtype=np.int32),
        symbol=np.full(most + 1, _NONE, dtype=np.int32),
    )


def new_search(cores: Cores, words: np.ndarray, add: bool) -> Search:
    """A search with space for the cores of one word."""
    places = (np.empty(MOST_CORES, dtype=np.int32) for _ in range(3))
    return Search(cores, words, add, Found(np.zeros(1, dtype=np.int64), *places))


@kernel
def _child(cores: Cores, node: int, symbol: int, add: bool) -> int:
    """The node that ``symbol`` leads to from ``node``; if there is none, a new one if ``add``, otherwise `_NONE`."""
    key = int64(node) << 32 | (int64(symbol) & 0xFFFFFFFF)
    hash_ = uint64(key) * uint64(0x9E3779B97F4A7C15)
    mask = uint64(cores.key.shape[0] - 1)
    slot = (hash_ >> uint64(29)) & mask
    while cores.key[slot] != key and cores.key[slot] != _NONE:
        slot = (slot + uint64(1)) & mask
    if cores.key[slot] == key:
        return int64(cores.child[slot])
    if not add:
        return _NONE
    new = cores.size[0]
    cores.key[slot], cores.child[slot] = key, new
    cores.parent[new], cores.symbol[new] = node, symbol
    cores.size[0] = new + 1
    return int64(new)


@kernel
def find_cores(search: Search, begin: int, end: int) -> int:
    """Find the cores that begin at word ``begin`` of the text and end before word ``end``; returns their number."""
    search.found.size[0] = 0
    node = int64(0)
    for length in range(1, min(SYMBOLS, end - begin) + 1):
        word = search.words[begin + length - 1]
        node = _child(search.cores, node, int64(word), search.add) if word >= 0 else int64(_NONE)
        if node < 0:
            break
        _put(search.found, node, _NONE, _NONE)
        if length <= _GAPPED_WORDS:
            for second in range(begin + length + 1, end):
                _second_chunk(search, node, length, second, end)
    return int64(search.found.size[0])


@kernel
def _second_chunk(search: Search, node: int, length: int, second: int, end: int) -> None:
    """Find the cores with the first chunk ``node``, of ``length`` words, and a second one at ``second``."""
    cores, words, add = search.cores, search.words, search.add
    for place in range(second, min(second + SYMBOLS - 1 - length, end)):
        word = int64(words[place])
        if word < 0:
            break
        node = _child(cores, node, word if place > second else -2 - word, add)
        if node < 0:
            break
        _put(search.found, node, second, _NONE)
        if length + place - second + 1 < _THIRD_CHUNK:
            for third in range(place + 2, end):
                word = int64(words[third])
                core = _child(cores, node, -2 - word, add) if word >= 0 else int64(_NONE)
                if core >= 0:
                    _put(search.found, core, second, third)


@kernel
def _put(found: Found, node: int, second: int, third: int) -> None:
    n = found.size[0]
    found.node[n], found.second[n], found.third[n] = node, second, third
    found.size[0] = n + 1


def count_cores(words: np.ndarray) -> np.ndarray:
    """int64, for each number of ``words`` from a word to the end of its sentence: the cores that begin at that word."""
    counts: np.ndarray = _COUNTS[np.minimum(words, MOST_WORDS)]
    return counts


def _count(words: int) -> int:
    """The number of cores that begin at the first of ``words`` words."""
    count = min(SYMBOLS, words)
    for first in range(1, _GAPPED_WORDS + 1):
        count += sum(min(SYMBOLS - 1 - first, words - second) for second in range(first + 1, words))
    # Three chunks of one word.
    return count + sum(max(words - second - 2, 0) for second in range(2, words))


_COUNTS = np.array([_count(words) for words in range(MOST_WORDS + 1)])
MOST_CORES = int(_COUNTS[-1])
"""Maximum number of cores that begin at one word."""
