"""Models and translations in readable form: rules and features as words, derivations as text, hypergraphs as JSON."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import Derivation, Hypergraph
from mpitune.grammar.sparse import TEMPLATES
from mpitune.grammar.sparse.rules import SUBSCRIPTS
from mpitune.run_folder.model_weights import by_template, difference, largest

MAX_NAMED = 20
"""Maximum number of sparse features listed for a score, and of differences listed for two scores."""
ROUNDING = 1e-9
"""Smaller differences are rounding errors of the order of additions."""


def feature_in_words(template: str, name: str) -> str | None:
    """The sparse feature ``name`` of ``template`` as words, gaps as X₁; None if the name is ambiguous."""
    of = TEMPLATES.get(template)
    return of.in_words(name.removeprefix(of.prefix)) if of else None


def rule_in_words(source: Sequence[str], target: Sequence[str]) -> str:
    """A rule in the same form; its gaps are given as ``[X,1]``."""

    def word(symbol: str) -> str:
        gap = re.fullmatch(r"\[(.+),(\d)\]", symbol)
        return f"{gap[1]}{gap[2]}".translate(SUBSCRIPTS) if gap else symbol

    return f"{' '.join(map(word, source))} → {' '.join(map(word, target))}"


class NamedHypergraph:
    """A hypergraph with feature names and weights."""

    def __init__(self, graph: Hypergraph, weights: np.ndarray, features: FeatureTable) -> None:
        """``weights``: float64 by slot of ``features``; slots past its end count as weight 0."""
        self.graph = graph
        slots = sorted({*graph.feature_index.tolist(), *graph.lm_slot.tolist()})
        names = {slot: features.name(slot) for slot in slots}
        self.weight = {name: float(weights[slot]) if slot < len(weights) else 0.0 for slot, name in names.items()}
        self.lms = [names[slot] for slot in graph.lm_slot.tolist()]
        self.rule_features = [defaultdict[str, float](float) for _ in graph.rules]
        """Feature values of each rule."""
        row = np.repeat(np.arange(len(graph.rules)), np.diff(graph.feature_ptr)).tolist()
        for rule, slot, value in zip(row, graph.feature_index.tolist(), graph.feature_value.tolist(), strict=True):
            self.rule_features[rule][names[slot]] += value

    def lm_features(self, edge: int) -> dict[str, float]:
        """Language model features of an edge."""
        return dict(zip(self.lms, self.graph.edge_lm[edge].tolist(), strict=True))

    def features(self, derivation: Derivation) -> dict[str, float]:
        """Sum of the features of a derivation, by name."""
        total = defaultdict[str, float](float)
        for edge in derivation.edges():
            for fired in (self.rule_features[self.graph.edge_rule[edge]], self.lm_features(edge)):
                for name, value in fired.items():
                    total[name] += value
        return total

    def as_text(self, number: int) -> list[str]:
        """Lines that explain the best translations of sentence ``number``: scores and derivations."""
        lines = [f"sentence {number}: {' '.join(self.graph.source)}", ""]
        fired = [self.features(derivation) for derivation in self.graph.best]
        for j, derivation in enumerate(self.graph.best):
            lines.append(f"translation {j + 1}: {' '.join(self.graph.translation(derivation))}")
            lines.append(f"score: {_short(derivation.score)}")
            lines += self._sum(fired[j])
            if j > 0:
                less = derivation.score - self.graph.best[0].score
                named = self._differences(fired[j], fired[0])
                lines.append(f"against translation 1: {_short(less)}" + (f" ({', '.join(named)})" if named else ""))
            lines.append("derivation:")
            for depth, step in self._steps(derivation):
                lines += [2 * (depth + 1) * " " + line for line in self._step(step)]
            lines.append("")
        return lines

    def as_json(self, number: int) -> str:
        """The hypergraph of sentence ``number`` as one line of JSON."""
        graph = self.graph
        rules = [
            {
                "lhs": rule.lhs,
                # A gap is written as its index among the tails, a number: words are strings.
                "source": [symbol if isinstance(symbol, str) else symbol.number - 1 for symbol in rule.source],
                "target": [symbol if isinstance(symbol, str) else symbol.number - 1 for symbol in rule.target],
                "origin": origin,
                "features": fired,
            }
            for rule, origin, fired in zip(graph.rules, graph.origin, self.rule_features, strict=True)
        ]
        nodes = [
            {"id": i, "category": category, "span": span, "score": score}
            for i, (category, span, score) in enumerate(
                zip(graph.node_category, graph.node_span.tolist(), graph.node_score.tolist(), strict=True)
            )
        ]
        columns = (graph.edge_head, graph.edge_tail, graph.edge_rule, graph.edge_lm, graph.edge_score)
        edges = [
            {
                "head": head,
                "tails": [tail for tail in tails if tail >= 0],
                "rule": rule,
                "features": dict(zip(self.lms, lm, strict=True)),
                "score": score,
            }
            for head, tails, rule, lm, score in zip(*(column.tolist() for column in columns), strict=True)
        ]
        described = {
            "sentence": number,
            "source": graph.source,
            "weights": {name: weight for name, weight in self.weight.items() if weight != 0.0},
            "rules": rules,
            "nodes": nodes,
            "edges": edges,
            "goal": len(nodes) - 1,
            "derivations": [derivation.edges() for derivation in graph.best],
        }
        return json.dumps(described, ensure_ascii=False, separators=(",", ":"))

    def _products(self, fired: dict[str, float]) -> dict[str, float]:
        return {name: value * self.weight[name] for name, value in fired.items()}

    def _sum(self, fired: dict[str, float]) -> list[str]:
        """Lines of a translation's features, largest product first; of sparse ones, at most `MAX_NAMED`."""
        products = {name: one for name, one in self._products(fired).items() if fired[name] != 0.0}
        dense = by_template(products)["dense"]
        sparse = largest({name: one for name, one in products.items() if name not in dense and one != 0.0}, None)
        named = largest({**dense, **dict(sparse[:MAX_NAMED])}, None)
        lines = [f"{_short(one):>12} = {name} {_times(fired[name], self.weight[name])}" for name, one in named]
        if rest := sparse[MAX_NAMED:]:
            lines.append(f"{_short(sum([one for _, one in rest])):>12} = {len(rest)} more sparse features")
        return lines

    def _differences(self, fired: dict[str, float], first: dict[str, float]) -> list[str]:
        """Differences in feature products to the first translation, largest first."""
        products = largest(difference(self._products(fired), self._products(first)), None)
        products = [(name, one) for name, one in products if abs(one) > ROUNDING]
        named = [f"{name} {_short(one)}" for name, one in products[:MAX_NAMED]]
        if rest := products[MAX_NAMED:]:
            named.append(f"{len(rest)} more {_short(sum([one for _, one in rest]))}")
        return named

    def _steps(self, top: Derivation) -> Iterable[tuple[int, Derivation]]:
        """The steps of a derivation with their depths, in pre-order.

        Exception: the left part of a glue rule comes before it, at the same depth: any number of glued phrases follow
        each other at one depth, in sentence order.
        """
        stack = [(0, top, False)]
        while stack:
            depth, derivation, is_visited = stack.pop()
            parts = derivation.parts
            if not is_visited and len(parts) == 2 and self.graph.origin[self.graph.rule_of(derivation)] == "glue":
                stack += [(depth + 1, parts[1], False), (depth, derivation, True), (depth, parts[0], False)]
                continue
            yield depth, derivation
            if not is_visited:
                stack += [(depth + 1, part, False) for part in reversed(parts)]

    def _step(self, derivation: Derivation) -> list[str]:
        """Lines of one step: span, rule and translation; score; feature products of the rule."""
        graph, rule, parts = self.graph, self.graph.rule_of(derivation), derivation.parts
        start, end = graph.node_span[graph.edge_head[derivation.edge]].tolist()
        origin = graph.origin[rule]
        what = f"[{start},{end}) {graph.rules[rule]}"
        if origin != "grammar":
            what += f"  ({origin})"
        elif parts:
            what += f"  => {' '.join(graph.translation(derivation))}"
        own, lm = self.rule_features[rule], self.lm_features(derivation.edge)
        terms = [f"rule {_short(self._score(own))}"] if own else []
        terms += [f"{name} {_short(self._score({name: value}))}" for name, value in lm.items()]
        terms += ["below " + _short(sum([part.score for part in parts]))] if parts else []
        products = [(name, one) for name, one in largest(self._products(own), None) if one != 0.0]
        why = [f"{name} {_times(own[name], self.weight[name])} = {_short(one)}" for name, one in products]
        lines = [what, f"      {_short(derivation.score)} = {' + '.join(terms) or 0}"]
        return [*lines, f"      rule: {', '.join(why)}"] if why else lines

    def _score(self, fired: dict[str, float]) -> float:
        return sum(self._products(fired).values())


def _times(value: float, weight: float) -> str:
    return f"{_short(value)} * {_short(weight)}"


def _short(number: float) -> str:
    # + 0.0 turns -0 into 0.
    return f"{number + 0.0:.6g}"
