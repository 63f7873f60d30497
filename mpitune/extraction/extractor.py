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
from mpitune.extraction.bitext import Bitext
from mpitune.extraction.cores import MOST_WORDS, Cores, Found, count_cores, find_cores, new_cores, new_found
from mpitune.extraction.occurrences import Occurrences, sample_occurrences
from mpitune.extraction.phrase_pairs import SYMBOLS, Core, OccurrenceRules, new_occurrence_rules, phrase_pairs
from mpitune.extraction.rule_counts import RULES, RuleCounts, clear, count_rule, log_occurrence, new_rule_counts
from mpitune.extraction.rule_table import (
    EDGES,
    GAP,
    RuleTable,
    TableWorkspace,
    Wanted,
    add_core,
    fits,
    new_rule_table,
    new_table_workspace,
)
from mpitune.jit import int64, kernel

MOST_CORES = 1 << 20
"""Number of cores, repeated ones included, at which an item of work is complete: some 0.3 GB of memory."""
ITEMS = 64
"""Wanted number of items, so that all ranks have work and progress is seen; fewer for few cores."""
_FEWEST_CORES = 1 << 13
"""Number of cores below which an item is not complete."""
_TABLE = 1 << 18
"""Number of rules, and of entries, for which a table has space."""


class Sentences(NamedTuple):
    """The sentences for which rules are extracted."""

    ptr: np.ndarray
    """int64 [sentences + 1]"""
    word: np.ndarray
    """int32: as the bitext numbers them; -1: not a word of the bitext."""
    own_pair: np.ndarray
    """int32 [sentences]: the pair to leave out, as a place among the pairs of the bitext; -1: none."""
    by_word: np.ndarray
    """int64: the places of known words in `word`, by word and then by place."""
    word_ptr: np.ndarray
    """int64 [words of the bitext + 1]: row pointer of `by_word`."""


class _Workspace(NamedTuple):
    """Arrays that the kernels work in."""

    core: Core
    source: np.ndarray
    """int32 [SYMBOLS]: the words of the core."""
    found: OccurrenceRules
    counts: RuleCounts
    table: TableWorkspace


def index_sentences(bitext: Bitext, sentences: list[np.ndarray], without: np.ndarray) -> Sentences:
    """``sentences`` (int32 each, -1 for a word that the bitext has not) as `Sentences`.

    ``without``: int32 [sentences], the number of the pair in the bitext's files to leave out (leave-one-out), -1: none.
    """
    word = np.concatenate([np.zeros(0, dtype=np.int32), *sentences]).astype(np.int32)
    by_word = np.argsort(word, kind="stable")
    by_word = by_word[word[by_word] >= 0]
    own_pair = np.where(without >= 0, bitext.place[without], np.int32(-1)).astype(np.int32)
    word_ptr = np.searchsorted(word[by_word], np.arange(len(bitext.word_ptr))).astype(np.int64)
    return Sentences(row_ends([len(words) for words in sentences]), word, own_pair, by_word, word_ptr)


def items_of_work(sentences: Sentences) -> list[range]:
    """Ranges of words; the cores that begin with the words of a range are extracted together, by `extract_item`."""
    length = np.diff(sentences.ptr)
    cores = np.array([count_cores(n) for n in range(int(length.max(initial=0)) + 1)])
    # The cores of a sentence are taken to begin with its words in equal parts.
    per_word = cores[length] / np.maximum(length, 1)
    sentence = np.searchsorted(sentences.ptr, sentences.by_word, side="right") - 1
    ends = np.concatenate([[0.0], np.cumsum(per_word[sentence])])[sentences.word_ptr]
    size = min(max(ends[-1] / ITEMS, _FEWEST_CORES), MOST_CORES)
    items, first = list[range](), 0
    while first + 1 < len(ends):
        last = max(int(np.searchsorted(ends, ends[first] + size, side="right")) - 1, first + 1)
        if ends[last] > ends[first]:
            items.append(range(first, last))
        first = last
    return items


def extract_item(bitext: Bitext, sentences: Sentences, words: range) -> Iterator[RuleTable]:
    """The rules whose source sides have a first word in ``words``, as tables of bounded size.

    Lexical probabilities include the pairs that are left out.
    """
    cores, wanted = _wanted_cores(sentences, words)
    occurrences = sample_occurrences(bitext, cores, words.start, words.stop)
    nodes = _useful_cores(bitext, occurrences, wanted)
    symbols = np.full((int(cores.size[0]), SYMBOLS), np.iinfo(np.int32).min, dtype=np.int32)
    length = np.zeros(len(symbols), dtype=np.int8)
    _spell_out(cores, symbols, length)
    # In the order of source sides; prefixes come first.
    nodes = nodes[np.lexsort(symbols[nodes].T[::-1])]
    space = _new_workspace()
    most = int(np.diff(wanted.ptr)[nodes].max(initial=0))
    done = 0
    while done < len(nodes):
        table = new_rule_table(_TABLE, _TABLE + EDGES * most)
        done = _extract(bitext, symbols, length, occurrences, wanted, nodes, done, space, table)
        yield trimmed(table)


def trimmed(table: RuleTable) -> RuleTable:
    """A copy of the used part of each array."""
    sides, sources, rules, targets, links, entries, changes = table.size.tolist()
    used = {
        "source_ptr": sides + 1,
        "source": sources,
        "rule_ptr": sides + 1,
        "rule_count": rules,
        "lexical": rules,
        "target_ptr": rules + 1,
        "target": targets,
        "align_ptr": rules + 1,
        "align": links,
        "sentence": entries,
        "side": entries,
        "sample": entries,
        "single": entries,
        "change_ptr": entries + 1,
        "change_rule": changes,
        "change_count": changes,
    }
    return table._replace(**{name: getattr(table, name)[:length].copy() for name, length in used.items()})


def _new_workspace() -> _Workspace:
    return _Workspace(
        core=Core(*(np.zeros(3, dtype=np.int64) for _ in Core._fields)),
        source=np.empty(SYMBOLS, dtype=np.int32),
        found=new_occurrence_rules(),
        counts=new_rule_counts(),
        table=new_table_workspace(),
    )


def _wanted_cores(sentences: Sentences, words: range) -> tuple[Cores, Wanted]:
    """The cores of ``sentences`` that begin with ``words``, and the sentences of each."""
    places = sentences.by_word[sentences.word_ptr[words.start] : sentences.word_ptr[words.stop]]
    number = (np.searchsorted(sentences.ptr, places, side="right") - 1).astype(np.int32)
    ends = sentences.ptr[number + 1]
    found = new_found()
    most = int(_count_found(ends - places))
    cores = new_cores(most)
    node, sentence = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    last = np.full(most + 1, -1, dtype=np.int32)
    pairs = _add_cores(sentences.word, places, number, ends, cores, found, last, node, sentence)
    order = np.argsort(node[:pairs], kind="stable")
    ptr = row_ends(np.bincount(node[:pairs], minlength=int(cores.size[0])))
    return cores, Wanted(ptr, sentence[:pairs][order], sentences.own_pair)


def _count_found(following: np.ndarray) -> int:
    """At least the number of cores that begin at words with ``following`` words to the end of their sentences."""
    most = np.array([count_cores(n) - count_cores(n - 1) if n else 0 for n in range(64)])
    return int(most[np.minimum(following, 63)].sum())


@kernel
def _add_cores(
    words: np.ndarray,
    places: np.ndarray,
    number: np.ndarray,
    ends: np.ndarray,
    cores: Cores,
    found: Found,
    last: np.ndarray,
    node: np.ndarray,
    sentence: np.ndarray,
) -> int:
    """Add the cores that begin at ``places`` to ``cores``, and their nodes and sentences to ``node`` and ``sentence``.

    ``number``, ``ends``: the sentence of each place, and its end; ``last``: int32 [nodes], -1. Each pair of a node and
    a sentence is added once; returns the number of pairs.
    """
    count = 0
    for p in range(len(places)):
        place = int64(places[p])
        for n in range(find_cores(cores, words, place, min(int64(ends[p]), place + MOST_WORDS), True, found)):
            core = found.node[n]
            if last[core] != number[p]:
                last[core] = number[p]
                node[count], sentence[count] = core, number[p]
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


@kernel
def _spell_out(cores: Cores, symbols: np.ndarray, length: np.ndarray) -> None:
    """Write the symbols of each core to ``symbols`` (int32 [nodes, SYMBOLS]) and their number to ``length`` (int8)."""
    for node in range(1, cores.size[0]):
        parent = cores.parent[node]
        n = length[parent]
        for k in range(n):
            symbols[node, k] = symbols[parent, k]
        symbol = cores.symbol[node]
        if symbol < 0:
            symbols[node, n] = GAP
            n += 1
            symbol = GAP - symbol
        symbols[node, n] = symbol
        length[node] = n + 1


@kernel
def _extract(
    bitext: Bitext,
    symbols: np.ndarray,
    length: np.ndarray,
    occurrences: Occurrences,
    wanted: Wanted,
    nodes: np.ndarray,
    done: int,
    space: _Workspace,
    table: RuleTable,
) -> int:
    """Add the cores ``nodes[done:]`` to ``table`` while they fit; returns the number of cores done."""
    while done < len(nodes):
        node = int64(nodes[done])
        if not fits(table, int64(wanted.ptr[node + 1] - wanted.ptr[node])):
            break
        core = symbols[node, : length[node]]
        _count_rules(bitext, core, node, occurrences, space)
        if space.counts.size[RULES] > 0:
            sampled = int64(occurrences.ptr[node + 1] - occurrences.ptr[node])
            add_core(core, node, sampled, wanted, space.counts, space.table, table)
        done += 1
    return done


@kernel
def _count_rules(bitext: Bitext, symbols: np.ndarray, node: int, occurrences: Occurrences, space: _Workspace) -> None:
    """Count the rules of the sampled occurrences of the core ``symbols``."""
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
    for o in range(occurrences.ptr[node], occurrences.ptr[node + 1]):
        for c in range(chunks):
            core.at[c] = occurrences.at[o, c]
        log_occurrence(counts, int64(bitext.texts.source[core.at[0]]["pair"]), -1)
        for r in range(phrase_pairs(bitext.texts, core, chunks, len(symbols), space.found)):
            count_rule(bitext, source, core, chunks, r, space.found, counts)
