"""Additive n-gram statistics of translations against their references, from which every kind of BLEU is computed.

The statistics of one translation are eleven integers, in this order: matches of order 1 to 4 (clipped: an n-gram counts
at most as often as in the reference that has it most often), n-grams of order 1 to 4, the translation's length in
words, the closest reference length (the shorter one on a tie), and the length of the longest reference. The statistics
of a corpus are their sums, except the longest length, which only sentence scores use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel

ORDER = 4
"""Maximum n-gram order."""
MATCHES, TOTALS, LENGTH, REFERENCE, LONGEST = 0, ORDER, 2 * ORDER, 2 * ORDER + 1, 2 * ORDER + 2
"""Columns of a row of statistics: first match, first total, length, closest and longest reference length."""
WIDTH = 2 * ORDER + 3
"""Columns of a row of statistics."""


class ReferenceNgrams(NamedTuple):
    """The n-grams of a sentence's references as a trie, its edges in an open-addressed hash table.

    Node 0 is the empty n-gram; a node's children are the n-grams that are one word longer. A key holds parent and word
    in full, so that two n-grams cannot be confused.
    """

    key: np.ndarray
    """int64 [slots, a power of two]: parent << 32 | word + 1; 0 for an empty slot."""
    child: np.ndarray
    """int64 [slots]: the node that the edge leads to."""
    most: np.ndarray
    """int64 [nodes]: largest count of the n-gram in any one reference."""
    seen: np.ndarray
    """int64 [nodes]: count of the n-gram in the current text so far."""


def empty_ngrams(words: int, order: int) -> ReferenceNgrams:
    """An empty trie with capacity for the n-grams up to ``order`` of texts of ``words`` words."""
    most_nodes = order * words + 1
    slots = 1 << (2 * most_nodes - 1).bit_length()
    return ReferenceNgrams(
        np.zeros(slots, dtype=np.int64),
        np.empty(slots, dtype=np.int64),
        np.zeros(most_nodes, dtype=np.int64),
        np.empty(most_nodes, dtype=np.int64),
    )


def statistics(kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
    """int64 [k, 11]: the statistics of each translation of ``kbest`` against ``references`` (int32 [words] each).

    Raises ValueError without a reference.
    """
    return text_statistics(kbest.word_ptr, kbest.word, references)


def text_statistics(word_ptr: np.ndarray, word: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
    """`statistics` of the translations ``word[word_ptr[j]:word_ptr[j + 1]]`` (int32; ``word_ptr``: int64 [k + 1])."""
    if not references:
        raise ValueError("a sentence needs at least one reference")
    reference_ptr = np.zeros(len(references) + 1, dtype=np.int64)
    np.cumsum([len(reference) for reference in references], out=reference_ptr[1:])
    words = np.concatenate(references).astype(np.int32, copy=False)
    result = np.empty((len(word_ptr) - 1, WIDTH), dtype=np.int64)
    _statistics(word_ptr, word, reference_ptr, words, empty_ngrams(len(words), ORDER), result)
    return result


@kernel
def _find(ngrams: ReferenceNgrams, parent: np.int64, word: np.int64) -> np.int64:
    """The slot of the edge from ``parent`` labelled ``word``, or the empty slot for it."""
    key = (parent << 32) | (word + 1)
    last = np.int64(len(ngrams.key) - 1)
    place = parent * 2654435761 + word * 40503
    place = (place ^ (place >> 15)) & last
    while ngrams.key[place] != 0 and ngrams.key[place] != key:
        place = (place + 1) & last
    return place


@kernel
def read_references(ptr: np.ndarray, words: np.ndarray, order: int, ngrams: ReferenceNgrams) -> np.int64:
    """Add the n-grams of all references up to ``order``; returns the number of nodes.

    ``ptr``: int64 [references + 1]; ``words``: int32, reference r is ``words[ptr[r]:ptr[r + 1]]``.
    """
    nodes = np.int64(1)
    for r in range(len(ptr) - 1):
        for i in range(nodes):
            ngrams.seen[i] = 0
        for start in range(ptr[r], ptr[r + 1]):
            node = np.int64(0)
            for i in range(start, min(start + order, ptr[r + 1])):
                word = np.int64(words[i])
                slot = _find(ngrams, node, word)
                if ngrams.key[slot] == 0:
                    ngrams.key[slot] = (node << 32) | (word + 1)
                    ngrams.child[slot] = nodes
                    ngrams.seen[nodes] = 0
                    nodes += 1
                node = ngrams.child[slot]
                ngrams.seen[node] += 1
                ngrams.most[node] = max(ngrams.most[node], ngrams.seen[node])
    return nodes


@kernel
def count_matches(words: np.ndarray, order: int, nodes: np.int64, ngrams: ReferenceNgrams, matches: np.ndarray) -> None:
    """Count the clipped matches of ``words`` (int32) with the references.

    ``nodes``: the result of `read_references`; ``matches``: int64 [order], filled: matches of each order.
    """
    for n in range(order):
        matches[n] = 0
    for i in range(nodes):
        ngrams.seen[i] = 0
    for start in range(len(words)):
        node = np.int64(0)
        for n in range(min(order, len(words) - start)):
            slot = _find(ngrams, node, np.int64(words[start + n]))
            if ngrams.key[slot] == 0:
                break  # no reference contains this n-gram, nor a longer one that begins with it
            node = ngrams.child[slot]
            ngrams.seen[node] += 1
            if ngrams.seen[node] <= ngrams.most[node]:
                matches[n] += 1


@kernel
def _statistics(
    word_ptr: np.ndarray,
    words: np.ndarray,
    reference_ptr: np.ndarray,
    reference_words: np.ndarray,
    ngrams: ReferenceNgrams,
    result: np.ndarray,
) -> None:
    """`text_statistics`: fill ``result`` (int64 [k, 11]).

    ``word_ptr``: int64 [k + 1], ``words``: int32, the translations; ``reference_ptr``: int64 [references + 1],
    ``reference_words``: int32, the references; ``ngrams``: empty.
    """
    nodes = read_references(reference_ptr, reference_words, ORDER, ngrams)
    for j in range(len(word_ptr) - 1):
        length = word_ptr[j + 1] - word_ptr[j]
        count_matches(words[word_ptr[j] : word_ptr[j + 1]], ORDER, nodes, ngrams, result[j, MATCHES : MATCHES + ORDER])
        for n in range(ORDER):
            result[j, TOTALS + n] = max(length - n, 0)
        closest = reference_ptr[1] - reference_ptr[0]
        longest = closest
        for r in range(1, len(reference_ptr) - 1):
            other = reference_ptr[r + 1] - reference_ptr[r]
            longest = max(longest, other)
            nearer = abs(other - length) - abs(closest - length)
            if nearer < 0 or (nearer == 0 and other < closest):
                closest = other
        result[j, LENGTH] = length
        result[j, REFERENCE] = closest
        result[j, LONGEST] = longest
