"""Lookups in the n-gram tables of a KenLM binary, in the file's layout: one hash table for each length of n-grams.

Heafield, "KenLM: Faster and Smaller Language Model Queries" (WMT 2011), section 3.1. The key of an n-gram hashes its
words from the newest to the oldest, so that it follows from the key of its suffix and one more word. Signs serve as
flags: a log10 probability is stored without its minus if some longer n-gram ends with this one; a backoff of -0.0
marks an n-gram that is no context (`ngram_table.EXTENDS_RIGHT`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.jit import at, int64, kernel, uint64

UNIGRAM = np.dtype([("prob", "<f4"), ("backoff", "<f4")])
MIDDLE = np.dtype([("key", "<u8"), ("prob", "<f4"), ("backoff", "<f4")])
"""A slot for n-grams of length 2 to order - 1; key 0 marks an empty slot."""
LONGEST = np.dtype([("key", "<u8"), ("prob", "<f4")])
"""A slot for the longest n-grams; key 0 marks an empty slot."""

FIRST_UNIGRAM, FIRST_MIDDLE, FIRST_LONGEST, NODES = range(4)
"""Indices in `Probing.layout`."""

_EMPTY = uint64(0)
_SUFFIX_FACTOR = uint64(8978948897894561157)
_WORD_FACTOR = uint64(17894857484156487943)
_MINUS = np.uint32(1 << 31)
"""The bits of -0.0."""


class Probing(NamedTuple):
    """The tables of a file.

    Their slots are numbered consecutively as nodes: the unigrams from 0 on, then the slots for length 2, and so on.
    """

    data: np.ndarray
    """uint32: the file, whose parts all begin at multiples of four bytes. One array for all tables is much faster than
    one for each, because kernels pass seven machine words for each array."""
    layout: np.ndarray
    """int64 [order + 3]. `FIRST_UNIGRAM`, `FIRST_MIDDLE`, `FIRST_LONGEST`: the index of node 0 in ``data`` if all nodes
    were of this kind; from `NODES` on: the first node of length 2, ..., order, and the end."""


NO_TABLES = Probing(np.zeros(0, np.uint32), np.zeros(0, np.int64))


def layout(begin: int, words: int, sizes: list[int]) -> np.ndarray:
    """Compute `Probing.layout` of tables that begin at ``data[begin]``.

    ``words``: the number of unigrams that are nodes; ``sizes``: the slots of each table (all of them for the unigrams).
    """
    unigrams, *others = sizes
    nodes = np.cumsum([words, *others]).tolist()
    middle = begin + 2 * unigrams
    longest = middle + 4 * sum(others[:-1])
    return np.array([begin, middle - 4 * nodes[0], longest - 3 * nodes[-2], *nodes], dtype=np.int64)


@kernel
def probing_child(probing: Probing, words: int, order: int, parent: int, word: int) -> int:
    """`ngram_table.child` for a KenLM binary; ``words``: number of unigrams; ``order``: greatest n-gram length."""
    data, layout = probing.data, probing.layout
    length = 2
    suffix = uint64(parent)
    if parent >= words:
        suffix = _key(data, layout[FIRST_MIDDLE] + 4 * parent)
        length = 3
        while parent >= layout[at(NODES - 2 + length)]:
            length += 1
    key = suffix * _SUFFIX_FACTOR ^ uint64(word + 1) * _WORD_FACTOR
    begin = int64(layout[at(NODES - 2 + length)])
    size = int64(layout[at(NODES - 1 + length)]) - begin
    first, width = int64(layout[FIRST_MIDDLE]), 4
    if length == order:
        first, width = int64(layout[FIRST_LONGEST]), 3
    first += width * begin
    i = int64(key % uint64(size))
    while True:
        found = _key(data, first + width * i)
        if found == key:
            return begin + i
        if found == _EMPTY:
            return -1
        i += 1
        if i == size:
            i = 0


@kernel
def probing_entry(probing: Probing, words: int, order: int, node: int) -> tuple[np.float32, np.float32, bool, bool]:
    """`ngram_table.entry` for a KenLM binary.

    A word of probability 1 (some tools write ``<s>`` so) always counts as extending to the left, which costs only time.
    """
    data, layout = probing.data, probing.layout
    backoff = _MINUS
    if node < words:
        place = layout[FIRST_UNIGRAM] + 2 * node
        backoff = data[at(place + 1)]
    elif node < layout[at(NODES - 2 + order)]:
        place = layout[FIRST_MIDDLE] + 4 * node + 2
        backoff = data[at(place + 1)]
    else:
        place = layout[FIRST_LONGEST] + 3 * node + 2
    prob = data[at(place)]
    return _float32(prob | _MINUS), _float32(backoff), prob < _MINUS, backoff != _MINUS


def key_place(probing: Probing, order: int, node: np.ndarray) -> np.ndarray:
    """int64 [nodes]: where in ``probing.data`` the keys of ``node`` (int64, nodes of two words or more) begin."""
    layout = probing.layout
    middle, longest = layout[FIRST_MIDDLE] + 4 * node, layout[FIRST_LONGEST] + 3 * node
    place: np.ndarray = np.where(node < layout[NODES - 2 + order], middle, longest)
    return place


def prob_place(probing: Probing, words: int, order: int, node: np.ndarray) -> np.ndarray:
    """int64 [nodes]: where in ``probing.data`` the log10 probabilities of ``node`` (int64) are."""
    unigram = probing.layout[FIRST_UNIGRAM] + 2 * node
    place: np.ndarray = np.where(node < words, unigram, key_place(probing, order, node) + 2)
    return place


def with_sign(bits: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``bits`` with the signs of ``other`` (uint32 each): a log10 probability with the flag of another one."""
    signed: np.ndarray = bits & ~_MINUS | other & _MINUS
    return signed


@kernel
def _key(data: np.ndarray, place: int) -> int:
    return uint64(data[at(place)]) | uint64(data[at(place + 1)]) << uint64(32)


@kernel
def _float32(bits: np.uint32) -> np.float32:
    return np.uint32(bits).view(np.float32)
