"""The candidates of cube pruning: rules over a node for each of their gaps, scored with language models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.heap import Heap, new_heap, push
from mpitune.decoder.lmstate import LmStates, copy, key, nonterminal, reset, terminal
from mpitune.decoder.matched import Matched
from mpitune.grammar.lm import LanguageModel
from mpitune.kernel import at, int64, kernel

FREE = -1
"""In the hash tables: a place where nothing is."""

CANDIDATE = np.dtype(
    [("score", "f8"), ("rule", "i4"), ("first", "i4"), ("second", "i4"), ("edge", "i4"), ("next", "i4")], align=True
)
"""A matched rule over the nodes of its first and second gap (-1: there is no such gap), of an edge of the chart.
``next``: the candidate that comes after this one in the same node, or -1."""


class Model(NamedTuple):
    """What scores candidates beside the rules' own scores."""

    lms: tuple[LanguageModel, ...]
    states: tuple[LmStates, ...]
    """Rows: a rule's leading words, then `scratch`, then the forest's nodes."""
    lm_weight: np.ndarray
    """float64 [LMs]"""
    leading: np.ndarray
    """int32 [rules]: where the target side goes on after its leading words."""
    leading_lm: np.ndarray
    """float32 [rules, LMs]: log10 probability of the leading words."""
    scratch: int
    first_node: int


class Candidates(NamedTuple):
    """The candidates of the vertex at work, and what finds doubles among them."""

    one: np.ndarray
    """CANDIDATE [candidates]"""
    lm: np.ndarray
    """float64 [candidates, LMs]: what the candidate adds to each LM's log10 probability."""
    state: np.ndarray
    """int64 [candidates, LMs]: its LM states, as their `lmstate.key`."""
    heap: Heap
    node_first: np.ndarray
    """int32 [pop limit]: the best candidate of each node, nodes numbered as they arise ..."""
    node_last: np.ndarray
    """int32 [pop limit]: ... and the worst."""
    ranking: Heap
    same_state: np.ndarray
    """int32 [power of two]: hash table of the nodes by LM state."""
    same_nodes: np.ndarray
    """int32 [power of two]: hash table of the candidates by rule and nodes."""


def new_candidates(candidates: int, lms: int, limit: int) -> Candidates:
    """Space for so many candidates of one vertex, ``limit`` of which are taken from the heap at most."""
    table = 8
    while table < 4 * limit:
        table *= 2
    return Candidates(
        one=np.empty(candidates, dtype=CANDIDATE),
        lm=np.empty((candidates, lms), dtype=np.float64),
        state=np.empty((candidates, lms), dtype=np.int64),
        heap=new_heap(candidates),
        node_first=np.empty(limit, dtype=np.int32),
        node_last=np.empty(limit, dtype=np.int32),
        ranking=new_heap(limit),
        same_state=np.empty(table, dtype=np.int32),
        same_nodes=np.empty(table, dtype=np.int32),
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
    matched: Matched,
    model: Model,
    candidates: Candidates,
    number: int,
    node_score: np.ndarray,
    edge: int,
    rule: int,
    first: int,
    second: int,
) -> None:
    """Score candidate ``number``, ``rule`` over the nodes ``first`` and ``second``, and put it into the heap."""
    # Added up in the order in which cdec does: where rounding decides, it decides alike.
    score, below = matched.score[at(rule)], 0.0
    if first >= 0:
        below += node_score[at(first)]
    if second >= 0:
        below += node_score[at(second)]
    for m in range(len(model.lms)):
        total = lm_score(matched, model, m, rule, first, second, model.scratch)
        row = model.scratch if first >= 0 else int64(rule)
        candidates.lm[at(number), m] = total
        candidates.state[at(number), m] = key(model.states[m], row)
        score += model.lm_weight[m] * np.float64(total)
        score += matched.oov_score[at(rule), m]
    score += below
    one = candidates.one[at(number)]
    one["score"] = score
    one["rule"] = rule
    one["first"] = first
    one["second"] = second
    one["edge"] = edge
    push(candidates.heap, score, number)


@kernel
def lm_score(matched: Matched, model: Model, m: int, rule: int, first: int, second: int, row: int) -> np.float32:
    """What ``rule`` over the nodes ``first`` and ``second`` adds to the log10 probability of LM ``m``.

    The state goes to ``row``, but for a rule without gaps, whose state lies ready in the rule's own row.
    """
    k, end = int64(model.leading[at(rule)]), int64(matched.target_ptr[at(rule + 1)])
    total = np.float32(model.leading_lm[at(rule), m])
    if k == end:
        return total
    lm, states = model.lms[m], model.states[m]
    if k == matched.target_ptr[at(rule)]:
        # Nothing before the first gap: the state is that of its node.
        copy(states, row, model.first_node + (first if matched.lm_target[m, at(k)] == -1 else second))
        k += 1
    else:
        copy(states, row, rule)
    while k < end:
        symbol = int64(matched.lm_target[m, at(k)])
        if symbol >= 0:
            total = terminal(lm, states, row, symbol, total)
        else:
            total = nonterminal(lm, states, row, model.first_node + (first if symbol == -1 else second), total)
        k += 1
    return total


@kernel
def is_new(candidates: Candidates, number: int, rule: int, first: int, second: int) -> bool:
    """Whether no candidate is the same already; then ``number`` is noted as the one."""
    table = candidates.same_nodes
    slot = (rule * 10007 + first * 1009 + second * 2654435) & (table.shape[0] - 1)
    while table[at(slot)] != FREE:
        other = candidates.one[at(table[at(slot)])]
        if other["rule"] == rule and other["first"] == first and other["second"] == second:
            return False
        slot = (slot + 1) & (table.shape[0] - 1)
    table[at(slot)] = number
    return True


@kernel
def recombine(model: Model, candidates: Candidates, number: int, nodes: int) -> int:
    """Put candidate ``number`` into the node that has its LM state, or into a new one; returns the number of nodes."""
    table = candidates.same_state
    slot = int64(0)
    for m in range(len(model.lms)):
        state = candidates.state[at(number), m]
        slot = slot * 5 + (state >> 32) * 40503 + (state & 0xFFFFFFFF) * 2654435
    slot = (slot ^ (slot >> 15)) & (table.shape[0] - 1)
    while table[at(slot)] != FREE:
        node = int64(table[at(slot)])
        other = int64(candidates.node_first[at(node)])
        same = True
        for m in range(len(model.lms)):
            same = same and candidates.state[at(number), m] == candidates.state[at(other), m]
        if same:
            _join(candidates, node, number)
            return nodes
        slot = (slot + 1) & (table.shape[0] - 1)
    table[at(slot)] = nodes
    candidates.node_first[at(nodes)] = number
    candidates.node_last[at(nodes)] = number
    candidates.one[at(number)]["next"] = -1
    return nodes + 1


@kernel
def _join(candidates: Candidates, node: int, number: int) -> None:
    """Put candidate ``number`` among those of ``node``, after all that are no worse."""
    new = candidates.one[at(number)]
    first, last = int64(candidates.node_first[at(node)]), int64(candidates.node_last[at(node)])
    if not new["score"] > candidates.one[at(last)]["score"]:
        # They come almost in order; and NaN, which is not above anything, ends up here.
        new["next"] = -1
        candidates.one[at(last)]["next"] = number
        candidates.node_last[at(node)] = number
    elif new["score"] > candidates.one[at(first)]["score"]:
        new["next"] = first
        candidates.node_first[at(node)] = number
    else:
        before = first
        while candidates.one[at(candidates.one[at(before)]["next"])]["score"] >= new["score"]:
            before = int64(candidates.one[at(before)]["next"])
        new["next"] = candidates.one[at(before)]["next"]
        candidates.one[at(before)]["next"] = number
