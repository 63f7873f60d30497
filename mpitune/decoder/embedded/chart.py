"""Bottom-up parsing: every rule that matches a span of the sentence becomes an edge of the forest.

The chart is filled span by span, for each start from right to left and each end from left to right (CYK+ with a trie
over the source sides; Chappelier & Rajman 1998). Language models come later, in `cube`.

Rules of the goal symbol S apply from position 0 only and to spans of any length; all others to spans of at most
``span_limit`` words. The glue rules S -> X and S -> S X and the pass-through of every word are always there, so that
no sentence is without a parse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.trie import ROOT, TAKES_GAP, TAKES_WORD, Trie, child
from mpitune.jit import int64, kernel

GOAL, PHRASE = 0, 1
"""Category numbers of S and X."""
GLUE_ONE, GLUE_TWO, PASS_THROUGH = 0, 1, 2
"""Groups of the rules that are always there: S -> X, S -> S X, and from 2 on the pass-through of each position."""
VERTICES, EDGES, GROUPS = range(3)
"""Places in `Chart.size`."""


class Items(NamedTuple):
    """Partly matched source sides."""

    size: np.ndarray
    """int64 [1]: how many there are."""
    ptr: np.ndarray
    """int32 [(n + 1) * (n + 1), 2]: first item of (start, end) and one past the last."""
    node: np.ndarray
    """int32 [items]: the trie node reached."""
    tail: np.ndarray
    """int32 [items, 2]: the vertices of the gaps so far, or -1."""


class MatchedGrammar(NamedTuple):
    """A grammar being matched with a sentence."""

    trie: Trie
    items: Items
    seen: np.ndarray
    """int64 [groups of the trie]: `Search.stamp` + the chart's group for it; less than the stamp = not met yet."""


class Search(NamedTuple):
    """What stays the same while one sentence is parsed."""

    words: np.ndarray
    """int32 [n]: the source words."""
    span_limit: int
    category_order: np.ndarray
    """int32 [categories]: an order in which the unary rules over one span can be applied."""
    phrases: MatchedGrammar
    """The rules of all categories but S."""
    goals: MatchedGrammar
    """The rules of S, other than glue."""
    stamp: int
    """Larger than anything stored in `MatchedGrammar.seen` by the sentences before."""


class Chart(NamedTuple):
    """The forest of one sentence: vertices are (start, end, category), edges are groups of rules over vertices."""

    size: np.ndarray
    """int64 [3]: how many vertices, edges and groups there are."""
    vertex: np.ndarray
    """int32 [n + 1, n + 1, categories]: the vertex of (start, end, category), -1 where there is none."""
    first_edge: np.ndarray
    """int32 [vertices]: the edge of a vertex that was added last."""
    order: np.ndarray
    """int32 [vertices]: the vertices bottom-up."""
    next_edge: np.ndarray
    """int32 [edges]: the edge of the same vertex that was added before, or -1."""
    edge_group: np.ndarray
    """int32 [edges]: the group of rules (same source side and left-hand side) that an edge stands for."""
    edge_tail: np.ndarray
    """int32 [edges, 2]: the vertices under the first and the second gap of the source side, or -1."""
    group_rule: np.ndarray
    """int64 [groups, 2]: first rule of a group in the grammar, and one past the last; unused for the fixed groups."""


def new_items(arena: Arena, length: int, items: int) -> Items:
    """Space for the items of a sentence of ``length`` words."""
    return Items(
        size=np.zeros(1, dtype=np.int64),
        ptr=arena.empty(((length + 1) * (length + 1), 2), dtype=np.int32),
        node=arena.empty(items, dtype=np.int32),
        tail=arena.empty((items, 2), dtype=np.int32),
    )


def new_chart(arena: Arena, length: int, categories: int, vertices: int, edges: int, groups: int) -> Chart:
    """Space for the forest of a sentence of ``length`` words."""
    return Chart(
        size=np.zeros(3, dtype=np.int64),
        vertex=arena.empty((length + 1, length + 1, categories), dtype=np.int32),
        first_edge=arena.empty(vertices, dtype=np.int32),
        order=arena.empty(vertices, dtype=np.int32),
        next_edge=arena.empty(edges, dtype=np.int32),
        edge_group=arena.empty(edges, dtype=np.int32),
        edge_tail=arena.empty((edges, 2), dtype=np.int32),
        group_rule=arena.empty((groups, 2), dtype=np.int64),
    )


@kernel
def parse(search: Search, chart: Chart) -> bool:
    """Fill ``chart`` with the forest of the sentence; False where the space given ran out."""
    n = search.words.shape[0]
    if chart.group_rule.shape[0] < PASS_THROUGH + n:
        return False
    chart.size[VERTICES] = 0
    chart.size[EDGES] = 0
    chart.size[GROUPS] = PASS_THROUGH + n
    search.phrases.items.size[0] = 0
    search.goals.items.size[0] = 0
    chart.vertex[:, :, :] = -1
    ordered = 0
    for start in range(n - 1, -1, -1):
        last = n if start == 0 else min(n, start + search.span_limit)
        for end in range(start + 1, last + 1):
            if not _fill_cell(search, chart, start, end):
                return False
            for k in range(search.category_order.shape[0]):
                vertex = chart.vertex[start, end, search.category_order[k]]
                if vertex >= 0:
                    chart.order[ordered] = vertex
                    ordered += 1
    return True


@kernel
def _fill_cell(search: Search, chart: Chart, start: int, end: int) -> bool:
    """Find everything that covers the words from ``start`` to ``end``; False where space ran out."""
    phrases = end - start <= search.span_limit
    fits = True
    if phrases:
        fits = _advance(search, chart, search.phrases, start, end)
        if end == start + 1:
            fits = fits and _add_edge(search, chart, start, end, PHRASE, PASS_THROUGH + start, -1, -1)
    if start == 0:
        fits = fits and _advance(search, chart, search.goals, start, end)
        for middle in range(1, end):
            left = int64(chart.vertex[0, middle, GOAL])
            right = int64(chart.vertex[middle, end, PHRASE])
            if left >= 0 and right >= 0:
                fits = fits and _add_edge(search, chart, 0, end, GOAL, GLUE_TWO, left, right)
    # Rules whose source side begins with a gap over this very span: unary ones add categories to it, in an order that
    # never comes back to a category already passed.
    for k in range(search.category_order.shape[0]):
        category = int64(search.category_order[k])
        vertex = int64(chart.vertex[start, end, category])
        if vertex < 0:
            continue
        if phrases:
            fits = fits and _step(search, chart, search.phrases, ROOT, -1 - category, vertex, -1, -1, start, end)
        if start == 0:
            fits = fits and _step(search, chart, search.goals, ROOT, -1 - category, vertex, -1, -1, start, end)
            if category == PHRASE:
                fits = fits and _add_edge(search, chart, 0, end, GOAL, GLUE_ONE, vertex, -1)
    return fits


@kernel
def _advance(search: Search, chart: Chart, grammar: MatchedGrammar, start: int, end: int) -> bool:
    """Extend the items that start at ``start`` up to ``end`` by a word or a gap; False where space ran out."""
    n = search.words.shape[0]
    items = grammar.items
    row = start * (n + 1)
    items.ptr[row + end, 0] = items.size[0]
    items.ptr[row + end, 1] = items.size[0]
    word = int64(search.words[end - 1])
    if end == start + 1:
        if not _step(search, chart, grammar, ROOT, word, -1, -1, -1, start, end):
            return False
    else:
        for item in range(items.ptr[row + end - 1, 0], items.ptr[row + end - 1, 1]):
            node = int64(items.node[item])
            if grammar.trie.takes[node] & TAKES_WORD:
                left, right = int64(items.tail[item, 0]), int64(items.tail[item, 1])
                if not _step(search, chart, grammar, node, word, -1, left, right, start, end):
                    return False
    for middle in range(max(start + 1, end - search.span_limit), end):
        for category in range(search.category_order.shape[0]):
            vertex = int64(chart.vertex[middle, end, category])
            if vertex < 0:
                continue
            for item in range(items.ptr[row + middle, 0], items.ptr[row + middle, 1]):
                node = int64(items.node[item])
                if grammar.trie.takes[node] & TAKES_GAP:
                    left, right = int64(items.tail[item, 0]), int64(items.tail[item, 1])
                    if not _step(search, chart, grammar, node, -1 - category, vertex, left, right, start, end):
                        return False
    return True


@kernel
def _step(
    search: Search,
    chart: Chart,
    grammar: MatchedGrammar,
    node: int,
    symbol: int,
    vertex: int,
    left: int,
    right: int,
    start: int,
    end: int,
) -> bool:
    """Go from ``node`` along ``symbol`` (a gap over ``vertex``, or a word); note rules that end there, keep the item.

    ``left`` and ``right`` are the vertices of the gaps before, or -1. False where space ran out.
    """
    after = child(grammar.trie, node, symbol)
    if after < 0:
        return True
    if symbol < 0:
        if left < 0:
            left = vertex
        else:
            right = vertex
    trie, items = grammar.trie, grammar.items
    for group in range(trie.group_ptr[after, 0], trie.group_ptr[after, 1]):
        if grammar.seen[group] < search.stamp:
            number = chart.size[GROUPS]
            if number >= chart.group_rule.shape[0]:
                return False
            chart.group_rule[number, 0] = trie.rule_ptr[group, 0]
            chart.group_rule[number, 1] = trie.rule_ptr[group, 1]
            chart.size[GROUPS] = number + 1
            grammar.seen[group] = search.stamp + number
        number = grammar.seen[group] - search.stamp
        if not _add_edge(search, chart, start, end, int64(trie.lhs[group]), number, left, right):
            return False
    if trie.takes[after]:
        item = items.size[0]
        if item >= items.node.shape[0]:
            return False
        items.node[item] = after
        items.tail[item, 0] = left
        items.tail[item, 1] = right
        items.size[0] = item + 1
        items.ptr[start * (search.words.shape[0] + 1) + end, 1] = item + 1
    return True


@kernel
def _add_edge(
    search: Search, chart: Chart, start: int, end: int, category: int, group: int, left: int, right: int
) -> bool:
    """Add an edge under (start, end, category), making the vertex where it is the first; False where space ran out."""
    edge = chart.size[EDGES]
    if edge >= chart.edge_group.shape[0]:
        return False
    vertex = int64(chart.vertex[start, end, category])
    if vertex < 0:
        vertex = chart.size[VERTICES]
        if vertex >= chart.first_edge.shape[0]:
            return False
        chart.vertex[start, end, category] = vertex
        chart.first_edge[vertex] = -1
        chart.size[VERTICES] = vertex + 1
    chart.edge_group[edge] = group
    chart.edge_tail[edge, 0] = left
    chart.edge_tail[edge, 1] = right
    chart.next_edge[edge] = chart.first_edge[vertex]
    chart.first_edge[vertex] = edge
    chart.size[EDGES] = edge + 1
    return True
