"""Chart parser: every rule that matches a span of the sentence becomes an edge of the forest.

The chart is filled span by span, for each start from right to left and each end from left to right (CYK+ with a trie
over the source sides; Chappelier and Rajman, TAPD 1998). `cube` adds the language models afterwards.

Rules of the goal symbol S apply from position 0 only and to spans of any length; all others to spans of at most
``span_limit`` words. The glue rules S -> X and S -> S X and the pass-through rule of every word are added to each
grammar, so that every sentence has a parse.

The space of the arrays is fixed beforehand: a kernel returns False when it is exhausted, and the caller starts again
with twice the space.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.trie import ROOT, TAKES_GAP, TAKES_WORD, Trie, child
from mpitune.grammar.rules import GOAL, PHRASE
from mpitune.jit import int64, kernel

GLUE_ONE, GLUE_TWO, PASS_THROUGH = 0, 1, 2
"""Numbers of the fixed groups: S -> X, S -> S X, and from 2 on the pass-through rule of each position."""
VERTICES, EDGES, GROUPS = range(3)
"""Indices in `Chart.size`."""


class Span(NamedTuple):
    """Source words from ``start`` to ``end`` (exclusive)."""

    start: int
    end: int


class Item(NamedTuple):
    """A partly matched source side: one row of `Items`."""

    node: int
    """The trie node reached."""
    left: int
    """The vertex of the first gap, or -1."""
    right: int
    """The vertex of the second gap, or -1."""


class Items(NamedTuple):
    """The partly matched source sides of one sentence."""

    size: np.ndarray
    """int64 [1]: number of items."""
    ptr: np.ndarray
    """int32 [(n + 1) * (n + 1), 2]: first item of (start, end) and one past the last."""
    node: np.ndarray
    """int32 [items]: `Item.node`."""
    tail: np.ndarray
    """int32 [items, 2]: `Item.left` and `Item.right`."""


class MatchedGrammar(NamedTuple):
    """A grammar and the state of matching it with a sentence."""

    trie: Trie
    items: Items
    seen: np.ndarray
    """int64 [groups of the trie]: `ParseContext.stamp` + the group's number in the chart; a value below the stamp is
    left from an earlier sentence."""


class ParseContext(NamedTuple):
    """The sentence, the grammars and the limits of one call of `parse`."""

    words: np.ndarray
    """int32 [n]: the source words."""
    span_limit: int
    category_order: np.ndarray
    """int32 [categories]: every category after those that unary rules rewrite as it."""
    phrases: MatchedGrammar
    """The rules of all categories but S."""
    goals: MatchedGrammar
    """The rules of S, other than glue."""
    stamp: int
    """A number above all that earlier sentences stored in `MatchedGrammar.seen`."""


class Chart(NamedTuple):
    """The forest of one sentence: vertices are (start, end, category), edges are groups of rules over vertices."""

    size: np.ndarray
    """int64 [3]: number of vertices, edges and groups."""
    vertex: np.ndarray
    """int32 [n + 1, n + 1, categories]: the vertex of (start, end, category), or -1."""
    first_edge: np.ndarray
    """int32 [vertices]: the edge added last to a vertex."""
    order: np.ndarray
    """int32 [vertices]: the vertices bottom-up."""
    next_edge: np.ndarray
    """int32 [edges]: the edge added before to the same vertex, or -1."""
    edge_group: np.ndarray
    """int32 [edges]: the edge's group of rules (same source side and left-hand side)."""
    edge_tail: np.ndarray
    """int32 [edges, 2]: the vertices under the first and the second gap of the source side, or -1."""
    group_rule: np.ndarray
    """int64 [groups, 2]: first rule of a group in the grammar, and one past the last; unused for the fixed groups."""


def new_items(arena: Arena, length: int, items: int) -> Items:
    """Space for ``items`` items of a sentence of ``length`` words."""
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
def parse(context: ParseContext, chart: Chart) -> bool:
    """Fill ``chart`` with the forest of the sentence; False if its space or that of the items is exhausted."""
    n = context.words.shape[0]
    if chart.group_rule.shape[0] < PASS_THROUGH + n:
        return False
    chart.size[VERTICES] = 0
    chart.size[EDGES] = 0
    chart.size[GROUPS] = PASS_THROUGH + n
    context.phrases.items.size[0] = 0
    context.goals.items.size[0] = 0
    chart.vertex[:, :, :] = -1
    ordered = 0
    for start in range(n - 1, -1, -1):
        last = n if start == 0 else min(n, start + context.span_limit)
        for end in range(start + 1, last + 1):
            if not _fill_cell(context, chart, Span(start, end)):
                return False
            for k in range(context.category_order.shape[0]):
                vertex = chart.vertex[start, end, context.category_order[k]]
                if vertex >= 0:
                    chart.order[ordered] = vertex
                    ordered += 1
    return True


@kernel
def _fill_cell(context: ParseContext, chart: Chart, span: Span) -> bool:
    """Add the edges of all rules that match ``span``; False if space is exhausted."""
    start, end = span
    phrases = end - start <= context.span_limit
    fits = True
    if phrases:
        fits = _advance(context, chart, context.phrases, span)
        if end == start + 1:
            fits = fits and _add_edge(chart, span, PHRASE, PASS_THROUGH + start, -1, -1)
    if start == 0:
        fits = fits and _advance(context, chart, context.goals, span)
        for middle in range(1, end):
            left = int64(chart.vertex[0, middle, GOAL])
            right = int64(chart.vertex[middle, end, PHRASE])
            if left >= 0 and right >= 0:
                fits = fits and _add_edge(chart, span, GOAL, GLUE_TWO, left, right)
    # Rules whose source side begins with a gap over this whole span. Unary rules add categories to the span, in this
    # order only such as the loop has not reached yet.
    root = Item(int64(ROOT), int64(-1), int64(-1))
    for k in range(context.category_order.shape[0]):
        category = int64(context.category_order[k])
        vertex = int64(chart.vertex[start, end, category])
        if vertex < 0:
            continue
        if phrases:
            fits = fits and _step(context, chart, context.phrases, span, root, -1 - category, vertex)
        if start == 0:
            fits = fits and _step(context, chart, context.goals, span, root, -1 - category, vertex)
            if category == PHRASE:
                fits = fits and _add_edge(chart, span, GOAL, GLUE_ONE, vertex, -1)
    return fits


@kernel
def _advance(context: ParseContext, chart: Chart, grammar: MatchedGrammar, span: Span) -> bool:
    """Extend the items that begin at ``span.start`` by a word or a gap that ends at ``span.end``.

    Returns False if space is exhausted.
    """
    start, end = span
    n = context.words.shape[0]
    items = grammar.items
    row = start * (n + 1)
    items.ptr[row + end, 0] = items.size[0]
    items.ptr[row + end, 1] = items.size[0]
    word = int64(context.words[end - 1])
    if end == start + 1:
        root = Item(int64(ROOT), int64(-1), int64(-1))
        if not _step(context, chart, grammar, span, root, word, -1):
            return False
    else:
        for k in range(items.ptr[row + end - 1, 0], items.ptr[row + end - 1, 1]):
            node = int64(items.node[k])
            if grammar.trie.takes[node] & TAKES_WORD:
                item = Item(node, int64(items.tail[k, 0]), int64(items.tail[k, 1]))
                if not _step(context, chart, grammar, span, item, word, -1):
                    return False
    for middle in range(max(start + 1, end - context.span_limit), end):
        for category in range(context.category_order.shape[0]):
            vertex = int64(chart.vertex[middle, end, category])
            if vertex < 0:
                continue
            for k in range(items.ptr[row + middle, 0], items.ptr[row + middle, 1]):
                node = int64(items.node[k])
                if grammar.trie.takes[node] & TAKES_GAP:
                    item = Item(node, int64(items.tail[k, 0]), int64(items.tail[k, 1]))
                    if not _step(context, chart, grammar, span, item, -1 - category, vertex):
                        return False
    return True


@kernel
def _step(
    context: ParseContext, chart: Chart, grammar: MatchedGrammar, span: Span, item: Item, symbol: int, vertex: int
) -> bool:
    """Extend ``item`` by ``symbol``: a word (``vertex`` -1), or a gap filled by ``vertex``; it covers ``span`` then.

    Adds an edge for each group of rules whose source side is complete, and the new item if the trie goes on. Returns
    False if space is exhausted.
    """
    after = child(grammar.trie, item.node, symbol)
    if after < 0:
        return True
    left, right = item.left, item.right
    if symbol < 0:
        if left < 0:
            left = vertex
        else:
            right = vertex
    trie, items = grammar.trie, grammar.items
    for group in range(trie.group_ptr[after, 0], trie.group_ptr[after, 1]):
        if grammar.seen[group] < context.stamp:
            number = chart.size[GROUPS]
            if number >= chart.group_rule.shape[0]:
                return False
            chart.group_rule[number, 0] = trie.rule_ptr[group, 0]
            chart.group_rule[number, 1] = trie.rule_ptr[group, 1]
            chart.size[GROUPS] = number + 1
            grammar.seen[group] = context.stamp + number
        number = grammar.seen[group] - context.stamp
        if not _add_edge(chart, span, int64(trie.lhs[group]), number, left, right):
            return False
    if trie.takes[after]:
        new = items.size[0]
        if new >= items.node.shape[0]:
            return False
        items.node[new] = after
        items.tail[new, 0] = left
        items.tail[new, 1] = right
        items.size[0] = new + 1
        items.ptr[span.start * (context.words.shape[0] + 1) + span.end, 1] = new + 1
    return True


@kernel
def _add_edge(chart: Chart, span: Span, category: int, group: int, left: int, right: int) -> bool:
    """Add an edge to the vertex of ``span`` and ``category``, which is made if absent; False if space is exhausted."""
    edge = chart.size[EDGES]
    if edge >= chart.edge_group.shape[0]:
        return False
    vertex = int64(chart.vertex[span.start, span.end, category])
    if vertex < 0:
        vertex = chart.size[VERTICES]
        if vertex >= chart.first_edge.shape[0]:
            return False
        chart.vertex[span.start, span.end, category] = vertex
        chart.first_edge[vertex] = -1
        chart.size[VERTICES] = vertex + 1
    chart.edge_group[edge] = group
    chart.edge_tail[edge, 0] = left
    chart.edge_tail[edge, 1] = right
    chart.next_edge[edge] = chart.first_edge[vertex]
    chart.first_edge[vertex] = edge
    chart.size[EDGES] = edge + 1
    return True
