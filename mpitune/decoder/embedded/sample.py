"""Derivations sampled from a forest in proportion to the exponential of their scores.

The log-linear model over the derivations that the search kept: first the inside sums of all nodes, bottom-up; then each
sample chooses an edge at the goal and at each node below it, with the probability of all derivations through the edge.
cdec's tuners sample their lists in this way (Simianer, Riezler and Dyer, ACL 2012, figure 4).
"""

from __future__ import annotations

import math

import numpy as np

from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.forest import NODES, Forest
from mpitune.decoder.embedded.kbest import NONE, Derivations, hash_translation, new_derivations
from mpitune.decoder.embedded.matched import MatchedRules
from mpitune.jit import int64, kernel
from mpitune.portable_math import exp, log


def sampled_derivations(
    arena: Arena, forest: Forest, matched: MatchedRules, k: int, unique: bool, random: np.random.Generator
) -> tuple[np.ndarray, Derivations]:
    """``k`` derivations of the goal, drawn with replacement (int32 [at most k], indices of the returned table).

    Best first, equal scores in the order of drawing. ``unique``: of equal translations only the first, so that the
    result may be shorter.
    """
    nodes, edges = forest.size.tolist()
    share, size = arena.empty(edges, dtype=np.float64), arena.empty(nodes, dtype=np.int64)
    _share_edges(forest, arena.empty(nodes, dtype=np.float64), share, size)
    most = int(size[nodes - 1])
    derivations = new_derivations(arena, k * most, nodes)
    found = arena.empty(k, dtype=np.int32)
    _sample(forest, matched, share, random.random((k, most)), derivations, found)
    found = found[np.argsort(-derivations.score[found], kind="stable")]
    if unique:
        _, first = np.unique(derivations.text_hash[found, 0], return_index=True)
        found = found[np.sort(first)]
    return found, derivations


@kernel
def _share_edges(forest: Forest, inside: np.ndarray, share: np.ndarray, size: np.ndarray) -> None:
    """Fill the cumulated probabilities of each node's edges, ``share`` (float64 [edges]).

    ``inside``: float64 [nodes], filled: the logarithm of the sum over a node's derivations of exp(score), less the
    score of the best; ``size``: int64 [nodes], filled: the most edges of a derivation.
    """
    for node in range(forest.size[NODES]):
        first, end = forest.edge_ptr[node], forest.edge_ptr[node + 1]
        largest = -math.inf
        size[node] = 0
        for e in range(first, end):
            share[e] = forest.edge_score[e] - forest.node_score[node]
            edges = 1
            for side in range(2):
                tail = forest.edge_tail[e, side]
                if tail >= 0:
                    share[e] += inside[tail]
                    edges += size[tail]
            largest = max(largest, share[e])
            size[node] = max(size[node], edges)
        total = 0.0
        for e in range(first, end):
            total += exp(share[e] - largest)
            share[e] = total
        for e in range(first, end):
            share[e] /= total
        inside[node] = largest + log(total)


@kernel
def _sample(
    forest: Forest,
    matched: MatchedRules,
    share: np.ndarray,
    uniform: np.ndarray,
    derivations: Derivations,
    found: np.ndarray,
) -> None:
    """Fill ``found`` (int32 [k]) and ``derivations``; sample j uses the numbers ``uniform[j]`` (float64 [k, size])."""
    for j in range(len(found)):
        # The derivations of a sample form a queue: those of the tails of an edge are appended, to be drawn later.
        begin = int64(derivations.size[0])
        derivations.head[begin] = forest.size[NODES] - 1
        drawn, end = begin, begin + 1
        while drawn < end:
            node = derivations.head[drawn]
            edge = int64(forest.edge_ptr[node])
            while edge + 1 < forest.edge_ptr[node + 1] and share[edge] <= uniform[j, drawn - begin]:
                edge += 1
            derivations.edge[drawn] = edge
            for side in range(2):
                tail = forest.edge_tail[edge, side]
                derivations.subderivation[drawn, side] = end if tail >= 0 else NONE
                if tail >= 0:
                    derivations.head[end] = tail
                    end += 1
            drawn += 1
        for derivation in range(end - 1, begin - 1, -1):
            edge = int64(derivations.edge[derivation])
            score = forest.edge_score[edge]
            for side in range(2):
                part = derivations.subderivation[derivation, side]
                if part != NONE:
                    score += derivations.score[part] - forest.node_score[forest.edge_tail[edge, side]]
            derivations.score[derivation] = score
            hash_translation(forest, matched, derivations, derivation)
        derivations.size[0] = end
        found[j] = begin
