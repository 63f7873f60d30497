"""What the search has built, for people and other programs to look into: the hypergraph, and derivations as trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.decoder.base import Derivation, Hypergraph, TranslationModel
from mpitune.decoder.chart import GLUE_TWO, PASS_THROUGH, VERTICES, Chart
from mpitune.decoder.forest import NODES, Forest
from mpitune.decoder.kbest import NONE, Derivations
from mpitune.decoder.matched import Matched, Rows
from mpitune.grammar.features import GLUE, Gap, Rule, as_symbols, pass_through

GOAL = "Goal"
"""The category of the goal node; its one rule adds the sentence boundaries, which the language models score."""


def hypergraph(
    model: TranslationModel,
    source: Sequence[str],
    chart: Chart,
    matched: Matched,
    forest: Forest,
    found: tuple[np.ndarray, Derivations],
    lm_slot: np.ndarray,
    weights: np.ndarray,
) -> Hypergraph:
    """What of ``forest`` the goal can reach, and the derivations ``found`` (of `kbest.best_derivations`).

    ``source``: the source words; ``lm_slot``: int32 [LMs], slots of the LMs' features; ``weights``: float64, one for
    every slot.
    """
    nodes, edges = forest.size.tolist()
    ptr = forest.edge_ptr[: nodes + 1]
    head = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(ptr))
    reached = _reached(ptr.tolist(), forest.edge_tail)
    node_number = np.cumsum(reached, dtype=np.int32) - np.int32(1)
    kept = np.flatnonzero(reached[head])
    tail = forest.edge_tail[kept]
    # The goal's rule is -1, so that it comes first.
    used, rule = np.unique(forest.edge_rule[kept], return_inverse=True)
    rules = [_rule(model, source, chart, matched, number) for number in used.tolist()[1:]]
    features = _rows(matched.features, used)
    edge_lm = forest.edge_lm[kept]
    products = weights[features.column] * features.value
    rule_score = np.bincount(np.repeat(np.arange(len(used)), np.diff(features.ptr)), products, len(used))
    edge_score = rule_score[rule] + (edge_lm * weights[lm_slot]).sum(axis=1)
    span, category = _places(chart, forest)
    edge_number = np.full(edges, -1, dtype=np.int64)
    edge_number[kept] = np.arange(len(kept))
    return Hypergraph(
        source=source,
        node_span=span[reached],
        node_category=[*(model.categories[c] for c in category[reached[:-1]].tolist()), GOAL],
        node_score=forest.node_score[:nodes][reached],
        edge_head=node_number[head[kept]],
        edge_tail=np.where(tail >= 0, node_number[tail], np.int32(-1)),
        edge_rule=rule.astype(np.int32),
        edge_lm=edge_lm,
        edge_score=edge_score,
        lm_slot=lm_slot,
        rules=[Rule(GOAL, [Gap("S", 1)], [Gap("S", 1)]), *(rule for rule, _ in rules)],
        origin=["goal", *(origin for _, origin in rules)],
        feature_ptr=features.ptr,
        feature_index=features.column,
        feature_value=features.value,
        best=_trees(*found, edge_number, edge_score),
    )


def empty_hypergraph(lm_slot: np.ndarray, k: int) -> Hypergraph:
    """The hypergraph of a sentence of no words: a goal without anything below it; ``k`` as in `hypergraph`."""
    none = np.zeros(0, dtype=np.int32)
    return Hypergraph(
        source=[],
        node_span=np.zeros((1, 2), dtype=np.int32),
        node_category=[GOAL],
        node_score=np.zeros(1),
        edge_head=np.zeros(1, dtype=np.int32),
        edge_tail=np.full((1, 2), -1, dtype=np.int32),
        edge_rule=np.zeros(1, dtype=np.int32),
        edge_lm=np.zeros((1, len(lm_slot))),
        edge_score=np.zeros(1),
        lm_slot=lm_slot,
        rules=[Rule(GOAL, [], [])],
        origin=["goal"],
        feature_ptr=np.zeros(2, dtype=np.int64),
        feature_index=none,
        feature_value=np.zeros(0),
        best=[Derivation(0, (), 0.0)][:k],
    )


def _reached(ptr: list[int], tail: np.ndarray) -> np.ndarray:
    """bool [nodes]: which nodes some derivation of the goal, the last, goes through."""
    reached = np.zeros(len(ptr) - 1, dtype=np.bool_)
    reached[-1] = True
    for node in range(len(reached) - 1, -1, -1):
        if reached[node]:
            # No tail is -1: that marks the goal, where the mark is already.
            reached[tail[ptr[node] : ptr[node + 1]]] = True
    return reached


def _places(chart: Chart, forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    """int32 [nodes, 2]: the span of every node; int32 [nodes - 1]: the category of all but the goal."""
    nodes = int(forest.size[NODES])
    vertices = int(chart.size[VERTICES])
    place = np.empty((vertices, 3), dtype=np.int32)
    cells = np.nonzero(chart.vertex >= 0)
    place[chart.vertex[cells]] = np.stack(cells, axis=1)
    node_place = np.zeros((nodes, 3), dtype=np.int32)
    for vertex, (first, last) in enumerate(forest.vertex_ptr[:vertices].tolist()):
        node_place[first:last] = place[vertex]
    node_place[-1, 1] = chart.vertex.shape[0] - 1
    return node_place[:, :2], node_place[:-1, 2]


def _rule(
    model: TranslationModel, source: Sequence[str], chart: Chart, matched: Matched, number: int
) -> tuple[Rule, str]:
    """A matched rule, and where it comes from."""
    group = int(np.searchsorted(matched.group_ptr, number, side="right")) - 1
    if group <= GLUE_TWO:
        return GLUE[group], "glue"
    if group < PASS_THROUGH + len(source):
        return pass_through(source[group - PASS_THROUGH]), "pass-through"
    rule = chart.group_rule[group, 0] + number - matched.group_ptr[group]
    return as_symbols(model.rules, int(model.rules.type[rule]), model.categories, model.words.words), "grammar"


def _rows(rows: Rows, chosen: np.ndarray) -> Rows:
    """The rows ``chosen`` (int32 [n]) of ``rows``; an empty one for -1."""
    length = np.where(chosen >= 0, rows.ptr[chosen + 1] - rows.ptr[chosen], 0)
    ptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(length, dtype=np.int64)])
    place = np.arange(ptr[-1]) + np.repeat(rows.ptr[chosen] - ptr[:-1], length)
    return Rows(ptr, rows.column[place], rows.value[place])


def _trees(
    found: np.ndarray, derivations: Derivations, edge_number: np.ndarray, edge_score: np.ndarray
) -> list[Derivation]:
    """The derivations ``found`` (int32 [k]) as trees, which share what they have in common."""
    made: dict[int, Derivation] = {}
    waiting = found[::-1].tolist()
    while waiting:
        number = waiting[-1]
        below = [child for child in derivations.child[number].tolist() if child != NONE]
        missing = [child for child in below if child not in made]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        edge = int(edge_number[derivations.edge[number]])
        parts = tuple([made[child] for child in below])
        made[number] = Derivation(edge, parts, float(edge_score[edge]) + sum([part.score for part in parts]))
    return [made[number] for number in found.tolist()]
