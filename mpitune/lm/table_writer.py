"""Write estimated n-gram language models into the hash table of `ngram_table`.

The arrays are those of `arpa.read_arpa` for the text of `arpa_writer`, bit for bit: that has the shortest digits that
are read as the same float32. Nothing is looked up: the trie of `ngram_runs.Ngrams` tells the suffix of each n-gram, and
whether longer ones end or begin with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.array_files.row_table import RowTable, fill_slots
from mpitune.corpus.vocabulary import Names
from mpitune.jit import at, int64, kernel, prefetch
from mpitune.lm.interpolation import is_context, log_backoff, log_prob
from mpitune.lm.ngram_adding import slot_of, slots_for
from mpitune.lm.ngram_runs import Ngrams
from mpitune.lm.ngram_table import EXTENDS_LEFT, EXTENDS_RIGHT, NODE, LanguageModel, first_probe, first_slot, node_key
from mpitune.lm.numbered_text import END, START

MOST_NGRAMS = 1 << 30
"""A table of more may have too many nodes."""
_AHEAD = 16
"""N-grams whose place in the table is on its way from the memory."""


class TableWriter:
    """Fills the table, length by length."""

    def __init__(self, words: Sequence[str], ngrams: Ngrams, levels: Sequence[range]) -> None:
        """``words``: their texts; ``levels``: the places of n-grams of each length, from 0 on."""
        self._names = Names.of(words)
        self._ngrams, self._levels = ngrams, levels
        order = len(levels) - 1
        node = np.zeros(first_slot(len(words)) + slots_for(sum(map(len, levels[2:])), order), dtype=NODE)
        self._lm = LanguageModel(node, order, len(words), START, END)
        self._n = 0
        self._nodes = self._suffixes = np.empty(0, dtype=np.int32)

    def begin(self, n: int) -> None:
        """Begin with the n-grams of length ``n``."""
        self._n = n
        self._suffixes, self._nodes = self._nodes, np.empty(len(self._levels[n]), dtype=np.int32)

    def write(self, places: range, prob: np.ndarray, mass: np.ndarray) -> None:
        """Add the n-grams at ``places``; the arguments are those of `ArpaWriter.write`."""
        shorter, begin = self._levels[self._n - 1].start, self._levels[self._n].start
        nodes = self._nodes[places.start - begin : places.stop - begin]
        _add(self._ngrams, places.start, shorter, self._suffixes, prob, mass, self._lm, nodes)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the model, as `ngram_table.language_model` takes them."""
        text, ptr = self._names.text, self._names.ptr
        table = RowTable(text, ptr, np.zeros(2 * self._lm.words + 3, dtype=np.int32))
        fill_slots(table, self._lm.words)
        arrays = {"node": self._lm.node, "word_text": text, "word_ptr": ptr, "word_slot": table.slot}
        return arrays | {"order_bos_eos": np.array([self._lm.order, START, END], dtype=np.int64)}


@kernel
def _add(
    ngrams: Ngrams,
    begin: int,
    shorter: int,
    suffixes: np.ndarray,
    prob: np.ndarray,
    mass: np.ndarray,
    lm: LanguageModel,
    nodes: np.ndarray,
) -> None:
    """Add the n-grams from place ``begin`` on, one for each ``prob``, and fill ``nodes`` (int32) with their nodes.

    ``suffixes``: int32, the nodes of the n-grams that are a word shorter, of which ``shorter`` is the first place;
    empty for 1-grams.
    """
    for i in range(len(prob)):
        place = begin + i
        if len(suffixes) > 0 and i + _AHEAD < len(prob):
            suffix = int64(suffixes[at(ngrams.suffix[at(place + _AHEAD)] - shorter)])
            prefetch(lm.node, at(first_probe(lm, suffix, int64(ngrams.first[at(place + _AHEAD)]))))
        first = int64(ngrams.first[at(place)])
        node, key = first, 0
        if len(suffixes) > 0:
            suffix = int64(suffixes[at(ngrams.suffix[at(place)] - shorter)])
            node, key = slot_of(lm, suffix, first), node_key(suffix, first)
        nodes[at(i)] = node
        ngram = lm.node[at(node)]
        ngram["prob"] = log_prob(prob, i)
        # The longest n-grams have no mass. The counts of others are those of longer ones, but for `START`.
        if len(mass) > 0:
            ngram["backoff"] = log_backoff(mass, i)
            key |= EXTENDS_LEFT if first != START and ngrams.counts[at(place)] > 0 else 0
            # Suffixes of contexts are contexts, as nothing is pruned.
            key |= EXTENDS_RIGHT if is_context(mass, i) else 0
        ngram["key"] = key
