"""A table of source sides and their rules with counts, and the source sides of each sentence.

A rule of the table is a source side, a target side and an alignment; its count is the number of sampled occurrences of
the source side that give it. Leaving out a sentence's own pair changes counts, which are kept beside the sentence.
Where it also changes a rule's most frequent alignment, the table has a row of count 0 for the rule with the other one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.phrase_pairs import LEFT, RIGHT, SPAN, SYMBOLS
from mpitune.extraction.rule_counts import ALIGNMENTS, LOG_ENTRIES, MOST_RULES, RULES, RuleCounts, is_before
from mpitune.jit import int64, kernel

GAP = -2
"""A gap on a source side."""
EDGES = 4
"""Number of combinations of edges that have a gap: a core has at most as many source sides."""
SIDES, SOURCES, ROWS, TARGETS, LINKS, ENTRIES, CHANGES = range(7)
"""Indices of the counters in ``RuleTable.size``."""


class RuleTable(NamedTuple):
    """The source sides of an item's cores; the arrays are longer than used while cores are added."""

    size: np.ndarray
    """int64 [7]: numbers of source sides, source symbols, rules, target symbols, links, entries, changes."""
    source_ptr: np.ndarray
    """int64 [sides + 1]"""
    source: np.ndarray
    """int32: words as the bitext numbers them, `GAP`."""
    rule_ptr: np.ndarray
    """int64 [sides + 1]: the rules of side i are ``rule_ptr[i]`` to ``rule_ptr[i + 1]``."""
    rule_count: np.ndarray
    """int16 [rules]: sampled occurrences that give the rule."""
    lexical: np.ndarray
    """float64 [rules, 2]: MaxLexFgivenE, MaxLexEgivenF."""
    target_ptr: np.ndarray
    """int64 [rules + 1]"""
    target: np.ndarray
    """int32: words, first gap -1, second gap -2."""
    align_ptr: np.ndarray
    """int64 [rules + 1]"""
    align: np.ndarray
    """int16 [links, 2]: source symbol, target symbol."""
    sentence: np.ndarray
    """int32 [entries]: a sentence ..."""
    side: np.ndarray
    """int32 [entries]: ... that has this source side, ..."""
    sample: np.ndarray
    """int16 [entries]: ... the number of sampled occurrences of its core outside the sentence's own pair, ..."""
    single: np.ndarray
    """bool [entries]: ... True if these give rules of this source side once only."""
    change_ptr: np.ndarray
    """int64 [entries + 1]: the changes of entry i are ``change_ptr[i]`` to ``change_ptr[i + 1]``."""
    change_rule: np.ndarray
    """int16 [changes]: a rule, counted from the first of its source side, ..."""
    change_count: np.ndarray
    """int16 [changes]: ... and its count without the sentence's own pair."""


class Wanted(NamedTuple):
    """The sentences that want rules."""

    ptr: np.ndarray
    """int64 [nodes + 1]: the sentences with core n are ``sentence[ptr[n]:ptr[n + 1]]``."""
    sentence: np.ndarray
    """int32: ascending."""
    own_pair: np.ndarray
    """int32 [sentences]: the pair of the bitext that is left out for each sentence, as a place; -1: none."""


class TableWorkspace(NamedTuple):
    """Arrays that `add_core` works in."""

    rule_count: np.ndarray
    """int32 [MOST_RULES, 2]: the count of each rule, in all pairs and outside of one pair."""
    best: np.ndarray
    """int32 [MOST_RULES, 2]: its most frequent alignment, likewise."""
    touched: np.ndarray
    """int32 [MOST_RULES]: the rules that the pair that is left out gives."""
    is_touched: np.ndarray
    """bool [MOST_RULES]: False between uses."""
    edge_count: np.ndarray
    """int32 [EDGES, 2]: extractions by the edges that have a gap, in all pairs and outside of one pair."""
    row: np.ndarray
    """int32 [MOST_RULES]: the row of each alignment among the rules of its source side, -1 if it has none."""
    side: np.ndarray
    """int32 [EDGES]: the source sides of the core; -1 where no sentence has rules of it."""


def new_rule_table(rules: int, entries: int) -> RuleTable:
    """Space for about ``rules`` rules and ``entries`` entries, and for those of any one core."""
    rules += MOST_RULES
    sides, changes = rules, entries + 2 * MOST_RULES
    return RuleTable(
        size=np.zeros(7, dtype=np.int64),
        source_ptr=np.zeros(sides + 1, dtype=np.int64),
        source=np.empty(sides * SYMBOLS, dtype=np.int32),
        rule_ptr=np.zeros(sides + 1, dtype=np.int64),
        rule_count=np.empty(rules, dtype=np.int16),
        lexical=np.empty((rules, 2), dtype=np.float64),
        target_ptr=np.zeros(rules + 1, dtype=np.int64),
        target=np.empty(rules * SPAN, dtype=np.int32),
        align_ptr=np.zeros(rules + 1, dtype=np.int64),
        align=np.empty((rules * SPAN, 2), dtype=np.int16),
        sentence=np.empty(entries, dtype=np.int32),
        side=np.empty(entries, dtype=np.int32),
        sample=np.empty(entries, dtype=np.int16),
        single=np.empty(entries, dtype=np.bool_),
        change_ptr=np.zeros(entries + 1, dtype=np.int64),
        change_rule=np.empty(changes, dtype=np.int16),
        change_count=np.empty(changes, dtype=np.int16),
    )


def new_table_workspace() -> TableWorkspace:
    """A workspace, for any core."""
    return TableWorkspace(
        rule_count=np.empty((MOST_RULES, 2), dtype=np.int32),
        best=np.empty((MOST_RULES, 2), dtype=np.int32),
        touched=np.empty(MOST_RULES, dtype=np.int32),
        is_touched=np.zeros(MOST_RULES, dtype=np.bool_),
        edge_count=np.empty((EDGES, 2), dtype=np.int32),
        row=np.empty(MOST_RULES, dtype=np.int32),
        side=np.empty(EDGES, dtype=np.int32),
    )


@kernel
def fits(table: RuleTable, sentences: int) -> bool:
    """True if ``table`` has space for any core of ``sentences`` sentences."""
    size = table.size
    return bool(
        size[ROWS] + MOST_RULES <= len(table.rule_count)
        and size[SIDES] + EDGES < len(table.rule_ptr)
        and size[SOURCES] + EDGES * SYMBOLS <= len(table.source)
        and size[TARGETS] + MOST_RULES * SPAN <= len(table.target)
        and size[LINKS] + MOST_RULES * SPAN <= len(table.align)
        and size[ENTRIES] + EDGES * sentences <= len(table.sentence)
        and size[CHANGES] + 2 * MOST_RULES <= len(table.change_rule)
    )


@kernel
def add_core(
    core: np.ndarray,
    node: int,
    sampled: int,
    wanted: Wanted,
    counts: RuleCounts,
    space: TableWorkspace,
    table: RuleTable,
) -> None:
    """Add the source sides of a core and their rules, and an entry for each sentence that has rules of them.

    ``core``: int32, its symbols; ``node``: its number in ``wanted``; ``sampled``: its sampled occurrences, whose rules
    are ``counts``.
    """
    _sum_up(counts, space)
    for edges in range(EDGES):
        space.side[edges] = -1
    for alignment in range(counts.size[ALIGNMENTS]):
        space.row[alignment] = -1
    # Source sides that no sentence has are left out, and so are alignments that are never the most frequent ones.
    for k in range(wanted.ptr[node], wanted.ptr[node + 1]):
        own = int64(wanted.own_pair[wanted.sentence[k]])
        begin, end = _log_of_pair(counts, own)
        touched = _leave_out(counts, begin, end, space)
        for edges in range(EDGES):
            if space.edge_count[edges, 1] > 0:
                space.side[edges] = 0
        for t in range(touched):
            rule = space.touched[t]
            if space.rule_count[rule, 1] > 0 and space.best[rule, 1] != space.best[rule, 0]:
                space.row[space.best[rule, 1]] = 0
        _put_back(counts, begin, end, touched, space)
    for edges in range(EDGES):
        if space.side[edges] == 0:
            space.side[edges] = _add_side(core, edges, counts, space, table)
    for k in range(wanted.ptr[node], wanted.ptr[node + 1]):
        sentence = int64(wanted.sentence[k])
        begin, end = _log_of_pair(counts, int64(wanted.own_pair[sentence]))
        touched = _leave_out(counts, begin, end, space)
        outside = sampled
        for entry in range(begin, end):
            outside -= counts.log_alignment[entry] < 0
        for edges in range(EDGES):
            if space.edge_count[edges, 1] > 0:
                _add_entry(sentence, edges, outside, touched, counts, space, table)
        _put_back(counts, begin, end, touched, space)


@kernel
def _sum_up(counts: RuleCounts, space: TableWorkspace) -> None:
    """Sum up the counts of each rule and of the edges that have a gap."""
    for edges in range(EDGES):
        space.edge_count[edges, 0] = 0
    for rule in range(counts.size[RULES]):
        _count_rule(counts, rule, 0, space)
        _count_rule(counts, rule, 1, space)
        space.edge_count[counts.edges[rule], 0] += space.rule_count[rule, 0]
    for edges in range(EDGES):
        space.edge_count[edges, 1] = space.edge_count[edges, 0]


@kernel
def _count_rule(counts: RuleCounts, rule: int, column: int, space: TableWorkspace) -> None:
    """Write the count of ``rule`` and its most frequent alignment; of equal ones the first in the order of links."""
    total, most, best = 0, 0, int64(-1)
    alignment = int64(counts.first_alignment[rule])
    while alignment >= 0:
        count = counts.alignment_count[alignment]
        total += count
        if count > most or (count == most and count > 0 and is_before(counts, alignment, best)):
            most, best = count, alignment
        alignment = int64(counts.next_alignment[alignment])
    space.rule_count[rule, column], space.best[rule, column] = total, best


@kernel
def _log_of_pair(counts: RuleCounts, pair: int) -> tuple[int, int]:
    """The log entries of ``pair``: the first, and one past the last."""
    low, high = int64(0), counts.size[LOG_ENTRIES]
    while low < high:
        middle = (low + high) >> 1
        if counts.log_pair[middle] < pair:
            low = middle + 1
        else:
            high = middle
    end = low
    while end < counts.size[LOG_ENTRIES] and counts.log_pair[end] == pair:
        end += 1
    return low, end


@kernel
def _leave_out(counts: RuleCounts, begin: int, end: int, space: TableWorkspace) -> int:
    """Subtract log entries ``begin`` to ``end`` - 1, of one pair; returns the number of rules whose count changes."""
    touched = 0
    for entry in range(begin, end):
        alignment = counts.log_alignment[entry]
        if alignment >= 0:
            rule = counts.alignment_rule[alignment]
            counts.alignment_count[alignment] -= 1
            space.edge_count[counts.edges[rule], 1] -= 1
            if not space.is_touched[rule]:
                space.is_touched[rule] = True
                space.touched[touched] = rule
                touched += 1
    for t in range(touched):
        _count_rule(counts, int64(space.touched[t]), 1, space)
    return touched


@kernel
def _put_back(counts: RuleCounts, begin: int, end: int, touched: int, space: TableWorkspace) -> None:
    """Undo `_leave_out`."""
    for entry in range(begin, end):
        alignment = counts.log_alignment[entry]
        if alignment >= 0:
            counts.alignment_count[alignment] += 1
            space.edge_count[counts.edges[counts.alignment_rule[alignment]], 1] += 1
    for t in range(touched):
        rule = space.touched[t]
        space.is_touched[rule] = False
        space.rule_count[rule, 1], space.best[rule, 1] = space.rule_count[rule, 0], space.best[rule, 0]


@kernel
def _add_side(core: np.ndarray, edges: int, counts: RuleCounts, space: TableWorkspace, table: RuleTable) -> int:
    """Add the source side of a core with gaps at ``edges`` and its rules; returns its number."""
    size = table.size
    side, source, first = size[SIDES], size[SOURCES], size[ROWS]
    if edges & LEFT:
        table.source[source] = GAP
        source += 1
    for symbol in core:
        table.source[source] = symbol
        source += 1
    if edges & RIGHT:
        table.source[source] = GAP
        source += 1
    for rule in range(counts.size[RULES]):
        if counts.edges[rule] == edges:
            best = int64(space.best[rule, 0])
            space.row[best] = size[ROWS] - first
            _add_rule(rule, best, int64(space.rule_count[rule, 0]), counts, table)
    for alignment in range(counts.size[ALIGNMENTS]):
        rule = int64(counts.alignment_rule[alignment])
        if counts.edges[rule] == edges and space.row[alignment] == 0 and space.best[rule, 0] != alignment:
            space.row[alignment] = size[ROWS] - first
            _add_rule(rule, alignment, 0, counts, table)
    size[SIDES], size[SOURCES] = side + 1, source
    table.source_ptr[side + 1], table.rule_ptr[side + 1] = source, size[ROWS]
    return int(side)


@kernel
def _add_rule(rule: int, alignment: int, count: int, counts: RuleCounts, table: RuleTable) -> None:
    """Add ``rule`` with ``alignment`` and ``count``."""
    size = table.size
    row, target, link = size[ROWS], size[TARGETS], size[LINKS]
    table.rule_count[row] = count
    table.lexical[row, 0], table.lexical[row, 1] = counts.lexical[rule, 0], counts.lexical[rule, 1]
    for k in range(counts.target[rule, 0], counts.target[rule, 1]):
        table.target[target] = counts.symbol[k]
        target += 1
    for k in range(counts.links[alignment, 0], counts.links[alignment, 1]):
        table.align[link, 0], table.align[link, 1] = counts.link[k, 0], counts.link[k, 1]
        link += 1
    size[ROWS], size[TARGETS], size[LINKS] = row + 1, target, link
    table.target_ptr[row + 1], table.align_ptr[row + 1] = target, link


@kernel
def _add_entry(
    sentence: int,
    edges: int,
    outside: int,
    touched: int,
    counts: RuleCounts,
    space: TableWorkspace,
    table: RuleTable,
) -> None:
    """Add the entry of ``sentence`` for the source side with gaps at ``edges``, with its changes of counts."""
    size = table.size
    entry, change = size[ENTRIES], size[CHANGES]
    table.sentence[entry], table.side[entry] = sentence, space.side[edges]
    table.sample[entry], table.single[entry] = outside, space.edge_count[edges, 1] == 1
    for t in range(touched):
        rule = space.touched[t]
        if counts.edges[rule] != edges:
            continue
        before, best, count = space.best[rule, 0], space.best[rule, 1], space.rule_count[rule, 1]
        is_same = count == 0 or best == before
        table.change_rule[change], table.change_count[change] = space.row[before], count if is_same else 0
        change += 1
        if not is_same:
            table.change_rule[change], table.change_count[change] = space.row[best], count
            change += 1
    size[ENTRIES], size[CHANGES] = entry + 1, change
    table.change_ptr[entry + 1] = change
