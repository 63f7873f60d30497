"""The source sides of a grammar as a trie, which the chart parser walks along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.grammar.rules import GOAL, Rules, RuleTypes
from mpitune.jit import int64, kernel

ROOT = 0
TAKES_WORD = 1
TAKES_GAP = 2


class Trie(NamedTuple):
    """A trie over source symbols (word >= 0; gap of category c = -(1 + c)), its edges in an open-addressing hash table.

    The rules whose source side ends at a node form groups, one for each left-hand side.
    """

    key: np.ndarray
    """int64 [table]: parent node << 32 | symbol of an edge, or -1 in an empty slot. The size is a power of two."""
    child: np.ndarray
    """int32 [table]: the node that the edge leads to, or -1 in an empty slot."""
    takes: np.ndarray
    """uint8 [nodes]: the kinds of edges that leave a node: sum of TAKES_WORD and TAKES_GAP."""
    group_ptr: np.ndarray
    """int32 [nodes, 2]: first group of a node, and one past the last."""
    lhs: np.ndarray
    """int32 [groups]: left-hand side."""
    rule_ptr: np.ndarray
    """int64 [groups, 2]: first rule of a group, and one past the last."""


def build(rules: Rules, goal: bool) -> Trie:
    """The trie of the ``rules`` of one grammar.

    ``goal`` selects the rules of the goal symbol (category 0), otherwise those of all other categories are taken: the
    span limit is for the latter only.
    """
    sizes = np.zeros(3, dtype=np.int64)
    _measure(rules, goal, sizes)
    nodes, groups, longest = sizes.tolist()
    table = 8
    while table < 2 * nodes:
        table *= 2
    trie = Trie(
        key=np.full(table, -1, dtype=np.int64),
        child=np.full(table, -1, dtype=np.int32),
        takes=np.zeros(nodes, dtype=np.uint8),
        group_ptr=np.zeros((nodes, 2), dtype=np.int32),
        lhs=np.zeros(groups, dtype=np.int32),
        rule_ptr=np.zeros((groups, 2), dtype=np.int64),
    )
    _build(rules, goal, trie, np.zeros(longest + 1, dtype=np.int64))
    return trie


@kernel
def child(trie: Trie, node: int, symbol: int) -> int:
    """The node that ``symbol`` leads to from ``node``, or -1."""
    return int64(trie.child[_slot(trie, node, symbol)])


@kernel
def _key(node: int, symbol: int) -> int:
    return int64(node) << 32 | (int64(symbol) & 0xFFFFFFFF)


@kernel
def _slot(trie: Trie, node: int, symbol: int) -> int:
    """The slot of the edge from ``node`` under ``symbol``, or the empty slot to put it in (linear probing)."""
    key = _key(node, symbol)
    slot = int64((int64(node) * 40503 + int64(symbol) * 2654435) & (trie.key.shape[0] - 1))
    while trie.key[slot] != key and trie.key[slot] >= 0:
        slot = (slot + 1) & (trie.key.shape[0] - 1)
    return slot


@kernel
def _shared(types: RuleTypes, a: int, b: int) -> int:
    """The number of leading source symbols that sides a and b have in common."""
    i, j = types.source_ptr[a], types.source_ptr[b]
    n = min(types.source_ptr[a + 1] - i, types.source_ptr[b + 1] - j)
    k = 0
    while k < n and types.source[i + k] == types.source[j + k]:
        k += 1
    return k


@kernel
def _measure(rules: Rules, goal: bool, sizes: np.ndarray) -> None:
    """Write the numbers of nodes and groups, and the length of the longest source side to ``sizes`` (int64 [3])."""
    types = rules.types
    sizes[0] = 1
    sizes[1] = 0
    sizes[2] = 0
    before = int64(-1)
    for rule in range(len(rules.type)):
        side = int64(types.side[rules.type[rule]])
        if side == before or (types.lhs[side] == GOAL) != goal:
            continue
        length = types.source_ptr[side + 1] - types.source_ptr[side]
        shared = _shared(types, before, side) if before >= 0 else int64(0)
        sizes[0] += length - shared
        sizes[1] += 1
        sizes[2] = max(sizes[2], length)
        before = side


@kernel
def _build(rules: Rules, goal: bool, trie: Trie, path: np.ndarray) -> None:
    """Fill ``trie``; ``path`` (int64, longer than any source side) holds the nodes of the previous source side."""
    types = rules.types
    nodes, group = int64(1), int64(-1)
    before = int64(-1)
    path[0] = ROOT
    for rule in range(len(rules.type)):
        side = int64(types.side[rules.type[rule]])
        if (types.lhs[side] == GOAL) != goal:
            continue
        if side == before:
            trie.rule_ptr[group, 1] = rule + 1
            continue
        begin = types.source_ptr[side]
        length = types.source_ptr[side + 1] - begin
        shared = _shared(types, before, side) if before >= 0 else int64(0)
        for depth in range(shared, length):
            parent, symbol = path[depth], int64(types.source[begin + depth])
            slot = _slot(trie, parent, symbol)
            trie.key[slot] = _key(parent, symbol)
            trie.child[slot] = nodes
            trie.takes[parent] |= TAKES_WORD if symbol >= 0 else TAKES_GAP
            path[depth + 1] = nodes
            nodes += 1
        node = path[length]
        group += 1
        if trie.group_ptr[node, 1] == 0:
            trie.group_ptr[node, 0] = group
        trie.group_ptr[node, 1] = group + 1
        trie.lhs[group] = types.lhs[side]
        trie.rule_ptr[group, 0] = rule
        trie.rule_ptr[group, 1] = rule + 1
        before = side
