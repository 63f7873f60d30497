"""The source sides of a grammar as a trie, which the chart parser walks along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.grammar.rules import Rules
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


def build(rules: Rules, first: int, last: int, goal: bool) -> Trie:
    """The trie of rules ``first`` to ``last`` (exclusive), which are sorted by source side, then left-hand side.

    ``goal`` selects the rules of the goal symbol (category 0), otherwise those of all other categories are taken: the
    span limit is for the latter only.
    """
    sizes = np.zeros(2, dtype=np.int64)
    _count(rules, first, last, goal, sizes)
    nodes, groups = sizes.tolist()
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
    longest = 1 + int(np.max(np.diff(rules.source_ptr), initial=0))
    _build(rules, first, last, goal, trie, np.zeros(longest, dtype=np.int64))
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
def _shared(rules: Rules, a: int, b: int) -> int:
    """The number of leading source symbols that rule types a and b have in common."""
    i, j = rules.source_ptr[a], rules.source_ptr[b]
    n = min(rules.source_ptr[a + 1] - i, rules.source_ptr[b + 1] - j)
    k = 0
    while k < n and rules.source[i + k] == rules.source[j + k]:
        k += 1
    return k


@kernel
def _count(rules: Rules, first: int, last: int, goal: bool, sizes: np.ndarray) -> None:
    """Write the number of nodes and of groups of the trie to build to ``sizes`` (int64 [2])."""
    sizes[0] = 1
    sizes[1] = 0
    before = int64(-1)
    for rule in range(first, last):
        type_ = int64(rules.type[rule])
        if (rules.lhs[type_] == 0) != goal:
            continue
        length = rules.source_ptr[type_ + 1] - rules.source_ptr[type_]
        shared = int64(0)
        if before >= 0:
            shared = _shared(rules, before, type_)
            old_length = rules.source_ptr[before + 1] - rules.source_ptr[before]
            if shared == length and shared == old_length and rules.lhs[type_] == rules.lhs[before]:
                continue
        sizes[0] += length - shared
        sizes[1] += 1
        before = type_


@kernel
def _build(rules: Rules, first: int, last: int, goal: bool, trie: Trie, path: np.ndarray) -> None:
    """Fill ``trie``; ``path`` (int64, longer than any source side) holds the nodes of the previous source side."""
    nodes, group = int64(1), int64(-1)
    before = int64(-1)
    path[0] = ROOT
    for rule in range(first, last):
        type_ = int64(rules.type[rule])
        if (rules.lhs[type_] == 0) != goal:
            continue
        begin = rules.source_ptr[type_]
        length = rules.source_ptr[type_ + 1] - begin
        shared = int64(0)
        if before >= 0:
            shared = _shared(rules, before, type_)
            old_length = rules.source_ptr[before + 1] - rules.source_ptr[before]
            if shared == length and shared == old_length and rules.lhs[type_] == rules.lhs[before]:
                trie.rule_ptr[group, 1] = rule + 1
                continue
        for depth in range(shared, length):
            parent, symbol = path[depth], int64(rules.source[begin + depth])
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
        trie.lhs[group] = rules.lhs[type_]
        trie.rule_ptr[group, 0] = rule
        trie.rule_ptr[group, 1] = rule + 1
        before = type_
