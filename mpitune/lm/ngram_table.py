"""N-gram language models: the lookups that decoder kernels call, and the hash table that ARPA files are compiled to.

The n-grams form a trie over reversed words, stored in hash tables: the node of ``w1 .. wn`` is the child of the node of
``w2 .. wn`` under ``w1``. A lookup starts at the newest word and goes back through the history, one hash probe a step.
Nodes hold log10 values in float32, as in KenLM.

A large model lies in no cache, and lookups wait for memory. Nodes are therefore hashed by the group of four slots (one
cache line) that their parent lies in, which is nearly always the first one probed for it: where longer and longer
n-grams should be is known before any of them is read, so that `prefetch_longer` loads them at the same time.

`child`, `entry` and `find` work on this module's table and on those of a KenLM binary (`probing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from mpitune.array_files.row_table import RowTable, row_slot
from mpitune.corpus.vocabulary import Names
from mpitune.jit import at, int64, kernel, prefetch
from mpitune.lm.probing import NO_TABLES, Probing, probing_child, probing_entry

NODE = np.dtype([("key", "<i8"), ("prob", "<f4"), ("backoff", "<f4")])
"""One n-gram: ``key`` = (parent + 1) << 32 | oldest word << 2 | flags; key 0 marks an empty slot. The keys of unigrams
hold the flags only."""

EXTENDS_LEFT = 1
"""Flag: some longer n-gram ends with this one."""
EXTENDS_RIGHT = 2
"""Flag: the n-gram is a context that can change the score of following words. Some longer n-gram starts with it, or its
backoff is not 0, or that of an n-gram that ends with it is not 0: every suffix of a context is a context."""
FLAGS = 3
"""Mask of both flags."""

UNKNOWN = 0
"""The word number of ``<unk>``."""

MAX_NODES = 2**31 - 2
"""Largest number of nodes: node numbers, plus one, must fit an int32."""


class LanguageModel(NamedTuple):
    """A language model as kernels use it: a hash table of this module, or the tables of a KenLM binary."""

    node: np.ndarray
    """NODE: nodes 0 .. words-1 are the unigrams, numbered as the words; from `first_slot` on follows an open-addressed
    hash table of all longer n-grams (linear probing, never full, size a multiple of 4). Empty for a KenLM binary."""
    order: int
    """Length of the longest n-grams."""
    words: int
    """Number of words, including ``<unk>`` (word 0)."""
    bos: int
    """Word number of ``<s>``."""
    eos: int
    """Word number of ``</s>``."""
    probing: Probing = NO_TABLES
    """The tables of a KenLM binary; nodes 0 .. words-1 are the unigrams here too."""


def end_of_nodes(lm: LanguageModel) -> int:
    """One past the model's last node."""
    return len(lm.node) or int(lm.probing.layout[-1])


@kernel
def child(lm: LanguageModel, parent: int, word: int) -> int:
    """Return the node of the n-gram ``word`` + (the n-gram of node ``parent``), or -1 if the model lacks it.

    All are int64. ``parent`` must be shorter than the model's longest n-grams.
    """
    if len(lm.node) > 0:
        return table_child(lm, parent, word)
    return probing_child(lm.probing, lm.words, lm.order, parent, word)


@kernel
def entry(lm: LanguageModel, node: int) -> tuple[np.float32, np.float32, bool, bool]:
    """Return log10 probability, log10 backoff, `EXTENDS_LEFT` and `EXTENDS_RIGHT` of the n-gram of ``node`` (int64)."""
    if len(lm.node) > 0:
        return _table_entry(lm, node)
    return probing_entry(lm.probing, lm.words, lm.order, node)


@kernel
def find(lm: LanguageModel, word: np.ndarray, begin: int, end: int) -> int:
    """Return the node of the n-gram ``word[begin:end]`` (int64), or -1 if the model lacks it."""
    node: int = word[end - 1]
    k = end - 2
    while k >= begin and node >= 0:
        node = child(lm, node, word[k])
        k -= 1
    return node


@kernel
def node_key(parent: int, word: int) -> int:
    """Return the key, without flags, of the child of node ``parent`` under ``word``."""
    return (parent + 1) << 32 | word << 2


@kernel
def first_slot(words: int) -> int:
    """Return the first slot of the hash table: after the unigrams, at a multiple of 4."""
    return (words + 3) & ~3


@kernel
def first_probe(lm: LanguageModel, parent: int, word: int) -> int:
    """Hash a child of node ``parent`` under ``word``; returns the slot, a multiple of 4, at which probing starts.

    It is the same for all n-grams in the four slots of ``parent``.
    """
    first = first_slot(lm.words)
    if parent >= lm.words:
        parent |= 3
    # Factors of 31 bits cannot overflow; a product instead of a remainder needs no division and allows any table size.
    hashed = (parent * 1640531527 + word * 1540483477) & 0xFFFFFFFF
    return first + (hashed * ((len(lm.node) - first) >> 2) >> 32 << 2)


@kernel
def prefetch_longer(lm: LanguageModel, ngram: int, history: np.ndarray, begin: int, count: int) -> None:
    """Load the n-grams with 1 to ``count`` words before the n-gram of node ``ngram``, without waiting for them.

    ``history``: int32, in it the words from ``begin`` on, newest first. Does nothing for a KenLM binary.
    """
    if len(lm.node) == 0:
        return
    for k in range(begin, begin + count):
        ngram = first_probe(lm, ngram, int64(history[k]))
        prefetch(lm.node, at(ngram))


@kernel
def table_child(lm: LanguageModel, parent: int, word: int) -> int:
    """`child` in the hash table of this module."""
    node = lm.node
    key = node_key(parent, word) | FLAGS
    i = first_probe(lm, parent, word)
    while True:
        # Compare four slots (one cache line) at once, since a branch for each would be mispredicted. Unsigned indices
        # skip the test for negative ones.
        last = node[np.uint64(i + 3)]["key"]
        which = (
            int(node[np.uint64(i)]["key"] | FLAGS == key)
            + int(node[np.uint64(i + 1)]["key"] | FLAGS == key) * 2
            + int(node[np.uint64(i + 2)]["key"] | FLAGS == key) * 3
            + int(last | FLAGS == key) * 4
        )
        if which != 0:
            return i + which - 1
        if last == 0:
            return -1
        i += 4
        if i == len(node):
            i = first_slot(lm.words)


@kernel
def _table_entry(lm: LanguageModel, node: int) -> tuple[np.float32, np.float32, bool, bool]:
    ngram = lm.node[at(node)]
    key = ngram["key"]
    return ngram["prob"], ngram["backoff"], key & EXTENDS_LEFT != 0, key & EXTENDS_RIGHT != 0


@kernel
def _find_words(table: RowTable, text: np.ndarray, ptr: np.ndarray, out: np.ndarray) -> None:
    for w in range(len(out)):
        found = table.slot[row_slot(table, text, ptr[w], ptr[w + 1])]
        out[w] = found - 1 if found > 0 else UNKNOWN


class LmVocabulary(Protocol):
    """The words of a language model; creating one reads nothing from disk."""

    def __len__(self) -> int: ...

    def numbers(self, words: Sequence[str]) -> np.ndarray:
        """int32 [n]: the model's word numbers of ``words``; 0 (``<unk>``) for unknown words."""


class TableWords:
    """`LmVocabulary` over a `RowTable`."""

    def __init__(self, table: RowTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table.ptr) - 1

    @property
    def names(self) -> Names:
        """The words in the order of their numbers."""
        return Names(self._table.flat, self._table.ptr)

    def numbers(self, words: Sequence[str]) -> np.ndarray:
        """See `LmVocabulary`."""
        names = Names.of(words)
        out = np.empty(len(words), dtype=np.int32)
        _find_words(self._table, names.text, names.ptr, out)
        return out


def language_model(arrays: Mapping[str, np.ndarray]) -> tuple[LanguageModel, TableWords]:
    """Wrap the arrays of `arpa.read_arpa`, fresh or opened from a store, as a model; copies nothing."""
    order, bos, eos = arrays["order_bos_eos"].tolist()
    table = RowTable(arrays["word_text"], arrays["word_ptr"], arrays["word_slot"])
    vocabulary = TableWords(table)
    return LanguageModel(arrays["node"].view(NODE), order, len(vocabulary), bos, eos), vocabulary
