"""The k best derivations of a forest by lazy enumeration, one for each translation.

Huang and Chiang (IWPT 2005), algorithm 3. Each node has a list of its best derivations, as far as they were needed, and
a heap of candidates for the next one. A derivation refers to subderivations, one for each tail of its edge; the next
best derivation of a tail is computed only when a candidate with it may be the next of its own node. Duplicates are
discarded at every node: of derivations with equal translations and equal LM states only the best one is needed.
Translations are compared by 64-bit hashes that are computed from those of their parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.corpus.hashing import mix
from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.forest import NODES, Forest
from mpitune.decoder.embedded.matched import MatchedRules
from mpitune.jit import inlined, int64, kernel, uint64

NONE = -1
BASE = uint64(0x9E3779B97F4A7C15)
"""Base of the polynomial hash modulo 2 ** 64; odd."""


class NodeLists(NamedTuple):
    """The list of derivations and the heap of each node; NONE and NEW before the first use."""

    first: np.ndarray
    """int32 [nodes]: best derivation."""
    last: np.ndarray
    """int32 [nodes]: the worst derivation listed so far."""
    heap: np.ndarray
    """int32 [nodes]: root of the pairing heap of candidates."""
    pending: np.ndarray
    """int32 [nodes]: a candidate popped from the heap whose subderivations are not all computed yet."""
    expand: np.ndarray
    """int32 [nodes]: a derivation whose neighbours have not been pushed yet."""
    phase: np.ndarray
    """int8 [nodes]: NEW, OPEN or EXHAUSTED."""


NEW, OPEN, EXHAUSTED = 0, 1, 2


class Derivations(NamedTuple):
    """Derivations and candidates in order of creation."""

    edge: np.ndarray
    """int32 [capacity]: the top edge."""
    subderivation: np.ndarray
    """int32 [capacity, 2]: a derivation of each tail of the edge; NONE: no such tail, or the best one of the tail."""
    score: np.ndarray
    """float64 [capacity]"""
    next: np.ndarray
    """int32 [capacity]: the next best derivation of the same node, or NONE."""
    first_child: np.ndarray
    """int32 [capacity]: in the pairing heap, the first child, or NONE."""
    next_sibling: np.ndarray
    """int32 [capacity]: in the pairing heap, the next child of the same parent, or NONE."""
    text_hash: np.ndarray
    """uint64 [capacity, 2]: hash of the translation; `BASE` to the power of its length in words."""
    seen: np.ndarray
    """int32 [power of two, > capacity]: open-addressing hash table of listed derivations by node and translation."""
    head: np.ndarray
    """int32 [capacity]: the node of the derivation."""
    stack: np.ndarray
    """int32 [nodes + 1]: nodes whose next derivation is being computed, each needed by the one before."""
    size: np.ndarray
    """int64 [1]: number of derivations and candidates."""


def best_derivations(
    arena: Arena, forest: Forest, matched: MatchedRules, k: int, unique: bool
) -> tuple[np.ndarray, Derivations]:
    """The goal's ``k`` best derivations (int32 [at most k]), as indices of the returned table.

    ``unique``: only the best derivation of each translation.
    """
    nodes = int(forest.size[NODES])
    capacity, mark = 64 * k + (1 << 14), arena.mark()
    while True:
        blank = arena.full((5, nodes), NONE, dtype=np.int32)
        lists = NodeLists(blank[0], blank[1], blank[2], blank[3], blank[4], arena.full(nodes, NEW, dtype=np.int8))
        derivations = new_derivations(arena, capacity, nodes)
        found = arena.empty(k, dtype=np.int32)
        number = _best_derivations(forest, matched, lists, derivations, unique, found)
        if number >= 0:
            return found[:number], derivations
        arena.release(mark)
        capacity *= 4


def new_derivations(arena: Arena, capacity: int, nodes: int) -> Derivations:
    """Space for so many derivations and candidates of a forest of so many nodes."""
    table = 8
    while table < 2 * capacity:
        table *= 2
    return Derivations(
        edge=arena.empty(capacity, dtype=np.int32),
        subderivation=arena.empty((capacity, 2), dtype=np.int32),
        score=arena.empty(capacity, dtype=np.float64),
        next=arena.empty(capacity, dtype=np.int32),
        first_child=arena.empty(capacity, dtype=np.int32),
        next_sibling=arena.empty(capacity, dtype=np.int32),
        text_hash=arena.empty((capacity, 2), dtype=np.uint64),
        seen=arena.full(table, NONE, dtype=np.int32),
        head=arena.empty(capacity, dtype=np.int32),
        stack=arena.empty(nodes + 1, dtype=np.int32),
        size=np.zeros(1, dtype=np.int64),
    )


@kernel
def _best_derivations(
    forest: Forest, matched: MatchedRules, lists: NodeLists, derivations: Derivations, unique: bool, found: np.ndarray
) -> int:
    """Fill ``found`` (int32 [k]); returns the number of derivations found, or -1 if space is exhausted."""
    goal = forest.size[NODES] - 1
    number = 0
    while number < found.shape[0] and lists.phase[goal] != EXHAUSTED:
        if not _list_next(forest, matched, lists, derivations, unique, goal):
            return -1
        if lists.phase[goal] != EXHAUSTED:
            found[number] = lists.last[goal]
            number += 1
    return number


@inlined
def _list_next(
    forest: Forest, matched: MatchedRules, lists: NodeLists, derivations: Derivations, unique: bool, goal: int
) -> bool:
    """Append the next derivation to the list of ``goal``, or mark it exhausted; False if space is exhausted."""
    stack = derivations.stack
    stack[0] = goal
    height = 1
    while height > 0:
        node = int64(stack[height - 1])
        # A step adds at most three candidates.
        if derivations.size[0] + 3 > derivations.edge.shape[0]:
            return False
        if lists.phase[node] == NEW:
            lists.phase[node] = OPEN
            _push_candidate(forest, lists, derivations, node, int64(forest.edge_ptr[node]), NONE, NONE)
        if lists.pending[node] == NONE:
            if lists.expand[node] != NONE:
                wanted = _push_neighbours(forest, lists, derivations, node)
                if wanted != NONE:
                    stack[height] = wanted
                    height += 1
                    continue
                lists.expand[node] = NONE
            if lists.heap[node] == NONE:
                lists.phase[node] = EXHAUSTED
                height -= 1
                continue
            lists.pending[node] = _pop(lists, derivations, node)
        candidate = int64(lists.pending[node])
        wanted = _fill_subderivations(forest, lists, derivations, candidate)
        if wanted != NONE:
            stack[height] = wanted
            height += 1
            continue
        lists.pending[node] = NONE
        lists.expand[node] = candidate
        hash_translation(forest, matched, derivations, candidate)
        if not unique or _add_if_new(derivations, candidate):
            derivations.next[candidate] = NONE
            if lists.first[node] == NONE:
                lists.first[node] = candidate
            else:
                derivations.next[lists.last[node]] = candidate
            lists.last[node] = candidate
            height -= 1
    return True


@inlined
def _push_candidate(
    forest: Forest, lists: NodeLists, derivations: Derivations, node: int, edge: int, left: int, right: int
) -> None:
    """Push on the heap of ``node``: ``edge`` over the derivations ``left`` and ``right`` (NONE: the best)."""
    number = derivations.size[0]
    derivations.size[0] = number + 1
    score = forest.edge_score[edge]
    if left != NONE:
        score += derivations.score[left] - forest.node_score[forest.edge_tail[edge, 0]]
    if right != NONE:
        score += derivations.score[right] - forest.node_score[forest.edge_tail[edge, 1]]
    derivations.edge[number] = edge
    derivations.subderivation[number, 0] = left
    derivations.subderivation[number, 1] = right
    derivations.score[number] = score
    derivations.head[number] = node
    derivations.first_child[number] = NONE
    derivations.next_sibling[number] = NONE
    lists.heap[node] = _merge(derivations, int64(lists.heap[node]), number)


@inlined
def _merge(derivations: Derivations, a: int, b: int) -> int:
    """Merge two pairing heaps; on a tie the candidate created first becomes the root."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    if derivations.score[b] > derivations.score[a] or (derivations.score[b] == derivations.score[a] and b < a):
        a, b = b, a
    derivations.next_sibling[b] = derivations.first_child[a]
    derivations.first_child[a] = b
    return a


@inlined
def _pop(lists: NodeLists, derivations: Derivations, node: int) -> int:
    """Pop the best candidate from the heap of ``node``."""
    best = int64(lists.heap[node])
    pairs = int64(NONE)
    rest = int64(derivations.first_child[best])
    while rest != NONE:
        first = rest
        second = int64(derivations.next_sibling[first])
        rest = int64(derivations.next_sibling[second]) if second != NONE else int64(NONE)
        derivations.next_sibling[first] = NONE
        if second != NONE:
            derivations.next_sibling[second] = NONE
        joined = _merge(derivations, first, second)
        derivations.next_sibling[joined] = pairs
        pairs = joined
    root = int64(NONE)
    while pairs != NONE:
        following = int64(derivations.next_sibling[pairs])
        derivations.next_sibling[pairs] = NONE
        root = _merge(derivations, root, pairs)
        pairs = following
    lists.heap[node] = root
    return best


@inlined
def _fill_subderivations(forest: Forest, lists: NodeLists, derivations: Derivations, candidate: int) -> int:
    """Replace NONE by the best derivation of each tail; returns a tail that has no derivation yet, else NONE."""
    edge = derivations.edge[candidate]
    for side in range(2):
        tail = int64(forest.edge_tail[edge, side])
        if tail != NONE and derivations.subderivation[candidate, side] == NONE:
            if lists.first[tail] == NONE:
                return tail
            derivations.subderivation[candidate, side] = lists.first[tail]
    return int64(NONE)


@inlined
def _push_neighbours(forest: Forest, lists: NodeLists, derivations: Derivations, node: int) -> int:
    """Push the neighbours of the derivation in ``expand``; returns a tail that must list one more first, or NONE.

    To create none twice, the neighbour with the next left subderivation is pushed only if the right one is the best of
    its tail, and the next edge only if both are.
    """
    done = int64(lists.expand[node])
    edge = int64(derivations.edge[done])
    left, right = int64(derivations.subderivation[done, 0]), int64(derivations.subderivation[done, 1])
    left_tail, right_tail = int64(forest.edge_tail[edge, 0]), int64(forest.edge_tail[edge, 1])
    right_is_best = right == NONE or right == lists.first[right_tail]
    if right != NONE and derivations.next[right] == NONE and lists.phase[right_tail] != EXHAUSTED:
        return right_tail
    move_left = left != NONE and right_is_best
    if move_left and derivations.next[left] == NONE and lists.phase[left_tail] != EXHAUSTED:
        return left_tail
    if right != NONE and derivations.next[right] != NONE:
        _push_candidate(forest, lists, derivations, node, edge, left, int64(derivations.next[right]))
    if move_left and derivations.next[left] != NONE:
        _push_candidate(forest, lists, derivations, node, edge, int64(derivations.next[left]), right)
    if right_is_best and (left == NONE or left == lists.first[left_tail]) and edge + 1 < forest.edge_ptr[node + 1]:
        _push_candidate(forest, lists, derivations, node, edge + 1, NONE, NONE)
    return int64(NONE)


@inlined
def hash_translation(forest: Forest, matched: MatchedRules, derivations: Derivations, candidate: int) -> None:
    """Fill the hash of the translation of ``candidate``, whose subderivations have theirs."""
    edge = derivations.edge[candidate]
    rule = forest.edge_rule[edge]
    if rule < 0:
        child = derivations.subderivation[candidate, 0]
        derivations.text_hash[candidate, 0] = derivations.text_hash[child, 0]
        derivations.text_hash[candidate, 1] = derivations.text_hash[child, 1]
        return
    text, power = uint64(0), uint64(1)
    for k in range(matched.target_ptr[rule], matched.target_ptr[rule + 1]):
        symbol = matched.target[k]
        if symbol >= 0:
            text = text * BASE + mix(uint64(symbol + 1))
            power = power * BASE
        else:
            child = derivations.subderivation[candidate, -1 - symbol]
            text = text * derivations.text_hash[child, 1] + derivations.text_hash[child, 0]
            power = power * derivations.text_hash[child, 1]
    derivations.text_hash[candidate, 0] = text
    derivations.text_hash[candidate, 1] = power


@inlined
def _add_if_new(derivations: Derivations, candidate: int) -> bool:
    """Record ``candidate`` unless its node lists a derivation with the same translation; returns True if recorded."""
    table, text, node = derivations.seen, derivations.text_hash[candidate, 0], derivations.head[candidate]
    size = int64(table.shape[0])
    slot = int64(mix(text + uint64(node)) >> uint64(1)) & (size - 1)
    while table[slot] != NONE:
        other = table[slot]
        if derivations.head[other] == node and derivations.text_hash[other, 0] == text:
            return False
        slot = (slot + 1) & (size - 1)
    table[slot] = candidate
    return True
