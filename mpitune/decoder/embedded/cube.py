"""Cube pruning: the forest with language models, at most ``pop_limit`` hypotheses for each vertex.

Chiang (Computational Linguistics 2007, section 5.3.4); Huang and Chiang (ACL 2007). A candidate is a rule over one
hypothesis (node) for each of its gaps. Each candidate popped from the heap becomes an edge of the forest, and its two
neighbours, which use the next best node of one gap, enter the heap. Candidates with equal LM states recombine in one
node.

LM scores take most of the time. With a rule margin, a candidate therefore enters with a bound instead of its score: an
estimate, plus the margin for what context may add. It is scored only when this bound is the best of the heap. The rules
of one source side (a group) are sorted by their estimates, in which the LMs score the words between gaps without
context, and enter one after the other: first the best rule over the best nodes, and when a rule is scored, the next
one. A neighbour is estimated from the candidate that it neighbours, with half the margin. The margin trades exactness
for speed: where context adds more, a candidate comes too late. Without a margin (0), every rule over the best nodes is
scored at the start, as in cdec.
"""

from __future__ import annotations

import numpy as np

from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.automaton import BEGIN, EMPTY, Automaton, advance, failed
from mpitune.decoder.embedded.candidates import (
    FREE,
    UNSCORED,
    Candidates,
    ScoringModel,
    add_if_new,
    enter,
    new_candidates,
    rank_rules,
    recombine,
    score_candidate,
    score_words,
)
from mpitune.decoder.embedded.chart import VERTICES, Chart
from mpitune.decoder.embedded.forest import EDGES, NODES, Forest, insert_edge, new_forest
from mpitune.decoder.embedded.heap import pop
from mpitune.decoder.embedded.matched import MatchedRules
from mpitune.grammar.rules import GOAL
from mpitune.jit import at, inlined, int64, kernel


def search(
    arena: Arena,
    chart: Chart,
    matched: MatchedRules,
    automata: tuple[Automaton, ...],
    lm_weight: np.ndarray,
    limit: int,
    margin: float,
) -> Forest | None:
    """The forest with LMs of a sentence that has at least one word, or None if an automaton is out of space.

    ``automata``: one for each LM; ``lm_weight``: float64 [LMs]; ``limit``: the most candidates popped from the
    heap for each vertex; ``margin``: see above, the same for each LM.
    """
    rules, count = len(matched.score), len(automata)
    size = np.zeros(2, dtype=np.int64)
    _measure(chart, matched, limit, size)
    candidates = int(size[0]) + 2 * limit
    nodes = int(size[1]) + 1
    forest = new_forest(arena, int(chart.size[VERTICES]), nodes, nodes + limit, count)
    model = ScoringModel(
        automata=automata,
        lm_weight=lm_weight,
        leading=arena.empty(rules, dtype=np.int32),
        leading_lm=arena.empty((rules, count), dtype=np.float32),
        leading_state=arena.empty((rules, count, 2), dtype=np.int32),
        estimate=arena.empty(rules, dtype=np.float64),
        ranking=arena.empty(rules, dtype=np.int32),
        margin=margin * float(np.abs(lm_weight).sum()),
        node_state=arena.empty((nodes, count, 2), dtype=np.int32),
    )
    _search(chart, matched, model, new_candidates(arena, candidates, count, limit), limit, forest)
    return None if any(map(failed, automata)) else forest


@kernel
def _measure(chart: Chart, matched: MatchedRules, limit: int, size: np.ndarray) -> None:
    """Write to ``size`` (int64 [2]) the most initial candidates of a vertex, and the most nodes of all vertices."""
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
def _search(
    chart: Chart, matched: MatchedRules, model: ScoringModel, candidates: Candidates, limit: int, forest: Forest
) -> None:
    """Fill ``forest`` (`new_forest`) bottom-up, vertex by vertex in ``chart.order``, then the goal.

    With V vertices, R matched rules, L LMs, and C candidates and N nodes as written to ``size`` by `_measure`:

    - ``chart``: the forest without LMs;
    - ``matched``: the rules of its groups, with scores under the current weights;
    - ``model``: the automata, which gain states and transitions, the weights [L], and arrays that are written here:
      ``leading*`` [R, ...] first, ``node_state`` [N + 1, L, 2] with the nodes;
    - ``candidates``: working space of one vertex, for C + 2 * ``limit`` candidates: each one popped pushes two at most;
    - ``limit``: the most candidates popped for each vertex;
    - ``forest``: space for V vertices, N + 1 nodes (the goal is the last) and N + 1 + ``limit`` edges.
    """
    score_words(matched, model)
    if model.margin > 0.0:
        rank_rules(matched, model)
    for k in range(chart.size[VERTICES]):
        vertex = int64(chart.order[k])
        nodes = _take_best(chart, matched, model, candidates, limit, forest, vertex)
        _add_nodes(model, candidates, nodes, forest, vertex)
    _add_goal(model, forest, int64(chart.vertex[0, chart.vertex.shape[1] - 1, GOAL]))


@kernel
def _take_best(
    chart: Chart,
    matched: MatchedRules,
    model: ScoringModel,
    candidates: Candidates,
    limit: int,
    forest: Forest,
    vertex: int,
) -> int:
    """Pop the best candidates of ``vertex`` and recombine them; returns the number of nodes."""
    candidates.heap.size[0] = 0
    candidates.same_state[:] = FREE
    candidates.same_nodes[:] = FREE
    count, nodes = int64(0), int64(0)
    edge = int64(chart.first_edge[vertex])
    while edge >= 0:
        group, left, right = chart.edge_group[edge], chart.edge_tail[edge, 0], chart.edge_tail[edge, 1]
        first = int64(forest.vertex_ptr[left, 0]) if left >= 0 else -1
        second = int64(forest.vertex_ptr[right, 0]) if right >= 0 else -1
        begin, end = int64(matched.group_ptr[group]), int64(matched.group_ptr[group + 1])
        # A group's candidates have the numbers from ``count`` on in the order of its rules, whatever their ranking.
        if model.margin > 0.0:
            number = count + model.ranking[at(begin)] - begin
            _enter_rule(matched, model, candidates, number, forest.node_score, edge, begin, first, second)
        else:
            for rule in range(begin, end):
                number = count + rule - begin
                enter(matched, model, candidates, number, forest.node_score, 0.0, edge, rule, end, first, second)
        count += end - begin
        edge = int64(chart.next_edge[edge])
    popped = 0
    while popped < limit and candidates.heap.size[0] > 0:
        best = pop(candidates.heap)
        record = candidates.record[at(best)]
        edge, rule, place = int64(record["edge"]), int64(record["rule"]), int64(record["place"])
        end = int64(matched.group_ptr[at(chart.edge_group[at(edge)] + 1)])
        if record["next"] == UNSCORED:
            score_candidate(matched, model, candidates, best, forest.node_score)
            if place < end:
                first, second = int64(record["first"]), int64(record["second"])
                number = best + model.ranking[at(place)] - rule
                _enter_rule(matched, model, candidates, number, forest.node_score, edge, place, first, second)
            continue
        popped += 1
        nodes = recombine(model, candidates, best, nodes)
        for side in range(2):
            first, second = int64(record["first"]) + (1 - side), int64(record["second"]) + side
            moved, stayed = (first, second) if side == 0 else (second, first)
            tail, other = int64(chart.edge_tail[at(edge), side]), int64(chart.edge_tail[at(edge), 1 - side])
            if tail < 0 or moved >= forest.vertex_ptr[at(tail), 1]:
                continue
            # Only a candidate that uses the best node of neither gap is a neighbour of two others.
            two_ways = other >= 0 and stayed > forest.vertex_ptr[at(other), 0]
            if two_ways and not add_if_new(candidates, count, rule, first, second):
                continue
            # Another node changes the LMs' scores less than context that was missing.
            bound = record["score"] + (forest.node_score[at(moved)] - forest.node_score[at(moved - 1)])
            bound += 0.5 * model.margin
            enter(matched, model, candidates, count, forest.node_score, bound, edge, rule, end, first, second)
            count += 1
    return nodes


@inlined
def _enter_rule(
    matched: MatchedRules,
    model: ScoringModel,
    candidates: Candidates,
    number: int,
    node_score: np.ndarray,
    edge: int,
    place: int,
    first: int,
    second: int,
) -> None:
    """Enter candidate ``number``: the rule at ``place`` of the ranking over the best nodes of ``edge``."""
    rule = int64(model.ranking[at(place)])
    bound = model.estimate[at(rule)] + model.margin
    if first >= 0:
        bound += node_score[at(first)]
    if second >= 0:
        bound += node_score[at(second)]
    enter(matched, model, candidates, number, node_score, bound, edge, rule, place + 1, first, second)


@kernel
def _add_nodes(model: ScoringModel, candidates: Candidates, nodes: int, forest: Forest, vertex: int) -> None:
    """Append the nodes of ``vertex`` to the forest, best first, each with its edges, best first."""
    base, edge = forest.size[NODES], forest.size[EDGES]
    _rank(candidates, nodes)
    for rank in range(base, base + nodes):
        number = int64(candidates.ranking[at(rank - base)])
        best = candidates.record[at(number)]
        forest.node_score[at(rank)] = best["score"]
        for m in range(len(model.automata)):
            for half in range(2):
                model.node_state[at(rank), m, half] = candidates.state[at(number), m, half]
        while number >= 0:
            record = candidates.record[at(number)]
            forest.edge_rule[at(edge)] = record["rule"]
            forest.edge_tail[at(edge), 0] = record["first"]
            forest.edge_tail[at(edge), 1] = record["second"]
            forest.edge_score[at(edge)] = record["score"]
            for m in range(len(model.automata)):
                forest.edge_lm[at(edge), m] = candidates.lm[at(number), m]
            number = int64(record["next"])
            edge += 1
        forest.edge_ptr[at(rank + 1)] = edge
    forest.size[NODES] = base + nodes
    forest.size[EDGES] = edge
    forest.vertex_ptr[vertex, 0] = base
    forest.vertex_ptr[vertex, 1] = base + nodes


@kernel
def _rank(candidates: Candidates, nodes: int) -> None:
    """Sort the best candidates of the nodes into ``ranking``, best first; nodes are created almost in that order."""
    ranking = candidates.ranking
    for node in range(nodes):
        number = candidates.node_first[at(node)]
        score = candidates.record[at(number)]["score"]
        place = node
        while place > 0 and score > candidates.record[at(ranking[at(place - 1)])]["score"]:
            ranking[at(place)] = ranking[at(place - 1)]
            place -= 1
        ranking[at(place)] = number


@kernel
def _add_goal(model: ScoringModel, forest: Forest, vertex: int) -> None:
    """Add the goal node over the nodes of ``vertex`` (S over the whole sentence), with the LMs' sentence boundaries."""
    goal, begin = forest.size[NODES], forest.size[EDGES]
    for node in range(forest.vertex_ptr[vertex, 0], forest.vertex_ptr[vertex, 1]):
        score = forest.node_score[node]
        for m in range(len(model.automata)):
            score += model.lm_weight[m] * _finish(model, m, node)
        edge = insert_edge(forest, begin, -1, node, -1, score)
        for m in range(len(model.automata)):
            forest.edge_lm[edge, m] = _finish(model, m, node)
    forest.node_score[goal] = forest.edge_score[begin]
    forest.edge_ptr[goal + 1] = forest.size[EDGES]
    forest.size[NODES] = goal + 1


@kernel
def _finish(model: ScoringModel, m: int, node: int) -> float:
    """Increment of the log10 probability of ``node`` under LM ``m`` by the boundaries <s> and </s> around it."""
    automaton, begin = model.automata[m], int64(BEGIN)
    first, last = ~int64(model.node_state[node, m, 0]), int64(model.node_state[node, m, 1])
    left, right, total = advance(automaton, begin, begin, first, last, np.float32(0.0))
    _, _, total = advance(automaton, left, right, int64(automaton.lm.eos), int64(EMPTY), total)
    return np.float64(total)
