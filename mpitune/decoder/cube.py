"""Cube pruning: the forest with language models, at most ``pop_limit`` hypotheses built for each vertex.

Chiang 2007, section 5.3.4; Huang & Chiang 2007. A candidate is a rule over one hypothesis (node) for each of its gaps.
The best rules over the best nodes start in a heap; each candidate taken from it becomes an edge of the forest and puts
in its two neighbours, which use the next best node of one gap. Candidates with equal LM states recombine in one node.
"""

from __future__ import annotations

import numpy as np

from mpitune.decoder.candidates import (
    FREE,
    Candidates,
    Model,
    add_candidate,
    begin_rules,
    is_new,
    new_candidates,
    recombine,
)
from mpitune.decoder.chart import GOAL, VERTICES, Chart
from mpitune.decoder.forest import EDGES, NODES, Forest, insert_edge, new_forest
from mpitune.decoder.heap import pop, push
from mpitune.decoder.lmstate import LmStates, begin_sentence, copy, new_states, nonterminal, terminal
from mpitune.decoder.matched import Matched
from mpitune.grammar.lm import LanguageModel
from mpitune.kernel import int64, kernel


def search(chart: Chart, matched: Matched, lms: tuple[LanguageModel, ...], lm_weight: np.ndarray, limit: int) -> Forest:
    """The forest with LMs of a sentence that has at least one word.

    ``lm_weight``: float64 [LMs]; ``limit``: how many candidates are taken from the heap for each vertex, at most.
    """
    rules, count = len(matched.score), len(lms)
    size = np.zeros(2, dtype=np.int64)
    _measure(chart, matched, limit, size)
    candidates = int(size[0]) + 2 * limit
    nodes = int(size[1]) + 1
    forest = new_forest(int(chart.size[VERTICES]), nodes, nodes + limit, count)
    model = Model(
        lms=lms,
        states=tuple(new_states(lm, rules + candidates + nodes) for lm in lms),
        lm_weight=lm_weight,
        leading=np.empty(rules, dtype=np.int32),
        leading_lm=np.empty((rules, count), dtype=np.float32),
        first_candidate=rules,
        first_node=rules + candidates,
    )
    _search(chart, matched, model, new_candidates(candidates, count, limit), limit, forest)
    return forest


@kernel
def _measure(chart: Chart, matched: Matched, limit: int, size: np.ndarray) -> None:
    """Into ``size``: the most candidates that a vertex starts with; the most nodes that all vertices can have."""
    size[0] = 0
    size[1] = limit
    for vertex in range(chart.size[VERTICES]):
        start = int64(0)
        free = True
        edge = int64(chart.first_edge[vertex])
        while edge >= 0:
            group = chart.edge_group[edge]
            start += matched.group_ptr[group + 1] - matched.group_ptr[group]
            free = free and chart.edge_tail[edge, 0] < 0
            edge = int64(chart.next_edge[edge])
        size[0] = max(size[0], start)
        size[1] += min(limit, start) if free else limit


@kernel
def _search(chart: Chart, matched: Matched, model: Model, candidates: Candidates, limit: int, forest: Forest) -> None:
    """Fill ``forest``."""
    begin_rules(matched, model)
    for k in range(chart.size[VERTICES]):
        vertex = int64(chart.order[k])
        nodes = _take_best(chart, matched, model, candidates, limit, forest, vertex)
        _add_nodes(chart, model, candidates, nodes, forest, vertex)
    _add_goal(model, forest, int64(chart.vertex[0, chart.vertex.shape[1] - 1, GOAL]))


@kernel
def _take_best(
    chart: Chart, matched: Matched, model: Model, candidates: Candidates, limit: int, forest: Forest, vertex: int
) -> int:
    """Take the best candidates of ``vertex`` from the heap and recombine them; returns the number of nodes."""
    candidates.heap.size[0] = 0
    candidates.same_state[:] = FREE
    candidates.same_ranks[:] = FREE
    count, nodes = int64(0), int64(0)
    edge = int64(chart.first_edge[vertex])
    while edge >= 0:
        group = chart.edge_group[edge]
        for rule in range(matched.group_ptr[group], matched.group_ptr[group + 1]):
            add_candidate(chart, matched, model, candidates, count, forest, edge, rule, 0, 0)
            count += 1
        edge = int64(chart.next_edge[edge])
    for _ in range(limit):
        if candidates.heap.size[0] == 0:
            break
        best = pop(candidates.heap)
        nodes = recombine(model, candidates, best, nodes)
        edge, rule = int64(candidates.edge[best]), int64(candidates.rule[best])
        for side in range(2):
            tail = chart.edge_tail[edge, side]
            left = int64(candidates.rank[best, 0]) + (1 - side)
            right = int64(candidates.rank[best, 1]) + side
            rank = left if side == 0 else right
            if tail < 0 or rank >= forest.vertex_ptr[tail, 1] - forest.vertex_ptr[tail, 0]:
                continue
            # Only a candidate with both ranks above 0 can be reached from two sides.
            if left > 0 and right > 0 and not is_new(candidates, count, edge, rule, left, right):
                continue
            add_candidate(chart, matched, model, candidates, count, forest, edge, rule, left, right)
            count += 1
    return nodes


@kernel
def _add_nodes(chart: Chart, model: Model, candidates: Candidates, nodes: int, forest: Forest, vertex: int) -> None:
    """Append the nodes of ``vertex`` to the forest, best first, each with its edges, best first."""
    base = forest.size[NODES]
    candidates.ranking.size[0] = 0
    for node in range(nodes):
        push(candidates.ranking, candidates.node_score[node], node)
    for rank in range(nodes):
        node = pop(candidates.ranking)
        forest.node_score[base + rank] = candidates.node_score[node]
        row = int64(candidates.state[candidates.node_first[node]])
        for m in range(len(model.lms)):
            copy(model.states[m], model.first_node + base + rank, row)
        begin = forest.size[EDGES]
        number = int64(candidates.node_first[node])
        while number >= 0:
            tail = chart.edge_tail[candidates.edge[number]]
            left = forest.vertex_ptr[tail[0], 0] + candidates.rank[number, 0] if tail[0] >= 0 else -1
            right = forest.vertex_ptr[tail[1], 0] + candidates.rank[number, 1] if tail[1] >= 0 else -1
            edge = insert_edge(forest, begin, int64(candidates.rule[number]), left, right, candidates.score[number])
            for m in range(len(model.lms)):
                forest.edge_lm[edge, m] = candidates.lm[number, m]
            number = int64(candidates.next[number])
        forest.edge_ptr[base + rank + 1] = forest.size[EDGES]
    forest.size[NODES] = base + nodes
    forest.vertex_ptr[vertex, 0] = base
    forest.vertex_ptr[vertex, 1] = base + nodes


@kernel
def _add_goal(model: Model, forest: Forest, vertex: int) -> None:
    """Add the goal node over the nodes of ``vertex``, S over the whole sentence, with the LMs' sentence boundaries."""
    goal, begin = forest.size[NODES], forest.size[EDGES]
    row = model.first_candidate
    for node in range(forest.vertex_ptr[vertex, 0], forest.vertex_ptr[vertex, 1]):
        score = forest.node_score[node]
        for m in range(len(model.lms)):
            score += model.lm_weight[m] * _finish(model.lms[m], model.states[m], row, model.first_node + node)
        edge = insert_edge(forest, begin, -1, node, -1, score)
        for m in range(len(model.lms)):
            forest.edge_lm[edge, m] = _finish(model.lms[m], model.states[m], row, model.first_node + node)
    forest.node_score[goal] = forest.edge_score[begin]
    forest.edge_ptr[goal + 1] = forest.size[EDGES]
    forest.size[NODES] = goal + 1


@kernel
def _finish(lm: LanguageModel, states: LmStates, row: int, node: int) -> float:
    """What the boundaries <s> and </s> around ``node`` add to its log10 probability; ``row`` is space for a state."""
    begin_sentence(lm, states, row)
    return np.float64(terminal(lm, states, row, lm.eos, nonterminal(lm, states, row, node, np.float32(0.0))))
