"""Counts of a core's rules in all pairs of the bitext, and without one pair that is left out.

A pair is left out by subtracting its occurrences and put back by adding them, in time that does not depend on the
other pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.rule_counts import LOG_ENTRIES, RULES, RuleCounts, is_before
from mpitune.jit import int64, kernel

EDGES = 4
"""Number of combinations of edges that have a gap: a core has at most as many source sides."""


class Totals(NamedTuple):
    """Counts of the rules of one core; column 0: in all pairs, column 1: without the pair that is left out."""

    rule_count: np.ndarray
    """int32 [rules, 2]: the count of each rule."""
    best: np.ndarray
    """int32 [rules, 2]: its most frequent alignment; -1 if its count is 0."""
    edge_count: np.ndarray
    """int32 [EDGES, 2]: the sum of the counts of the rules with a gap at these edges."""
    touched: np.ndarray
    """int32 [rules]: the rules that the pair that is left out gives."""
    is_touched: np.ndarray
    """bool [rules]: True for these."""


def new_totals(most: int) -> Totals:
    """Space for the rules of a core, ``most`` at most."""
    return Totals(
        rule_count=np.empty((most, 2), dtype=np.int32),
        best=np.empty((most, 2), dtype=np.int32),
        edge_count=np.empty((EDGES, 2), dtype=np.int32),
        touched=np.empty(most, dtype=np.int32),
        is_touched=np.zeros(most, dtype=np.bool_),
    )


@kernel
def sum_up(counts: RuleCounts, totals: Totals) -> None:
    """Sum up the counts of each rule and of the edges that have a gap."""
    for edges in range(EDGES):
        totals.edge_count[edges, 0] = 0
    for rule in range(counts.size[RULES]):
        _count_rule(counts, rule, 0, totals)
        _count_rule(counts, rule, 1, totals)
        totals.edge_count[counts.edges[rule], 0] += totals.rule_count[rule, 0]
    for edges in range(EDGES):
        totals.edge_count[edges, 1] = totals.edge_count[edges, 0]


@kernel
def _count_rule(counts: RuleCounts, rule: int, column: int, totals: Totals) -> None:
    """Write the count of ``rule`` and its most frequent alignment; of equal ones the first in the order of links."""
    total, most, best = 0, 0, int64(-1)
    alignment = int64(counts.first_alignment[rule])
    while alignment >= 0:
        count = counts.alignment_count[alignment]
        total += count
        if count > most or (count == most and count > 0 and is_before(counts, alignment, best)):
            most, best = count, alignment
        alignment = int64(counts.next_alignment[alignment])
    totals.rule_count[rule, column], totals.best[rule, column] = total, best


@kernel
def log_of_pair(counts: RuleCounts, pair: int) -> tuple[int, int]:
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
def leave_out(counts: RuleCounts, begin: int, end: int, totals: Totals) -> int:
    """Subtract log entries ``begin`` to ``end`` - 1, of one pair; returns the number of rules whose count changes."""
    touched = 0
    for entry in range(begin, end):
        alignment = counts.log_alignment[entry]
        if alignment >= 0:
            rule = counts.alignment_rule[alignment]
            counts.alignment_count[alignment] -= 1
            totals.edge_count[counts.edges[rule], 1] -= 1
            if not totals.is_touched[rule]:
                totals.is_touched[rule] = True
                totals.touched[touched] = rule
                touched += 1
    for t in range(touched):
        _count_rule(counts, int64(totals.touched[t]), 1, totals)
    return touched


@kernel
def put_back(counts: RuleCounts, begin: int, end: int, touched: int, totals: Totals) -> None:
    """Undo `leave_out`."""
    for entry in range(begin, end):
        alignment = counts.log_alignment[entry]
        if alignment >= 0:
            counts.alignment_count[alignment] += 1
            totals.edge_count[counts.edges[counts.alignment_rule[alignment]], 1] += 1
    for t in range(touched):
        rule = totals.touched[t]
        totals.is_touched[rule] = False
        totals.rule_count[rule, 1], totals.best[rule, 1] = totals.rule_count[rule, 0], totals.best[rule, 0]
