"""N-grams added to the hash table of `ngram_table`, as the compiled parser of ARPA files reads them.

An n-gram hangs on its suffix, and tells its context that it is one. Looking both up from the last word on takes most of
the time; but neighbours in a file mostly have them in common, up to a word, and the memory of several n-grams can be
waited for at once: `expect`, `follow`, then, some lines later, `add_child`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.jit import at, kernel, prefetch
from mpitune.lm.ngram_table import (
    EXTENDS_LEFT,
    EXTENDS_RIGHT,
    FLAGS,
    LanguageModel,
    find,
    first_probe,
    first_slot,
    node_key,
    table_child,
)

LOAD = 0.6
"""Load factor for which the hash table is sized."""


class Chain(NamedTuple):
    """Nodes on the way to an n-gram ``word[:n]``; neighbours in a file have most of them in common."""

    suffix: np.ndarray
    """int64 [order]: at k > 0, the node of ``word[k:n]``."""
    context: np.ndarray
    """int64 [order]: at 0 < k < n - 1, the node of ``word[k:n - 1]``."""


def slots_for(ngrams: int, order: int) -> int:
    """The slots of the hash table of a model with so many ``ngrams`` of two words or more; a multiple of 4."""
    return 4 * (int(ngrams / (4 * LOAD)) + order * order)


@kernel
def expect(lm: LanguageModel, word: np.ndarray, n: int, changed: int, chain: Chain) -> None:
    """Load what `follow` will look up first, without waiting for it."""
    k = changed - 1
    if 0 < k < n - 1:
        prefetch(lm.node, at(first_probe(lm, chain.suffix[k + 1], word[k])))
        if k < n - 2:
            prefetch(lm.node, at(first_probe(lm, chain.context[k + 1], word[k])))


@kernel
def follow(lm: LanguageModel, word: np.ndarray, n: int, changed: int, chain: Chain) -> bool:
    """Make ``chain`` that of ``word[:n]`` (int64); it was that of one that may differ in the first ``changed`` words.

    What `add_child` needs is loaded without waiting for it. False, and ``chain`` is that of no n-gram, if a pruned
    model lacks one of these nodes.
    """
    for k in range(changed - 1, 0, -1):
        chain.suffix[k] = word[k] if k == n - 1 else table_child(lm, chain.suffix[k + 1], word[k])
        if chain.suffix[k] < 0:
            return False
        if k < n - 1:
            chain.context[k] = word[k] if k == n - 2 else table_child(lm, chain.context[k + 1], word[k])
            if chain.context[k] < 0:
                return False
    prefetch(lm.node, at(first_probe(lm, chain.suffix[1], word[0])))
    if n > 2:
        prefetch(lm.node, at(first_probe(lm, chain.context[1], word[0])))
    return True


@kernel
def add_child(lm: LanguageModel, word: int, suffix: int, rest: int, prob: float, backoff: float) -> int:
    """Add the n-gram of ``word`` before the one of node ``suffix``; returns as `add_ngram` does, -1 without a context.

    ``rest``: the node of the context without ``word``; -1 if the context is ``word`` alone.
    """
    context = word if rest < 0 else table_child(lm, rest, word)
    if context < 0:
        return -1
    i = slot_of(lm, suffix, word)
    if lm.node[i]["key"] != 0:
        return 0
    _fill(lm, i, suffix, context, word, prob, backoff)
    return 1


@kernel
def add_ngram(lm: LanguageModel, word: np.ndarray, n: int, prob: float, backoff: float) -> int:
    """Add the n-gram ``word[:n]`` (int64), n > 1, to a table that has all shorter n-grams of the file.

    A pruned model may lack its suffix ``w2 .. wn`` or its context ``w1 .. wn-1``, through which lookups pass: these are
    added as blank n-grams, as in KenLM. Returns the number of slots filled, less than n * n; 0 if the table has the
    n-gram already.
    """
    filled = 0
    for length in range(2, n):
        for begin in range(n - length + 1):
            filled += _add_blank(lm, word, begin, begin + length)
    rest = find(lm, word, 1, n - 1) if n > 2 else -1
    if add_child(lm, word[0], find(lm, word, 1, n), rest, prob, backoff) == 0:
        return 0
    if np.float32(backoff) != 0:
        for k in range(1, n):
            lm.node[find(lm, word, k, n)]["key"] |= EXTENDS_RIGHT
    return filled + 1


@kernel
def mark_suffixes(lm: LanguageModel, n: int, chain: Chain) -> None:
    """The n-gram of ``chain`` has a backoff: its suffixes are contexts, see `EXTENDS_RIGHT`."""
    for k in range(1, n):
        lm.node[at(chain.suffix[k])]["key"] |= EXTENDS_RIGHT


@kernel
def _add_blank(lm: LanguageModel, word: np.ndarray, begin: int, end: int) -> int:
    """Add the n-gram ``word[begin:end]`` with its backed-off probability if it is missing; returns slots filled.

    The table must have all shorter n-grams of ``word``.
    """
    suffix, context = find(lm, word, begin + 1, end), find(lm, word, begin, end - 1)
    i = slot_of(lm, suffix, word[begin])
    if lm.node[i]["key"] != 0:
        return 0
    _fill(lm, i, suffix, context, word[begin], lm.node[context]["backoff"] + lm.node[suffix]["prob"], 0.0)
    return 1


@kernel
def slot_of(lm: LanguageModel, parent: int, word: int) -> int:
    """Return the index in ``lm.node`` of the child of node ``parent`` under ``word``, or the empty slot for it."""
    key = node_key(parent, word)
    i = first_probe(lm, parent, word)
    while lm.node[i]["key"] != 0 and lm.node[i]["key"] & ~FLAGS != key:
        i += 1
        if i == len(lm.node):
            i = first_slot(lm.words)
    return i


@kernel
def _fill(lm: LanguageModel, i: int, suffix: int, context: int, word: int, prob: float, backoff: float) -> None:
    node = lm.node[i]
    node["prob"] = prob
    node["backoff"] = backoff
    node["key"] = node_key(suffix, word) | (EXTENDS_RIGHT if node["backoff"] != 0 else 0)
    lm.node[suffix]["key"] |= EXTENDS_LEFT
    lm.node[context]["key"] |= EXTENDS_RIGHT
