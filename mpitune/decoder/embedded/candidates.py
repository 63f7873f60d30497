"""The candidates of cube pruning: rules over a node for each of their gaps, scored with language models.

With a rule margin, a candidate is on the heap twice, one after the other: with a bound of its score when it enters,
and, once that is the best of the heap, with its score. Without one, it is scored when it enters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.automaton import EMPTY, Automaton, advance
from mpitune.decoder.embedded.heap import Heap, new_heap, push
from mpitune.decoder.embedded.matched import MatchedRules
from mpitune.jit import at, inlined, int64, kernel

FREE = -1
"""Content of an empty slot of the hash tables."""

UNSCORED = -2
"""Content of ``next`` of a candidate before it is scored."""

CANDIDATE = np.dtype(
    [("score", "f8"), *((name, "i4") for name in ("rule", "first", "second", "edge", "place", "next"))], align=True
)
"""A matched rule over the nodes of its first and second gap (-1: no such gap), of an edge of the chart. ``score``: its
model score; ``place``: where `ScoringModel.ranking` has the rule that enters when this one is scored; ``next``: the
next candidate of the same node, or -1."""


class ScoringModel(NamedTuple):
    """The LMs with their weights and states. An LM state is a pair of an `Automaton`'s numbers."""

    automata: tuple[Automaton, ...]
    """One for each LM."""
    lm_weight: np.ndarray
    """float64 [LMs]"""
    leading: np.ndarray
    """int32 [rules]: index in `MatchedRules.target` of the first symbol after the leading words."""
    leading_lm: np.ndarray
    """float32 [rules, LMs]: log10 probability of the leading words."""
    leading_state: np.ndarray
    """int32 [rules, LMs, 2]: their LM state, left half and right half."""
    estimate: np.ndarray
    """float64 [rules]: model score, in which the words on either side of a gap are no context of one another."""
    ranking: np.ndarray
    """int32 [rules]: the rules of each group, best first by ``estimate``."""
    margin: float
    """The most that context is taken to add to an estimated score; 0: ``estimate`` and ``ranking`` are not used."""
    node_state: np.ndarray
    """int32 [nodes, LMs, 2]: the LM state of each node of the forest."""


class Candidates(NamedTuple):
    """The candidates of the current vertex, with hash tables that find duplicates among them."""

    record: np.ndarray
    """CANDIDATE [candidates]"""
    lm: np.ndarray
    """float64 [candidates, LMs]: increment of each LM's log10 probability."""
    state: np.ndarray
    """int32 [candidates, LMs, 2]: LM states, left half and right half."""
    heap: Heap
    node_first: np.ndarray
    """int32 [pop limit]: the best candidate of each node; nodes are numbered in order of creation."""
    node_last: np.ndarray
    """int32 [pop limit]: the worst candidate of each node."""
    ranking: np.ndarray
    """int32 [pop limit]: the best candidates of the nodes, best first."""
    same_state: np.ndarray
    """int32 [power of two]: open-addressing hash table of the nodes by LM state."""
    same_nodes: np.ndarray
    """int32 [power of two]: open-addressing hash table of the candidates by rule and nodes."""


def new_candidates(arena: Arena, candidates: int, lms: int, limit: int) -> Candidates:
    """Space for so many candidates of one vertex, at most ``limit`` of which are popped; ``lms``: number of LMs."""
    table = 8
    while table < 4 * limit:
        table *= 2
    return Candidates(
        record=arena.empty(candidates, dtype=CANDIDATE),
        lm=arena.empty((candidates, lms), dtype=np.float64),
        state=arena.empty((candidates, lms, 2), dtype=np.int32),
        heap=new_heap(arena, candidates),
        node_first=arena.empty(limit, dtype=np.int32),
        node_last=arena.empty(limit, dtype=np.int32),
        ranking=arena.empty(limit, dtype=np.int32),
        same_state=arena.empty(table, dtype=np.int32),
        same_nodes=arena.empty(table, dtype=np.int32),
    )


@kernel
def score_words(matched: MatchedRules, model: ScoringModel) -> None:
    """Score the words of every rule without context, once for all its candidates: fills ``leading*``, ``estimate``."""
    for rule in range(matched.score.shape[0]):
        begin, end = int64(matched.target_ptr[rule]), int64(matched.target_ptr[rule + 1])
        rest = begin
        while rest < end and matched.target[rest] >= 0:
            rest += 1
        model.leading[rule] = rest
        score = matched.score[rule]
        for m in range(len(model.automata)):
            automaton, left, right, total = model.automata[m], int64(EMPTY), int64(EMPTY), np.float32(0.0)
            for k in range(begin, rest):
                word = int64(matched.lm_target[m, k])
                left, right, total = advance(automaton, left, right, word, int64(EMPTY), total)
            model.leading_state[rule, m, 0] = left
            model.leading_state[rule, m, 1] = right
            model.leading_lm[rule, m] = total
            if model.margin == 0.0:
                continue
            for k in range(rest, end):
                word = int64(matched.lm_target[m, k])
                if word < 0:
                    left, right = int64(EMPTY), int64(EMPTY)
                else:
                    left, right, total = advance(automaton, left, right, word, int64(EMPTY), total)
            score += model.lm_weight[m] * np.float64(total)
            score += matched.oov_score[rule, m]
        if model.margin > 0.0:
            model.estimate[rule] = score


@kernel
def rank_rules(matched: MatchedRules, model: ScoringModel) -> None:
    """Fill `ScoringModel.ranking`; on a tie the first rule of the grammar comes first (Shell sort, gaps by Ciura)."""
    ranking, score = model.ranking, model.estimate
    for rule in range(ranking.shape[0]):
        ranking[rule] = rule
    for group in range(matched.group_ptr.shape[0] - 1):
        begin, end = int64(matched.group_ptr[group]), int64(matched.group_ptr[group + 1])
        for gap in (301, 132, 57, 23, 10, 4, 1):
            for i in range(begin + gap, end):
                rule = ranking[at(i)]
                k = i
                while k >= begin + gap:
                    other = ranking[at(k - gap)]
                    if score[at(other)] > score[at(rule)] or (score[at(other)] == score[at(rule)] and other < rule):
                        break
                    ranking[at(k)] = other
                    k -= gap
                ranking[at(k)] = rule


@inlined
def _lm_score(
    matched: MatchedRules, model: ScoringModel, m: int, rule: int, first: int, second: int
) -> tuple[int, int, np.float32]:
    """The LM state of ``rule`` over the nodes ``first`` and ``second`` under LM ``m``, and its log10 probability.

    Returns both halves of the state, then the increment of the log10 probability over those of the nodes.
    """
    k, end = int64(model.leading[at(rule)]), int64(matched.target_ptr[at(rule + 1)])
    left, right = int64(model.leading_state[at(rule), m, 0]), int64(model.leading_state[at(rule), m, 1])
    total = np.float32(model.leading_lm[at(rule), m])
    automaton = model.automata[m]
    if k < end and k == matched.target_ptr[at(rule)]:
        # No words before the first gap: begin with the state of its node.
        node = first if matched.lm_target[m, at(k)] == -1 else second
        left, right = int64(model.node_state[at(node), m, 0]), int64(model.node_state[at(node), m, 1])
        k += 1
    while k < end:
        symbol, after = int64(matched.lm_target[m, at(k)]), int64(EMPTY)
        if symbol < 0:
            node = first if symbol == -1 else second
            symbol, after = ~int64(model.node_state[at(node), m, 0]), int64(model.node_state[at(node), m, 1])
        left, right, total = advance(automaton, left, right, symbol, after, total)
        k += 1
    return left, right, total


@inlined
def score_candidate(
    matched: MatchedRules, model: ScoringModel, candidates: Candidates, number: int, node_score: np.ndarray
) -> None:
    """Score candidate ``number``, and push it on the heap."""
    record = candidates.record[at(number)]
    rule, first, second = int64(record["rule"]), int64(record["first"]), int64(record["second"])
    # Added in the order of cdec, so that rounding gives the same bits and candidates tie as they do there.
    score, below = matched.score[at(rule)], 0.0
    if first >= 0:
        below += node_score[at(first)]
    if second >= 0:
        below += node_score[at(second)]
    for m in range(len(model.automata)):
        left, right, total = _lm_score(matched, model, m, rule, first, second)
        candidates.lm[at(number), m] = total
        candidates.state[at(number), m, 0] = left
        candidates.state[at(number), m, 1] = right
        score += model.lm_weight[m] * np.float64(total)
        score += matched.oov_score[at(rule), m]
    score += below
    record["score"] = score
    record["next"] = -1
    push(candidates.heap, score, number)


@inlined
def enter(
    matched: MatchedRules,
    model: ScoringModel,
    candidates: Candidates,
    number: int,
    node_score: np.ndarray,
    bound: float,
    edge: int,
    rule: int,
    place: int,
    first: int,
    second: int,
) -> None:
    """Push candidate ``number``, ``rule`` over the nodes ``first`` and ``second``, with the ``bound`` of its score.

    Without a margin: with its score.
    """
    record = candidates.record[at(number)]
    record["rule"] = rule
    record["first"] = first
    record["second"] = second
    record["edge"] = edge
    record["place"] = place
    if model.margin > 0.0:
        record["next"] = UNSCORED
        push(candidates.heap, bound, number)
    else:
        score_candidate(matched, model, candidates, number, node_score)


@inlined
def add_if_new(candidates: Candidates, number: int, rule: int, first: int, second: int) -> bool:
    """Record candidate ``number`` unless one has this rule and these nodes already; returns True if recorded."""
    table = candidates.same_nodes
    slot = (rule * 10007 + first * 1009 + second * 2654435) & (table.shape[0] - 1)
    while table[at(slot)] != FREE:
        other = candidates.record[at(table[at(slot)])]
        if other["rule"] == rule and other["first"] == first and other["second"] == second:
            return False
        slot = (slot + 1) & (table.shape[0] - 1)
    table[at(slot)] = number
    return True


@inlined
def recombine(model: ScoringModel, candidates: Candidates, number: int, nodes: int) -> int:
    """Add candidate ``number`` to the node with its LM state, or to a new node; returns the number of nodes."""
    table = candidates.same_state
    slot = int64(0)
    for m in range(len(model.automata)):
        left, right = int64(candidates.state[at(number), m, 0]), int64(candidates.state[at(number), m, 1])
        slot = slot * 5 + left * 40503 + right * 2654435
    slot = (slot ^ (slot >> 15)) & (table.shape[0] - 1)
    while table[at(slot)] != FREE:
        node = int64(table[at(slot)])
        other = int64(candidates.node_first[at(node)])
        same = True
        for m in range(len(model.automata)):
            same = same and candidates.state[at(number), m, 0] == candidates.state[at(other), m, 0]
            same = same and candidates.state[at(number), m, 1] == candidates.state[at(other), m, 1]
        if same:
            _insert_into_node(candidates, node, number)
            return nodes
        slot = (slot + 1) & (table.shape[0] - 1)
    table[at(slot)] = nodes
    candidates.node_first[at(nodes)] = number
    candidates.node_last[at(nodes)] = number
    candidates.record[at(number)]["next"] = -1
    return nodes + 1


@kernel
def _insert_into_node(candidates: Candidates, node: int, number: int) -> None:
    """Insert candidate ``number`` into the list of ``node``, after all that are no worse."""
    new = candidates.record[at(number)]
    first, last = int64(candidates.node_first[at(node)]), int64(candidates.node_last[at(node)])
    if not new["score"] > candidates.record[at(last)]["score"]:
        # The common case: candidates arrive almost in order. NaN, which is not greater than anything, also goes here.
        new["next"] = -1
        candidates.record[at(last)]["next"] = number
        candidates.node_last[at(node)] = number
    elif new["score"] > candidates.record[at(first)]["score"]:
        new["next"] = first
        candidates.node_first[at(node)] = number
    else:
        before = first
        while candidates.record[at(candidates.record[at(before)]["next"])]["score"] >= new["score"]:
            before = int64(candidates.record[at(before)]["next"])
        new["next"] = candidates.record[at(before)]["next"]
        candidates.record[at(before)]["next"] = number
