"""A sample of the occurrences of cores in a bitext (Lopez, "Hierarchical Phrase-Based Translation with Suffix Arrays",
EMNLP-CoNLL 2007, section 5).

One pass over the words at which the cores begin finds the occurrences of all of them. A sample is the first `SAMPLES`
occurrences in the order of the text. It is random, because the pairs of the bitext are in random order, and the same
whatever other cores are looked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.bitext import Bitext
from mpitune.extraction.cores import MOST_CORES, Cores, Search, find_cores, new_search
from mpitune.extraction.phrase_pairs import SPAN
from mpitune.jit import int64, kernel

SAMPLES = 300
"""Maximum number of sampled occurrences of a core (Lopez 2007)."""
_FIRST_LOG = 1 << 16
"""Number of occurrences for which the log has space at first."""


class Occurrences(NamedTuple):
    """The sampled occurrences of the cores of a trie, by node."""

    ptr: np.ndarray
    """int64 [nodes + 1]"""
    at: np.ndarray
    """int32 [occurrences, 3]: places of the chunks in ``AlignedTexts.source``; -1 beyond the last chunk."""


class _Log(NamedTuple):
    """Occurrences in the order of the text; the arrays are longer than used."""

    size: np.ndarray
    """int64 [2]: number of occurrences; number of places done."""
    counts: np.ndarray
    """int32 [nodes]: occurrences of each core, at most `SAMPLES`."""
    node: np.ndarray
    """int32 [occurrences]"""
    at: np.ndarray
    """int32 [occurrences, 3]: as in `Occurrences`."""


def sample_occurrences(bitext: Bitext, cores: Cores, first: int, last: int) -> Occurrences:
    """Sample the occurrences of ``cores``, all of which begin with one of the words ``first`` to ``last`` - 1."""
    nodes = int(cores.size[0])
    log = _Log(
        size=np.zeros(2, dtype=np.int64),
        counts=np.zeros(nodes, dtype=np.int32),
        node=np.empty(_FIRST_LOG, dtype=np.int32),
        at=np.empty((_FIRST_LOG, 3), dtype=np.int32),
    )
    begin, end = bitext.word_ptr[first], bitext.word_ptr[last]
    places, search = bitext.occurrence[begin:end], new_search(cores, bitext.source_words, add=False)
    while not _scan(bitext, search, places, log):
        more = len(log.node)
        log = log._replace(
            node=np.concatenate([log.node, np.empty(more, dtype=np.int32)]),
            at=np.concatenate([log.at, np.empty((more, 3), dtype=np.int32)]),
        )
    occurrences = Occurrences(
        ptr=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(log.counts, dtype=np.int64)]),
        at=np.empty((int(log.size[0]), 3), dtype=np.int32),
    )
    _by_node(log, occurrences)
    return occurrences


@kernel
def _scan(bitext: Bitext, search: Search, places: np.ndarray, log: _Log) -> bool:
    """Log the occurrences that begin at ``places`` (int32); False if the log is full before the last place."""
    texts, found = bitext.texts, search.found
    count = log.size[0]
    while log.size[1] < len(places):
        if count + MOST_CORES > len(log.node):
            return False
        place = int64(places[log.size[1]])
        end = min(int64(texts.source_ptr[texts.source[place]["pair"] + 1] - 1), place + SPAN)
        for n in range(find_cores(search, place, end)):
            node = found.node[n]
            if log.counts[node] < SAMPLES:
                log.counts[node] += 1
                log.node[count] = node
                log.at[count, 0], log.at[count, 1], log.at[count, 2] = place, found.second[n], found.third[n]
                count += 1
        log.size[0] = count
        log.size[1] += 1
    return True


@kernel
def _by_node(log: _Log, occurrences: Occurrences) -> None:
    """Fill ``occurrences.at`` from the log, whose counts become zero."""
    for k in range(log.size[0] - 1, -1, -1):
        node = log.node[k]
        log.counts[node] -= 1
        row = occurrences.ptr[node] + log.counts[node]
        for c in range(3):
            occurrences.at[row, c] = log.at[k, c]
