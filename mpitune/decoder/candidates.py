"""The candidates of cube pruning: rules over a node for each of their gaps, scored with language models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.chart import Chart
from mpitune.decoder.forest import Forest
from mpitune.decoder.heap import Heap, new_heap, push
from mpitune.decoder.lmstate import LmStates, copy, key, nonterminal, reset, terminal
from mpitune.decoder.matched import Matched
from mpitune.grammar.lm import LanguageModel
from mpitune.kernel import int64, kernel

FREE = -1
"""In the hash tables: a place where nothing is."""


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


def new_candidates(candidates: int, lms: int, limit: int) -> Candidates:
    """Space for so many candidates of one vertex, ``limit`` of which are taken from the heap at most."""
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
def begin_rules(matched: Matched, model: Model) -> None:
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
def add_candidate(
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
def is_new(candidates: Candidates, number: int, edge: int, rule: int, left: int, right: int) -> bool:
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
def recombine(model: Model, candidates: Candidates, number: int, nodes: int) -> int:
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
