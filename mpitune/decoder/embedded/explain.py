"""Conversion of the forest to a `Hypergraph` with readable rules, and of the k best derivations to trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.decoder.base import Derivation, Hypergraph, TranslationModel
from mpitune.decoder.embedded.chart import GLUE_TWO, PASS_THROUGH, VERTICES, Chart
from mpitune.decoder.embedded.forest import NODES, Forest
from mpitune.decoder.embedded.kbest import NONE, Derivations
from mpitune.decoder.embedded.matched import MatchedRules
from mpitune.decoder.embedded.packed import pack, reachable
from mpitune.grammar.rules import Rules
from mpitune.grammar.sparse import Gap, Rule
from mpitune.grammar.templates import GLUE, as_symbols, pass_through

GOAL_LABEL = "Goal"
"""Category of the goal node; its only rule adds the sentence boundaries, which the language models score."""


def hypergraph(
    model: TranslationModel,
    grammar: Rules,
    source: Sequence[str],
    chart: Chart,
    matched: MatchedRules,
    forest: Forest,
    found: tuple[np.ndarray, Derivations],
    lm_slot: np.ndarray,
    weights: np.ndarray,
) -> Hypergraph:
    """The part of ``forest`` reachable from the goal, with the derivations ``found`` (of `kbest.best_derivations`).

    ``grammar``: the open grammar; ``source``: the source words; ``chart``: the forest without LMs, which gives spans
    and categories; ``matched``: the rules of ``forest``; ``lm_slot``: int32 [LMs], slots of the LMs' features;
    ``weights``: float64 by slot, 0 past the end.
    """
    nodes, edges = forest.size.tolist()
    part = reachable(forest)
    packed = pack(forest, matched, part, lm_slot)
    rules = [rule_of(model, grammar, source, chart, matched, number) for number in part.rule.tolist()[1:]]
    edge_lm = packed.edge_lm.astype(np.float64)
    # Features that the sentence added are past the end of the weights.
    weights = grow_to(weights, int(packed.feature_index.max(initial=0)) + 1)
    products = weights[packed.feature_index] * packed.feature_value
    rule_score = np.bincount(
        np.repeat(np.arange(len(part.rule)), np.diff(packed.feature_ptr)), products, len(part.rule)
    )
    edge_score = rule_score[packed.edge_rule] + (edge_lm * weights[lm_slot]).sum(axis=1)
    span, category = _spans_and_categories(chart, forest)
    edge_number = np.full(edges, -1, dtype=np.int64)
    edge_number[part.edge] = np.arange(len(part.edge))
    return Hypergraph(
        source=source,
        node_span=span[part.node],
        node_category=[*(model.categories[c] for c in category[part.node[:-1]].tolist()), GOAL_LABEL],
        node_score=forest.node_score[:nodes][part.node],
        edge_head=np.repeat(np.arange(len(packed.edge_ptr) - 1, dtype=np.int32), np.diff(packed.edge_ptr)),
        edge_tail=packed.edge_tail,
        edge_rule=packed.edge_rule,
        edge_lm=edge_lm,
        edge_score=edge_score,
        lm_slot=lm_slot,
        rules=[Rule(GOAL_LABEL, [Gap("S", 1)], [Gap("S", 1)]), *(rule for rule, _ in rules)],
        origin=["goal", *(origin for _, origin in rules)],
        feature_ptr=packed.feature_ptr,
        feature_index=packed.feature_index,
        feature_value=packed.feature_value,
        best=_trees(*found, edge_number, edge_score),
    )


def empty_hypergraph(lm_slot: np.ndarray, k: int) -> Hypergraph:
    """The hypergraph of a sentence of no words: the goal alone, and its derivation if ``k`` > 0."""
    none = np.zeros(0, dtype=np.int32)
    return Hypergraph(
        source=[],
        node_span=np.zeros((1, 2), dtype=np.int32),
        node_category=[GOAL_LABEL],
        node_score=np.zeros(1),
        edge_head=np.zeros(1, dtype=np.int32),
        edge_tail=np.full((1, 2), -1, dtype=np.int32),
        edge_rule=np.zeros(1, dtype=np.int32),
        edge_lm=np.zeros((1, len(lm_slot))),
        edge_score=np.zeros(1),
        lm_slot=lm_slot,
        rules=[Rule(GOAL_LABEL, [], [])],
        origin=["goal"],
        feature_ptr=np.zeros(2, dtype=np.int64),
        feature_index=none,
        feature_value=np.zeros(0),
        best=[Derivation(0, (), 0.0)][:k],
    )


def _spans_and_categories(chart: Chart, forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    """The span of each node (int32 [nodes, 2]), and the category of each node except the goal (int32 [nodes - 1])."""
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


def rule_of(
    model: TranslationModel, grammar: Rules, source: Sequence[str], chart: Chart, matched: MatchedRules, number: int
) -> tuple[Rule, str]:
    """Matched rule ``number``, and its origin as in `Hypergraph.origin`."""
    group = int(np.searchsorted(matched.group_ptr, number, side="right")) - 1
    if group <= GLUE_TWO:
        return GLUE[group], "glue"
    if group < PASS_THROUGH + len(source):
        return pass_through(source[group - PASS_THROUGH]), "pass-through"
    rule = chart.group_rule[group, 0] + number - matched.group_ptr[group]
    return as_symbols(grammar.types, int(grammar.type[rule]), model.categories, model.words.words), "grammar"


def _trees(
    found: np.ndarray, derivations: Derivations, edge_number: np.ndarray, edge_score: np.ndarray
) -> list[Derivation]:
    """The derivations ``found`` (int32 [k]) as trees with shared subtrees.

    ``edge_number``: int64 [edges of the forest], indices in the hypergraph; ``edge_score``: float64 [edges].
    """
    tree: dict[int, Derivation] = {}
    stack = found[::-1].tolist()
    while stack:
        number = stack[-1]
        subderivations = [child for child in derivations.subderivation[number].tolist() if child != NONE]
        missing = [child for child in subderivations if child not in tree]
        if missing:
            stack += missing
            continue
        stack.pop()
        edge = int(edge_number[derivations.edge[number]])
        parts = tuple([tree[child] for child in subderivations])
        tree[number] = Derivation(edge, parts, float(edge_score[edge]) + sum([part.score for part in parts]))
    return [tree[number] for number in found.tolist()]
