"""The upper envelope as a semiring over a forest (Kumar, Macherey, Dyer & Och, ACL 2009).

Along w + t d the score of each derivation is a line, at + t slope. The envelope of a node consists of the lines that
are maximal for some t. The envelope of an edge is the Minkowski sum of its own line and its tails' envelopes, which
changes at the tails' corners; that of a node is the upper hull of its edges' envelopes. The goal's envelope is then
that of all derivations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.jit import inlined, int64, kernel
from mpitune.learner.forests import Forests

PARALLEL = 1e-9
"""Lines are parallel if their slopes differ by at most this fraction of the steepest slope, of a forest of its steepest
rule's *(ours)*: sums of the same numbers in another order differ by rounding, and such lines would cross somewhere, far
away."""
_SPACE = 1 << 14
"""Initial capacity, in lines and in words."""


class GoalLines(NamedTuple):
    """The envelopes of a shard's goal nodes and the translations of their lines."""

    sentence_ptr: np.ndarray
    """int64 [sentences + 1]: lines of a sentence, by ascending slope."""
    at: np.ndarray
    """float64 [lines]: scores at t = 0."""
    slope: np.ndarray
    """float64 [lines]"""
    word_ptr: np.ndarray
    """int64 [lines + 1]: words of a line's translation."""
    word: np.ndarray
    """int32"""


class _Scores(NamedTuple):
    """The line of every rule (float64 [rules]), and that of an LM feature value of 1 (float64 [LMs])."""

    at: np.ndarray
    slope: np.ndarray
    lm_at: np.ndarray
    lm_slope: np.ndarray
    parallel: float
    """Largest difference of the slopes of parallel lines."""


class _Lines(NamedTuple):
    """The envelopes of one sentence's nodes, node by node, by ascending slope; line 0 stands for a missing tail."""

    at: np.ndarray
    """float64 [space]"""
    slope: np.ndarray
    """float64 [space]"""
    corner: np.ndarray
    """float64 [space]: the t from which a line is above the one before it; -inf for a node's first."""
    edge: np.ndarray
    """int32 [space]"""
    below: np.ndarray
    """int32 [space, 2]: the lines of the tails, 0 for a missing tail."""


class _Edge(NamedTuple):
    """An edge and the ranges of its tails' lines."""

    number: int
    at: float
    slope: float
    left: int
    left_end: int
    right: int
    right_end: int


def goal_lines(forests: Forests, w: np.ndarray, d: np.ndarray) -> GoalLines:
    """The goals' envelopes along w + t d; ``w`` and ``d``: float64 [features of ``forests``]."""
    scores = _scores(forests, w, d)
    most_nodes = int(np.diff(forests.node_ptr).max(initial=0))
    node_ptr = np.empty(most_nodes + 1, dtype=np.int64)
    # A derivation descends to nodes of smaller numbers: its depth is at most the number of nodes.
    stack = np.empty((most_nodes + 1, 2), dtype=np.int32)
    lines, spare, word = _space(_SPACE), _space(_SPACE), np.empty(_SPACE, dtype=np.int32)
    counts = []
    at, slope, length, words = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for s in range(forests.sentences):
        while (end := int(_envelopes(forests, s, scores, lines, spare, node_ptr))) < 0:
            lines, spare = _space(2 * len(lines.at)), _space(2 * len(lines.at))
        first = int(node_ptr[forests.node_ptr[s + 1] - forests.node_ptr[s] - 1])
        word_count = np.empty(end - first, dtype=np.int64)
        while (total := int(_translations(forests, s, lines, first, stack, word, word_count))) < 0:
            word = np.empty(2 * len(word), dtype=np.int32)
        counts.append(end - first)
        at.append(lines.at[first:end].copy())
        slope.append(lines.slope[first:end].copy())
        length.append(word_count)
        words.append(word[:total].copy())
    return GoalLines(
        row_ends(counts),
        np.concatenate(at),
        np.concatenate(slope),
        row_ends(np.concatenate(length)),
        np.concatenate(words),
    )


def _space(lines: int) -> _Lines:
    return _Lines(
        np.empty(lines),
        np.empty(lines),
        np.empty(lines),
        np.empty(lines, dtype=np.int32),
        np.empty((lines, 2), dtype=np.int32),
    )


def _scores(forests: Forests, w: np.ndarray, d: np.ndarray) -> _Scores:
    at, slope = np.empty(len(forests.feature_ptr) - 1), np.empty(len(forests.feature_ptr) - 1)
    _score_rules(forests, w, d, at, slope)
    lm_slope = d[forests.lm_feature]
    steepest = np.abs(slope).max(initial=0.0) + np.abs(lm_slope).sum()
    return _Scores(at, slope, w[forests.lm_feature], lm_slope, float(PARALLEL * steepest))


@kernel
def _score_rules(forests: Forests, w: np.ndarray, d: np.ndarray, at: np.ndarray, slope: np.ndarray) -> None:
    """Fill ``at`` and ``slope`` (float64 [rules]); ``w``, ``d``: float64 [features]."""
    for rule in range(len(at)):
        at[rule] = 0.0
        slope[rule] = 0.0
        for k in range(forests.feature_ptr[rule], forests.feature_ptr[rule + 1]):
            at[rule] += w[forests.feature[k]] * forests.value[k]
            slope[rule] += d[forests.feature[k]] * forests.value[k]


@kernel
def _envelopes(forests: Forests, s: int, scores: _Scores, lines: _Lines, spare: _Lines, node_ptr: np.ndarray) -> int:
    """Fill ``lines`` for sentence ``s``; returns the end of the goal's lines, or -1 if there is not enough space.

    ``spare``: working space as large as ``lines``; ``node_ptr``: int64 [nodes + 1], filled: first line of each node.
    """
    lines.at[0] = 0.0
    lines.slope[0] = 0.0
    lines.corner[0] = -np.inf
    node_ptr[0] = 1
    end = int64(1)
    base = forests.node_ptr[s]
    for node in range(forests.node_ptr[s + 1] - base):
        begin = end
        for e in range(forests.edge_ptr[base + node], forests.edge_ptr[base + node + 1]):
            edge = _edge(forests, s, scores, node_ptr, e)
            if end + (edge.left_end - edge.left) + (edge.right_end - edge.right) > len(lines.at):
                return int64(-1)
            if end == begin or not _is_below(lines, begin, end, edge):
                size = _merge(lines, spare, begin, end, edge, scores.parallel)
                for k in range(size):
                    _copy(spare, k, lines, begin + k)
                end = begin + size
        node_ptr[node + 1] = end
    return end


@inlined
def _edge(forests: Forests, s: int, scores: _Scores, node_ptr: np.ndarray, e: int) -> _Edge:
    """Edge ``e`` of sentence ``s``; ``node_ptr``: int64 [nodes + 1], the nodes' lines."""
    rule = forests.rule_ptr[s] + forests.edge_rule[e]
    at, slope = scores.at[rule], scores.slope[rule]
    for m in range(len(scores.lm_at)):
        at += scores.lm_at[m] * np.float64(forests.edge_lm[e, m])
        slope += scores.lm_slope[m] * np.float64(forests.edge_lm[e, m])
    left, left_end, right, right_end = int64(0), int64(1), int64(0), int64(1)
    if forests.edge_tail[e, 0] >= 0:
        left, left_end = node_ptr[forests.edge_tail[e, 0]], node_ptr[forests.edge_tail[e, 0] + 1]
    if forests.edge_tail[e, 1] >= 0:
        right, right_end = node_ptr[forests.edge_tail[e, 1]], node_ptr[forests.edge_tail[e, 1] + 1]
    return _Edge(int64(e), at, slope, left, left_end, right, right_end)


@inlined
def _is_below(lines: _Lines, begin: int, end: int, edge: _Edge) -> bool:
    """True if the envelope of ``edge`` is nowhere above the lines from ``begin`` to ``end``.

    Both are convex in t: it is sufficient to compare at the corners of the lines and at both ends.
    """
    left, right, at, slope = edge.left, edge.right, lines.at, lines.slope
    first = edge.slope + slope[left] + slope[right]
    if first < slope[begin] or (first == slope[begin] and edge.at + at[left] + at[right] > at[begin]):
        return False
    left, right = edge.left_end - 1, edge.right_end - 1
    last = edge.slope + slope[left] + slope[right]
    if last > slope[end - 1] or (last == slope[end - 1] and edge.at + at[left] + at[right] > at[end - 1]):
        return False
    left, right = edge.left, edge.right
    for line in range(begin + 1, end):
        t = lines.corner[line]
        while left + 1 < edge.left_end and lines.corner[left + 1] <= t:
            left += 1
        while right + 1 < edge.right_end and lines.corner[right + 1] <= t:
            right += 1
        score = edge.at + at[left] + at[right] + t * (edge.slope + slope[left] + slope[right])
        if score > at[line] + t * slope[line]:
            return False
    return True


@inlined
def _merge(lines: _Lines, spare: _Lines, begin: int, end: int, edge: _Edge, parallel: float) -> int:
    """Write the upper hull of lines ``begin`` to ``end`` and the lines of ``edge`` to ``spare``; returns its size."""
    left, right = edge.left, edge.right
    size = int64(0)
    more = True
    while begin < end or more:
        slope = edge.slope + lines.slope[left] + lines.slope[right]
        if begin < end and (not more or lines.slope[begin] <= slope):
            _copy(lines, begin, spare, size)
            size = _add_to_hull(spare, size, parallel)
            begin += 1
            continue
        spare.at[size] = edge.at + lines.at[left] + lines.at[right]
        spare.slope[size] = slope
        spare.edge[size] = edge.number
        spare.below[size, 0] = left
        spare.below[size, 1] = right
        size = _add_to_hull(spare, size, parallel)
        more = left + 1 < edge.left_end or right + 1 < edge.right_end
        left_corner = lines.corner[left + 1] if left + 1 < edge.left_end else np.inf
        right_corner = lines.corner[right + 1] if right + 1 < edge.right_end else np.inf
        if left + 1 < edge.left_end and left_corner <= right_corner:
            left += 1
        if right + 1 < edge.right_end and right_corner <= left_corner:
            right += 1
    return size


@inlined
def _add_to_hull(hull: _Lines, size: int, parallel: float) -> int:
    """Add line ``size``, at least as steep as all lines before it, to the hull of these; returns the new size."""
    new, top = size, size - 1
    if top >= 0 and hull.slope[new] - hull.slope[top] <= parallel:
        if hull.at[new] <= hull.at[top]:
            return size
        top -= 1
    corner = -np.inf
    while top >= 0:
        corner = (hull.at[top] - hull.at[new]) / (hull.slope[new] - hull.slope[top])
        if corner > hull.corner[top]:
            break
        corner = -np.inf
        top -= 1
    _copy(hull, new, hull, top + 1)
    hull.corner[top + 1] = corner
    return top + 2


@inlined
def _copy(source: _Lines, i: int, target: _Lines, j: int) -> None:
    target.at[j] = source.at[i]
    target.slope[j] = source.slope[i]
    target.corner[j] = source.corner[i]
    target.edge[j] = source.edge[i]
    target.below[j, 0] = source.below[i, 0]
    target.below[j, 1] = source.below[i, 1]


@kernel
def _translations(
    forests: Forests, s: int, lines: _Lines, first: int, stack: np.ndarray, word: np.ndarray, word_count: np.ndarray
) -> int:
    """Write the words of the lines from ``first`` on; returns their number, or -1 if ``word`` is too small.

    ``stack``: int32 [depth, 2], working space; ``word``: int32, filled; ``word_count``: int64 [lines], filled.
    """
    rules = forests.rule_ptr[s]
    words = int64(0)
    for j in range(len(word_count)):
        stack[0, 0] = first + j
        stack[0, 1] = 0
        height = 1
        before = words
        while height > 0:
            line, place = int64(stack[height - 1, 0]), int64(stack[height - 1, 1])
            rule = rules + forests.edge_rule[lines.edge[line]]
            target = forests.target[forests.target_ptr[rule] : forests.target_ptr[rule + 1]]
            while place < len(target) and target[place] >= 0:
                if words == len(word):
                    return int64(-1)
                word[words] = target[place]
                words += 1
                place += 1
            if place == len(target):
                height -= 1
                continue
            stack[height - 1, 1] = place + 1
            stack[height, 0] = lines.below[line, -1 - target[place]]
            stack[height, 1] = 0
            height += 1
        word_count[j] = words - before
    return words
