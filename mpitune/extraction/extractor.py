"""Extraction of Hiero rules from a word-aligned bitext for many sentences at once (Chiang 2007; Lopez 2007).

Source sides are taken from the sentences. All cores of the sentences that begin with the same words are extracted
together: one pass over these words in the bitext samples their occurrences, and the rules of each are counted once.

Chiang 2007 = "Hierarchical Phrase-Based Translation", Computational Linguistics 33; Lopez 2007 = "Hierarchical
Phrase-Based Translation with Suffix Arrays", EMNLP-CoNLL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.extraction.bitext import Bitext, count_alignments
from mpitune.extraction.cores import MOST_WORDS, Cores, Search, count_cores, find_cores, new_cores, new_search
from mpitune.extraction.leave_one_out import EDGES
from mpitune.extraction.occurrences import Occurrences, sample_occurrences
from mpitune.extraction.phrase_pairs import SYMBOLS, Core, OccurrenceRules, new_occurrence_rules, phrase_pairs
from mpitune.extraction.rule_counts import (
    RULES,
    RuleCounts,
    clear,
    count_rule,
    log_occurrence,
    most_rules,
    new_rule_counts,
)
from mpitune.extraction.rule_table import (
    GAP,
    RuleTable,
    TableWorkspace,
    Wanted,
    add_core,
    fits,
    fits_changes,
    most_changes,
    new_rule_table,
    new_table_workspace,
    trimmed,
)
from mpitune.extraction.sentences import Sentences, sentence_of
from mpitune.jit import int64, kernel

TABLE = 1 << 18
"""Number of rules, and of entries, for which a table has space."""


class _Starts(NamedTuple):
    """Words at which cores begin."""

    place: np.ndarray
    """int64: their places in ``Sentences.word``."""
    sentence: np.ndarray
    """int64: the sentence of each."""
    end: np.ndarray
    """int64: the end of this sentence."""


class _Uses(NamedTuple):
    """Pairs of a core and a sentence that has it, each once; the arrays are longer than used."""

    node: np.ndarray
    """int32"""
    sentence: np.ndarray
    """int32: ascending for each core."""
    last: np.ndarray
    """int32 [nodes]: the last sentence added for each core, or -1."""


class _Spelled(NamedTuple):
    """The symbols of the cores of a trie."""

    symbols: np.ndarray
    """int32 [nodes, SYMBOLS]: words and `GAP`; beyond the end a number below these."""
    length: np.ndarray
    """int8 [nodes]"""


class _Item(NamedTuple):
    """An item of work."""

    spelled: _Spelled
    occurrences: Occurrences
    wanted: Wanted
    nodes: np.ndarray
    """int64: the cores to extract, in the order of their symbols."""


class _Workspace(NamedTuple):
    """Arrays that the kernels work in."""

    core: Core
    source: np.ndarray
    """int32 [SYMBOLS]: the words of the core."""
    found: OccurrenceRules
    counts: RuleCounts
    table: TableWorkspace


def extract_item(bitext: Bitext, sentences: Sentences, words: range) -> Iterator[RuleTable]:
    """The rules whose source sides have a first word in ``words``, as tables of bounded size.

    Lexical probabilities include the pairs that are left out.
    """
    cores, wanted = _wanted_cores(sentences, words)
    occurrences = sample_occurrences(bitext, cores, words.start, words.stop)
    spelled = _spelled_out(cores)
    nodes = _useful_cores(bitext, occurrences, wanted)
    # In the order of source sides; prefixes come first.
    nodes = nodes[np.lexsort(spelled.symbols[nodes].T[::-1])]
    item, space = _Item(spelled, occurrences, wanted, nodes), _new_workspace(count_alignments(bitext))
    entries = EDGES * int(np.diff(wanted.ptr)[nodes].max(initial=0))
    done = changes = 0
    while done < len(nodes):
        table = new_rule_table(TABLE, TABLE + entries, most_rules(space.counts), changes)
        done, changes = _extract(bitext, item, done, space, table)
        yield trimmed(table)


def _new_workspace(alignments: int) -> _Workspace:
    counts = new_rule_counts(alignments)
    return _Workspace(
        core=Core(*(np.zeros(3, dtype=np.int64) for _ in Core._fields)),
        source=np.empty(SYMBOLS, dtype=np.int32),
        found=new_occurrence_rules(),
        counts=counts,
        table=new_table_workspace(most_rules(counts)),
    )


def _wanted_cores(sentences: Sentences, words: range) -> tuple[Cores, Wanted]:
    """The cores of ``sentences`` that begin with ``words``, and the sentences of each."""
    place = sentences.by_word[sentences.word_ptr[words.start] : sentences.word_ptr[words.stop]]
    sentence = sentence_of(sentences, place)
    starts = _Starts(place, sentence, sentences.ptr[sentence + 1])
    most = int(count_cores(starts.end - place).sum())
    cores = new_cores(most)
    uses = _Uses(
        node=np.empty(most, dtype=np.int32),
        sentence=np.empty(most, dtype=np.int32),
        last=np.full(most + 1, -1, dtype=np.int32),
    )
    count = _add_cores(new_search(cores, sentences.word, add=True), starts, uses)
    node, sentence = uses.node[:count], uses.sentence[:count]
    ptr = row_ends(np.bincount(node, minlength=int(cores.size[0])))
    return cores, Wanted(ptr, sentence[np.argsort(node, kind="stable")], sentences.own_pair)


@kernel
def _add_cores(search: Search, starts: _Starts, uses: _Uses) -> int:
    """Add the cores that begin at ``starts`` to those of ``search``, and to ``uses``; returns the number of uses."""
    count = 0
    for s in range(len(starts.place)):
        place, sentence = int64(starts.place[s]), starts.sentence[s]
        for n in range(find_cores(search, place, min(int64(starts.end[s]), place + MOST_WORDS))):
            node = search.found.node[n]
            if uses.last[node] != sentence:
                uses.last[node] = sentence
                uses.node[count], uses.sentence[count] = node, sentence
                count += 1
    return count


def _useful_cores(bitext: Bitext, occurrences: Occurrences, wanted: Wanted) -> np.ndarray:
    """int64: the cores that occur outside the own pair of a sentence that has them."""
    useful = np.zeros(len(occurrences.ptr) - 1, dtype=np.bool_)
    _mark_useful(bitext, occurrences, wanted, useful)
    return np.flatnonzero(useful)


@kernel
def _mark_useful(bitext: Bitext, occurrences: Occurrences, wanted: Wanted, useful: np.ndarray) -> None:
    for node in range(len(useful)):
        begin, end = occurrences.ptr[node], occurrences.ptr[node + 1]
        if begin == end:
            continue
        # Occurrences are in the order of the pairs.
        first = bitext.texts.source[occurrences.at[begin, 0]]["pair"]
        last = bitext.texts.source[occurrences.at[end - 1, 0]]["pair"]
        sentences = wanted.ptr[node + 1] - wanted.ptr[node]
        useful[node] = first != last or sentences > 1 or wanted.own_pair[wanted.sentence[wanted.ptr[node]]] != first


def _spelled_out(cores: Cores) -> _Spelled:
    nodes = int(cores.size[0])
    symbols = np.full((nodes, SYMBOLS), np.iinfo(np.int32).min, dtype=np.int32)
    spelled = _Spelled(symbols, np.zeros(nodes, dtype=np.int8))
    _spell_out(cores, spelled)
    return spelled


@kernel
def _spell_out(cores: Cores, spelled: _Spelled) -> None:
    symbols = spelled.symbols
    for node in range(1, cores.size[0]):
        parent = cores.parent[node]
        n = spelled.length[parent]
        for k in range(n):
            symbols[node, k] = symbols[parent, k]
        symbol = cores.symbol[node]
        if symbol < 0:
            symbols[node, n] = GAP
            n += 1
            symbol = GAP - symbol
        symbols[node, n] = symbol
        spelled.length[node] = n + 1


@kernel
def _extract(bitext: Bitext, item: _Item, done: int, space: _Workspace, table: RuleTable) -> tuple[int, int]:
    """Add the cores ``item.nodes[done:]`` to ``table`` while they fit.

    Returns the number of cores done, and the changes that the next one needs if these did not fit, otherwise 0.
    """
    wanted, ptr = item.wanted, item.occurrences.ptr
    while done < len(item.nodes):
        node = int64(item.nodes[done])
        if not fits(table, int64(wanted.ptr[node + 1] - wanted.ptr[node]), most_rules(space.counts)):
            break
        core = item.spelled.symbols[node, : item.spelled.length[node]]
        _count_rules(bitext, core, item.occurrences.at[ptr[node] : ptr[node + 1]], space)
        if space.counts.size[RULES] > 0:
            changes = most_changes(node, wanted, space.counts)
            if not fits_changes(table, changes):
                return done, changes
            sampled = int64(ptr[node + 1] - ptr[node]) * count_alignments(bitext)
            add_core(core, node, sampled, wanted, space.counts, space.table, table)
        done += 1
    return done, 0


@kernel
def _count_rules(bitext: Bitext, symbols: np.ndarray, at: np.ndarray, space: _Workspace) -> None:
    """Count the rules of the occurrences ``at`` (`Occurrences.at`) of the core ``symbols``, with each alignment."""
    core, counts = space.core, space.counts
    words, chunks = 0, 1
    core.length[0] = 0
    for symbol in symbols:
        if symbol == GAP:
            core.length[chunks] = 0
            chunks += 1
        else:
            space.source[words] = symbol
            core.length[chunks - 1] += 1
            words += 1
    source = space.source[:words]
    clear(counts)
    for o in range(len(at)):
        pair = int64(bitext.texts.source[at[o, 0]]["pair"])
        for alignment in range(count_alignments(bitext)):
            for c in range(chunks):
                core.at[c] = at[o, c] + alignment * len(bitext.source_words)
            log_occurrence(counts, pair, -1)
            for r in range(phrase_pairs(bitext.texts, core, chunks, len(symbols), space.found)):
                count_rule(bitext, source, core, chunks, r, space.found, counts)
