"""The part of a forest that is reachable from the goal, copied out of the arena that the next sentence overwrites."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends, select_rows
from mpitune.decoder.base import PackedForest
from mpitune.decoder.embedded.forest import NODES, Forest
from mpitune.decoder.embedded.matched import MatchedRules
from mpitune.jit import kernel


class Reachable(NamedTuple):
    """The nodes, edges and rules that occur in some derivation of the goal."""

    node: np.ndarray
    """bool [nodes]: whether a node is reachable."""
    edge: np.ndarray
    """int64: indices of the reachable edges, ascending."""
    rule: np.ndarray
    """int32: indices of their rules, ascending, beginning with -1 for the goal's rule."""


def reachable(forest: Forest) -> Reachable:
    """The part of ``forest`` that is reachable from the goal."""
    nodes, edges = forest.size.tolist()
    node, edge = np.zeros(nodes, dtype=np.bool_), np.zeros(edges, dtype=np.bool_)
    _mark_reachable(forest, node, edge)
    kept = np.flatnonzero(edge)
    return Reachable(node, kept, np.unique(forest.edge_rule[kept]))


@kernel
def _mark_reachable(forest: Forest, node: np.ndarray, edge: np.ndarray) -> None:
    """Mark reachable nodes and edges in ``node`` (bool [nodes]) and ``edge`` (bool [edges]), from the goal down."""
    node[forest.size[NODES] - 1] = True
    for k in range(len(node)):
        head = len(node) - 1 - k
        if node[head]:
            for e in range(forest.edge_ptr[head], forest.edge_ptr[head + 1]):
                edge[e] = True
                for side in range(2):
                    if forest.edge_tail[e, side] >= 0:
                        node[forest.edge_tail[e, side]] = True


def pack(forest: Forest, matched: MatchedRules, part: Reachable, lm_slot: np.ndarray) -> PackedForest:
    """The arrays of ``part`` of ``forest``, copied; ``lm_slot``: int32 [LMs], slots of the LMs' features."""
    tail = forest.edge_tail[part.edge]
    number = np.cumsum(part.node, dtype=np.int32) - np.int32(1)
    nodes = len(part.node)
    # All edges of a reachable node are reachable.
    edges_of = np.diff(forest.edge_ptr[: nodes + 1])[part.node]
    # The goal's rule is not among the matched ones: its target is one gap, and it has no features.
    target_ptr, target = select_rows(matched.target_ptr, matched.target, part.rule[1:])
    feature_ptr, feature_index = select_rows(matched.features.ptr, matched.features.column, part.rule[1:])
    return PackedForest(
        edge_ptr=row_ends(edges_of),
        edge_tail=np.where(tail >= 0, number[tail], np.int32(-1)),
        edge_rule=np.searchsorted(part.rule, forest.edge_rule[part.edge]).astype(np.int32),
        edge_lm=forest.edge_lm[part.edge].astype(np.float32),
        lm_slot=lm_slot,
        target_ptr=np.concatenate([np.zeros(1, dtype=np.int64), target_ptr + 1]),
        target=np.concatenate([np.full(1, -1, dtype=np.int32), target]),
        feature_ptr=np.concatenate([np.zeros(1, dtype=np.int64), feature_ptr]),
        feature_index=feature_index,
        feature_value=select_rows(matched.features.ptr, matched.features.value, part.rule[1:])[1],
    )


def empty_forest(lm_slot: np.ndarray) -> PackedForest:
    """The forest of a sentence of no words: the goal alone."""
    ptr = np.zeros(2, dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    return PackedForest(
        edge_ptr=np.array([0, 1], dtype=np.int64),
        edge_tail=np.full((1, 2), -1, dtype=np.int32),
        edge_rule=np.zeros(1, dtype=np.int32),
        edge_lm=np.zeros((1, len(lm_slot)), dtype=np.float32),
        lm_slot=lm_slot,
        target_ptr=ptr,
        target=none,
        feature_ptr=ptr,
        feature_index=none,
        feature_value=np.zeros(0),
    )
