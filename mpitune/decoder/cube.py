"""Cube pruning: the forest with language models, at most ``pop_limit`` hypotheses built for each vertex.

Chiang 2007, section 5.3.4; Huang & Chiang 2007. A candidate is a rule over one hypothesis (node) for each of its gaps.
The best rules over the best nodes start in a heap; each candidate taken from it becomes an edge of the forest and puts
in its two neighbours, which use the next best node of one gap. Candidates with equal LM states recombine in one node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.chart import GOAL, VERTICES, Chart
from mpitune.decoder.heap import Heap, new_heap, pop, push
from mpitune.decoder.lmstate import LmStates, begin_sentence, copy, key, new_states, nonterminal, reset, terminal
from mpitune.decoder.matched import Matched
from mpitune.grammar.lm import LanguageModel
from mpitune.kernel import int64, kernel

NODES, EDGES = 0, 1
"""Places in `Forest.size`."""
FREE = -1


class Forest(NamedTuple):
    """The forest with LMs. Nodes of a vertex lie side by side, best first; so do the edges of a node."""

    size: np.ndarray
    """int64 [2]: how many nodes and edges there are; the last node is the goal."""
    vertex_ptr: np.ndarray
    """int32 [vertices, 2]: first node of a vertex and one past the last."""
    node_score: np.ndarray
    """float64 [nodes]: score of the best derivation."""
    edge_ptr: np.ndarray
    """int32 [nodes + 1]: edges of a node."""
    edge_rule: np.ndarray
    """int32 [edges]: the matched rule, -1 for the goal's edges."""
    edge_tail: np.ndarray
    """int32 [edges, 2]: the nodes under the gaps, or -1."""
    edge_score: np.ndarray
    """float64 [edges]: score of the best derivation through the edge."""
    edge_lm: np.ndarray
    """float64 [edges, LMs]: what the edge adds to each LM's log10 probability."""


class Candidates(NamedTuple):
    """The candidates of the vertex at work, and what finds doubles among them."""

    edge: np.ndarray
    """int32 [candidates]: the chart's edge."""
    rule: np.ndarray
    """int32 [candidates]: the matched rule."""
    rank: np.ndarray
    """int32 [candidates, 2]: which node of each gap's vertex, 0 = best."""
    score: np.ndarray
    """float64 [candidates]"""
    lm: np.ndarray
    """float64 [candidates, LMs]"""
    state: np.ndarray
    """int32 [candidates]: row of the LM states."""
    heap: Heap
    next: np.ndarray
    """int32 [candidates]: the candidate that went into the same node after this one, or -1."""
    node_first: np.ndarray
    """int32 [pop limit]: the first candidate of each node, nodes numbered as they arise ..."""
    node_last: np.ndarray
    """int32 [pop limit]: ... and the last."""
    node_score: np.ndarray
    """float64 [pop limit]: the best score of each node."""
    ranking: Heap
    same_state: np.ndarray
    """int32 [power of two]: hash table of the nodes by LM state."""
    same_ranks: np.ndarray
    """int32 [power of two]: hash table of the candidates by edge, rule and ranks."""


class Model(NamedTuple):
    """What scores candidates beside the rules' own scores."""

    lms: tuple[LanguageModel, ...]
    states: tuple[LmStates, ...]
    """Rows: a rule's leading words, then candidates, then the forest's nodes."""
    lm_weight: np.ndarray
    """float64 [LMs]"""
    leading: np.ndarray
    """int32 [rules]: where the target side goes on after its leading words."""
    leading_lm: np.ndarray
    """float32 [rules, LMs]: log10 probability of the leading words."""
    first_candidate: int
    first_node: int


def search(chart: Chart, matched: Matched, lms: tuple[LanguageModel, ...], lm_weight: np.ndarray, limit: int) -> Forest:
    """The forest with LMs of a sentence that has at least one word.

    ``lm_weight``: float64 [LMs]; ``limit``: how many candidates are taken from the heap for each vertex, at most.
    """
    rules, count = len(matched.score), len(lms)
    size = np.zeros(2, dtype=np.int64)
    _measure(chart, matched, limit, size)
    candidates = int(size[0]) + 2 * limit
    nodes = int(size[1]) + 1
    forest = Forest(
        size=np.zeros(2, dtype=np.int64),
        vertex_ptr=np.empty((int(chart.size[VERTICES]), 2), dtype=np.int32),
        node_score=np.empty(nodes, dtype=np.float64),
        edge_ptr=np.empty(nodes + 1, dtype=np.int32),
        edge_rule=np.empty(nodes + limit, dtype=np.int32),
        edge_tail=np.empty((nodes + limit, 2), dtype=np.int32),
        edge_score=np.empty(nodes + limit, dtype=np.float64),
        edge_lm=np.empty((nodes + limit, count), dtype=np.float64),
    )
    model = Model(
        lms=lms,
        states=tuple(new_states(lm, rules + candidates + nodes) for lm in lms),
        lm_weight=lm_weight,
        leading=np.empty(rules, dtype=np.int32),
        leading_lm=np.empty((rules, count), dtype=np.float32),
        first_candidate=rules,
        first_node=rules + candidates,
    )
    _search(chart, matched, model, _new_candidates(candidates, count, limit), limit, forest)
    return forest


def _new_candidates(candidates: int, lms: int, limit: int) -> Candidates:
    table = 8
    while table < 4 * limit:
        table *= 2
    return Candidates(
        edge=np.empty(candidates, dtype=np.int32),
        rule=np.empty(candidates, dtype=np.int32),
        rank=np.empty((candidates, 2), dtype=np.int32),
        score=np.empty(candidates, dtype=np.float64),
        lm=np.empty((candidates, lms), dtype=np.float64),
        state=np.empty(candidates, dtype=np.int32),
        heap=new_heap(candidates),
        next=np.empty(candidates, dtype=np.int32),
        node_first=np.empty(limit, dtype=np.int32),
        node_last=np.empty(limit, dtype=np.int32),
        node_score=np.empty(limit, dtype=np.float64),
        ranking=new_heap(limit),
        same_state=np.empty(table, dtype=np.int32),
        same_ranks=np.empty(table, dtype=np.int32),
    )


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
    _begin_rules(matched, model)
    forest.edge_ptr[0] = 0
    for k in range(chart.size[VERTICES]):
        vertex = int64(chart.order[k])
        nodes = _take_best(chart, matched, model, candidates, limit, forest, vertex)
        _add_nodes(chart, model, candidates, nodes, forest, vertex)
    _add_goal(model, forest, int64(chart.vertex[0, chart.vertex.shape[1] - 1, GOAL]))


@kernel
def _begin_rules(matched: Matched, model: Model) -> None:
    """Score the leading words of every rule, once for all candidates that use it."""
    for rule in range(matched.score.shape[0]):
        end = int64(matched.target_ptr[rule + 1])
        rest = int64(matched.target_ptr[rule])
        while rest < end and matched.target[rest] >= 0:
            rest += 1
        model.leading[rule] = rest
        for m in range(len(model.lms)):
            reset(model.states[m], rule)
            total = np.float32(0.0)
            for k in range(matched.target_ptr[rule], rest):
                total = terminal(model.lms[m], model.states[m], rule, int64(matched.lm_target[m, k]), total)
            model.leading_lm[rule, m] = total


@kernel
def _add_candidate(
    chart: Chart,
    matched: Matched,
    model: Model,
    candidates: Candidates,
    number: int,
    forest: Forest,
    edge: int,
    rule: int,
    left: int,
    right: int,
) -> None:
    """Score candidate ``number``, ``rule`` over the nodes of rank ``left`` and ``right``, and put it into the heap."""
    # Added up in the order in which cdec does: where rounding decides, it decides alike.
    score, below = matched.score[rule], 0.0
    first, second = int64(-1), int64(-1)
    if chart.edge_tail[edge, 0] >= 0:
        first = forest.vertex_ptr[chart.edge_tail[edge, 0], 0] + left
        below += forest.node_score[first]
    if chart.edge_tail[edge, 1] >= 0:
        second = forest.vertex_ptr[chart.edge_tail[edge, 1], 0] + right
        below += forest.node_score[second]
    rest, end = int64(model.leading[rule]), int64(matched.target_ptr[rule + 1])
    row = int64(rule) if rest == end else model.first_candidate + number
    for m in range(len(model.lms)):
        total = model.leading_lm[rule, m]
        if rest < end:
            lm, states = model.lms[m], model.states[m]
            copy(states, row, rule)
            for k in range(rest, end):
                symbol = int64(matched.lm_target[m, k])
                if symbol >= 0:
                    total = terminal(lm, states, row, symbol, total)
                else:
                    node = first if symbol == -1 else second
                    total = nonterminal(lm, states, row, model.first_node + node, total)
        candidates.lm[number, m] = total
        score += model.lm_weight[m] * np.float64(total)
        score += matched.oov_score[rule, m]
    score += below
    candidates.edge[number] = edge
    candidates.rule[number] = rule
    candidates.rank[number, 0] = left
    candidates.rank[number, 1] = right
    candidates.state[number] = row
    candidates.score[number] = score
    push(candidates.heap, score, number)


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
            _add_candidate(chart, matched, model, candidates, count, forest, edge, rule, 0, 0)
            count += 1
        edge = int64(chart.next_edge[edge])
    for _ in range(limit):
        if candidates.heap.size[0] == 0:
            break
        best = pop(candidates.heap)
        nodes = _recombine(model, candidates, best, nodes)
        edge, rule = int64(candidates.edge[best]), int64(candidates.rule[best])
        for side in range(2):
            tail = chart.edge_tail[edge, side]
            left = int64(candidates.rank[best, 0]) + (1 - side)
            right = int64(candidates.rank[best, 1]) + side
            rank = left if side == 0 else right
            if tail < 0 or rank >= forest.vertex_ptr[tail, 1] - forest.vertex_ptr[tail, 0]:
                continue
            # Only a candidate with both ranks above 0 can be reached from two sides.
            if left > 0 and right > 0 and not _is_new(candidates, count, edge, rule, left, right):
                continue
            _add_candidate(chart, matched, model, candidates, count, forest, edge, rule, left, right)
            count += 1
    return nodes


@kernel
def _is_new(candidates: Candidates, number: int, edge: int, rule: int, left: int, right: int) -> bool:
    """Whether no candidate is the same already; then ``number`` is noted as the one."""
    table = candidates.same_ranks
    slot = (edge * 40503 + rule * 10007 + left * 1009 + right * 2654435) & (table.shape[0] - 1)
    while table[slot] != FREE:
        other = table[slot]
        if (
            candidates.rank[other, 0] == left
            and candidates.rank[other, 1] == right
            and candidates.rule[other] == rule
            and candidates.edge[other] == edge
        ):
            return False
        slot = (slot + 1) & (table.shape[0] - 1)
    table[slot] = number
    return True


@kernel
def _recombine(model: Model, candidates: Candidates, number: int, nodes: int) -> int:
    """Put candidate ``number`` into the node that has its LM state, or into a new one; returns the number of nodes."""
    row = int64(candidates.state[number])
    table = candidates.same_state
    slot = int64(0)
    for m in range(len(model.lms)):
        state = key(model.states[m], row)
        slot = slot * 5 + (state >> 32) * 40503 + (state & 0xFFFFFFFF) * 2654435
    slot = (slot ^ (slot >> 15)) & (table.shape[0] - 1)
    candidates.next[number] = -1
    while table[slot] != FREE:
        node = table[slot]
        other = int64(candidates.state[candidates.node_first[node]])
        same = True
        for m in range(len(model.lms)):
            same = same and key(model.states[m], row) == key(model.states[m], other)
        if same:
            candidates.next[candidates.node_last[node]] = number
            candidates.node_last[node] = number
            candidates.node_score[node] = max(candidates.node_score[node], candidates.score[number])
            return nodes
        slot = (slot + 1) & (table.shape[0] - 1)
    table[slot] = nodes
    candidates.node_first[nodes] = number
    candidates.node_last[nodes] = number
    candidates.node_score[nodes] = candidates.score[number]
    return nodes + 1


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
            edge = _insert_edge(forest, begin, int64(candidates.rule[number]), left, right, candidates.score[number])
            for m in range(len(model.lms)):
                forest.edge_lm[edge, m] = candidates.lm[number, m]
            number = int64(candidates.next[number])
        forest.edge_ptr[base + rank + 1] = forest.size[EDGES]
    forest.size[NODES] = base + nodes
    forest.vertex_ptr[vertex, 0] = base
    forest.vertex_ptr[vertex, 1] = base + nodes


@kernel
def _insert_edge(forest: Forest, begin: int, rule: int, left: int, right: int, score: float) -> int:
    """Add an edge to those from ``begin`` on, which are sorted by score; returns its place."""
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


@kernel
def _add_goal(model: Model, forest: Forest, vertex: int) -> None:
    """Add the goal node over the nodes of ``vertex``, S over the whole sentence, with the LMs' sentence boundaries."""
    goal, begin = forest.size[NODES], forest.size[EDGES]
    row = model.first_candidate
    for node in range(forest.vertex_ptr[vertex, 0], forest.vertex_ptr[vertex, 1]):
        score = forest.node_score[node]
        for m in range(len(model.lms)):
            score += model.lm_weight[m] * _finish(model.lms[m], model.states[m], row, model.first_node + node)
        edge = _insert_edge(forest, begin, -1, node, -1, score)
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
