"""A table of source sides and their rules with counts, and the source sides of each sentence.

A rule of the table is a source side, a target side and an alignment; its count is the number of sampled occurrences of
the source side that give it. Leaving out a sentence's own pair changes counts, which are kept beside the sentence.
Where it also changes a rule's most frequent alignment, the table has a row of count 0 for the rule with the other one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.leave_one_out import EDGES, Totals, leave_out, log_of_pair, new_totals, put_back, sum_up
from mpitune.extraction.phrase_pairs import LEFT, RIGHT, SPAN, SYMBOLS
from mpitune.extraction.rule_counts import ALIGNMENTS, RULES, RuleCounts
from mpitune.jit import int64, kernel

GAP = -2
"""A gap on a source side."""
_MOST_LINKS = SPAN * SYMBOLS
"""Maximum number of links of a rule."""
_ABSENT, _WANTED = -1, -2
"""Not in the table; to be added to it."""
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

    totals: Totals
    row: np.ndarray
    """int32 [alignments]: the row of each alignment among the rules of its source side, or `_ABSENT`, `_WANTED`."""
    side: np.ndarray
    """int32 [EDGES]: the source sides of the core by the edges that have a gap, likewise."""


def new_rule_table(rules: int, entries: int, most: int, changes: int) -> RuleTable:
    """Space for about ``rules`` rules and ``entries`` entries, and for those of any one core: ``most`` rules.

    ``changes``: those of the first core; there is space for as many changes as entries, if these are more.
    """
    rules += most
    sides, changes = rules, max(entries, changes)
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
        align=np.empty((rules * SPAN + most * _MOST_LINKS, 2), dtype=np.int16),
        sentence=np.empty(entries, dtype=np.int32),
        side=np.empty(entries, dtype=np.int32),
        sample=np.empty(entries, dtype=np.int16),
        single=np.empty(entries, dtype=np.bool_),
        change_ptr=np.zeros(entries + 1, dtype=np.int64),
        change_rule=np.empty(changes, dtype=np.int16),
        change_count=np.empty(changes, dtype=np.int16),
    )


def new_table_workspace(most: int) -> TableWorkspace:
    """A workspace for cores of ``most`` rules at most."""
    return TableWorkspace(new_totals(most), np.empty(most, dtype=np.int32), np.empty(EDGES, dtype=np.int32))


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


@kernel
def fits(table: RuleTable, sentences: int, most: int) -> bool:
    """True if ``table`` has space for any core of ``most`` rules and ``sentences`` sentences, but for its changes."""
    size = table.size
    return bool(
        size[ROWS] + most <= len(table.rule_count)
        and size[SIDES] + EDGES < len(table.rule_ptr)
        and size[SOURCES] + EDGES * SYMBOLS <= len(table.source)
        and size[TARGETS] + most * SPAN <= len(table.target)
        and size[LINKS] + most * _MOST_LINKS <= len(table.align)
        and size[ENTRIES] + EDGES * sentences <= len(table.sentence)
    )


@kernel
def most_changes(node: int, wanted: Wanted, counts: RuleCounts) -> int:
    """The number of changes that the core ``node``, whose rules are ``counts``, adds to a table at most.

    These are two for each rule of an own pair, which may be that of many equal sentences.
    """
    most = int64(0)
    for k in range(wanted.ptr[node], wanted.ptr[node + 1]):
        begin, end = log_of_pair(counts, int64(wanted.own_pair[wanted.sentence[k]]))
        most += 2 * (end - begin)
    return most


@kernel
def fits_changes(table: RuleTable, changes: int) -> bool:
    """True if ``table`` has space for so many further ``changes``."""
    return bool(table.size[CHANGES] + changes <= len(table.change_rule))


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
    totals = space.totals
    sum_up(counts, totals)
    space.side[:] = _ABSENT
    space.row[: counts.size[ALIGNMENTS]] = _ABSENT
    for k in range(wanted.ptr[node], wanted.ptr[node + 1]):
        _mark_wanted(int64(wanted.own_pair[wanted.sentence[k]]), counts, space)
    for edges in range(EDGES):
        if space.side[edges] == _WANTED:
            space.side[edges] = _add_side(core, edges, counts, space, table)
    for k in range(wanted.ptr[node], wanted.ptr[node + 1]):
        sentence = int64(wanted.sentence[k])
        begin, end = log_of_pair(counts, int64(wanted.own_pair[sentence]))
        touched = leave_out(counts, begin, end, totals)
        outside = sampled
        for entry in range(begin, end):
            outside -= counts.log_alignment[entry] < 0
        for edges in range(EDGES):
            if totals.edge_count[edges, 1] > 0:
                _add_entry(sentence, edges, outside, touched, counts, space, table)
        put_back(counts, begin, end, touched, totals)


@kernel
def _mark_wanted(own_pair: int, counts: RuleCounts, space: TableWorkspace) -> None:
    """Mark the source sides that occur outside ``own_pair``, and alignments that are the most frequent ones there only.

    The table does not need others.
    """
    totals = space.totals
    begin, end = log_of_pair(counts, own_pair)
    touched = leave_out(counts, begin, end, totals)
    for edges in range(EDGES):
        if totals.edge_count[edges, 1] > 0:
            space.side[edges] = _WANTED
    for t in range(touched):
        rule = totals.touched[t]
        if totals.rule_count[rule, 1] > 0 and totals.best[rule, 1] != totals.best[rule, 0]:
            space.row[totals.best[rule, 1]] = _WANTED
    put_back(counts, begin, end, touched, totals)


@kernel
def _add_side(core: np.ndarray, edges: int, counts: RuleCounts, space: TableWorkspace, table: RuleTable) -> int:
    """Add the source side of a core with gaps at ``edges`` and its rules; returns its number."""
    size, totals = table.size, space.totals
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
            best = int64(totals.best[rule, 0])
            space.row[best] = size[ROWS] - first
            _add_rule(rule, best, int64(totals.rule_count[rule, 0]), counts, table)
    for alignment in range(counts.size[ALIGNMENTS]):
        rule = int64(counts.alignment_rule[alignment])
        if counts.edges[rule] == edges and space.row[alignment] == _WANTED:
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
    size, totals = table.size, space.totals
    entry, change = size[ENTRIES], size[CHANGES]
    table.sentence[entry], table.side[entry] = sentence, space.side[edges]
    table.sample[entry], table.single[entry] = outside, totals.edge_count[edges, 1] == 1
    for t in range(touched):
        rule = totals.touched[t]
        if counts.edges[rule] != edges:
            continue
        before, best, count = totals.best[rule, 0], totals.best[rule, 1], totals.rule_count[rule, 1]
        is_same = count == 0 or best == before
        table.change_rule[change], table.change_count[change] = space.row[before], count if is_same else 0
        change += 1
        if not is_same:
            table.change_rule[change], table.change_count[change] = space.row[best], count
            change += 1
    size[ENTRIES], size[CHANGES] = entry + 1, change
    table.change_ptr[entry + 1] = change
