"""The forest with language models, which `cube` builds and `kbest` reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.embedded.arena import Arena
from mpitune.jit import int64, kernel

NODES, EDGES = 0, 1
"""Indices in `Forest.size`."""


class Forest(NamedTuple):
    """The forest with LMs. The nodes of a vertex are adjacent, best first; so are the edges of a node."""

    size: np.ndarray
    """int64 [2]: number of nodes and of edges; the last node is the goal."""
    vertex_ptr: np.ndarray
    """int32 [vertices, 2]: first node of a vertex and one past the last."""
    node_score: np.ndarray
    """float64 [nodes]: score of the best derivation."""
    edge_ptr: np.ndarray
    """int32 [nodes + 1]: edges of node i are ``edge_ptr[i]`` to ``edge_ptr[i + 1]`` (exclusive)."""
    edge_rule: np.ndarray
    """int32 [edges]: index in `MatchedRules`, or -1 for the goal's edges."""
    edge_tail: np.ndarray
    """int32 [edges, 2]: the nodes under the gaps, or -1."""
    edge_score: np.ndarray
    """float64 [edges]: score of the best derivation through the edge."""
    edge_lm: np.ndarray
    """float64 [edges, LMs]: increment of each LM's log10 probability."""


def new_forest(arena: Arena, vertices: int, nodes: int, edges: int, lms: int) -> Forest:
    """Space for a forest of at most so many vertices, nodes and edges; ``lms``: number of LMs."""
    return Forest(
        size=np.zeros(2, dtype=np.int64),
        vertex_ptr=arena.empty((vertices, 2), dtype=np.int32),
        node_score=arena.empty(nodes, dtype=np.float64),
        edge_ptr=arena.full(nodes + 1, 0, dtype=np.int32),
        edge_rule=arena.empty(edges, dtype=np.int32),
        edge_tail=arena.empty((edges, 2), dtype=np.int32),
        edge_score=arena.empty(edges, dtype=np.float64),
        edge_lm=arena.empty((edges, lms), dtype=np.float64),
    )


@kernel
def insert_edge(forest: Forest, begin: int, rule: int, left: int, right: int, score: float) -> int:
    """Insert an edge into those from ``begin`` on, which are sorted by score, and return its index."""
    place = int64(forest.size[EDGES])
    forest.size[EDGES] = place + 1
    while place > begin and forest.edge_score[place - 1] < score:
        forest.edge_rule[place] = forest.edge_rule[place - 1]
        forest.edge_tail[place, 0] = forest.edge_tail[place - 1, 0]
        forest.edge_tail[place, 1] = forest.edge_tail[place - 1, 1]
        forest.edge_score[place] = forest.edge_score[place - 1]
        for m in range(forest.edge_lm.shape[1]):
            forest.edge_lm[place, m] = forest.edge_lm[place - 1, m]
        place -= 1
    forest.edge_rule[place] = rule
    forest.edge_tail[place, 0] = left
    forest.edge_tail[place, 1] = right
    forest.edge_score[place] = score
    return place
