"""Why this translation? Derivations as indented text, hypergraphs as JSON (jobs/README.md, "Why this translation?")."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from mpitune.corpus.vocabulary import FeatureTable
from mpitune.decoder.base import Derivation, Hypergraph
from mpitune.run_folder.model_weights import chosen, difference, largest

MOST_NAMED = 20
"""How many sparse features are named where a score is told apart, and how many differences between two."""
ROUNDING = 1e-9
"""A difference that tells nothing but in which order numbers were added."""


class NamedHypergraph:
    """A hypergraph, its features by name, with their weights."""

    def __init__(self, graph: Hypergraph, weights: np.ndarray, features: FeatureTable) -> None:
        """``weights``: float64 by slot of ``features``; slots past its end count as weight 0."""
        self.graph = graph
        slots = sorted({*graph.feature_index.tolist(), *graph.lm_slot.tolist()})
        names = {slot: features.name(slot) for slot in slots}
        self.weight = {name: float(weights[slot]) if slot < len(weights) else 0.0 for slot, name in names.items()}
        self.lms = [names[slot] for slot in graph.lm_slot.tolist()]
        self.rule_features: list[dict[str, float]] = [{} for _ in graph.rules]
        """What each rule fires."""
        row = np.repeat(np.arange(len(graph.rules)), np.diff(graph.feature_ptr)).tolist()
        for rule, slot, value in zip(row, graph.feature_index.tolist(), graph.feature_value.tolist(), strict=True):
            _add(self.rule_features[rule], names[slot], value)

    def lm_features(self, edge: int) -> dict[str, float]:
        """What an edge adds to the features of its rule."""
        return dict(zip(self.lms, self.graph.edge_lm[edge].tolist(), strict=True))

    def features(self, derivation: Derivation) -> dict[str, float]:
        """All that a derivation fires, by name."""
        total: dict[str, float] = {}
        for edge in derivation.edges():
            for fired in (self.rule_features[self.graph.edge_rule[edge]], self.lm_features(edge)):
                for name, value in fired.items():
                    _add(total, name, value)
        return total

    def as_text(self, number: int) -> list[str]:
        """The lines that tell how the best translations of sentence ``number`` came about."""
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
                # A gap is its place among the tails: no word can be taken for one.
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
        """A translation's features, the largest product first; only some of the sparse ones."""
        products = {name: one for name, one in self._products(fired).items() if fired[name] != 0.0}
        dense = chosen(products, "dense", None)
        sparse = largest({name: one for name, one in products.items() if name not in dense and one != 0.0}, None)
        named = largest({**dense, **dict(sparse[:MOST_NAMED])}, None)
        lines = [f"{_short(one):>12} = {name} {_times(fired[name], self.weight[name])}" for name, one in named]
        if rest := sparse[MOST_NAMED:]:
            lines.append(f"{_short(sum([one for _, one in rest])):>12} = {len(rest)} more sparse features")
        return lines

    def _differences(self, fired: dict[str, float], first: dict[str, float]) -> list[str]:
        """Where a translation scores otherwise than the first, the largest differences first."""
        products = largest(difference(self._products(fired), self._products(first)), None)
        products = [(name, one) for name, one in products if abs(one) > ROUNDING]
        named = [f"{name} {_short(one)}" for name, one in products[:MOST_NAMED]]
        if rest := products[MOST_NAMED:]:
            named.append(f"{len(rest)} more {_short(sum([one for _, one in rest]))}")
        return named

    def _steps(self, top: Derivation) -> Iterable[tuple[int, Derivation]]:
        """The steps of a derivation with their depths, each before its parts.

        But what a phrase is glued to comes before it at the same depth: glued phrases follow each other as they do in
        the sentence, however many there are.
        """
        waiting = [(0, top, False)]
        while waiting:
            depth, derivation, is_due = waiting.pop()
            parts = derivation.parts
            if not is_due and len(parts) == 2 and self.graph.origin[self.graph.rule_of(derivation)] == "glue":
                waiting += [(depth + 1, parts[1], False), (depth, derivation, True), (depth, parts[0], False)]
                continue
            yield depth, derivation
            if not is_due:
                waiting += [(depth + 1, part, False) for part in reversed(parts)]

    def _step(self, derivation: Derivation) -> list[str]:
        """Which rule covers which words and makes what of them; what that scores, and why."""
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


def _add(total: dict[str, float], name: str, value: float) -> None:
    total[name] = total.get(name, 0.0) + value


def _times(value: float, weight: float) -> str:
    return f"{_short(value)} * {_short(weight)}"


def _short(number: float) -> str:
    # Not -0, which means nothing to anyone.
    return f"{number + 0.0:.6g}"
