"""Checks of hypergraphs in JSON: scores, features and translations follow from their edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.naive_decoder import Features, dot

Json = dict[str, Any]


def viterbi(described: Json) -> list[float]:
    """The best score of each node, from nothing but the JSON."""
    best = [-np.inf] * len(described["nodes"])
    for edge in described["edges"]:
        score = edge["score"] + sum(best[tail] for tail in edge["tails"])
        best[edge["head"]] = max(score, best[edge["head"]])
    return best


def text_of(described: Json, edge: Json, parts: Sequence[Sequence[str]]) -> list[str]:
    target = described["rules"][edge["rule"]]["target"]
    return [word for symbol in target for word in ([symbol] if isinstance(symbol, str) else parts[symbol])]


def translation_of(described: Json, edges: Iterator[int]) -> list[str]:
    """The translation of the derivation that ``edges`` goes on with."""
    edge = described["edges"][next(edges)]
    return text_of(described, edge, [translation_of(described, edges) for _ in edge["tails"]])


def features_of(described: Json, edge: Json) -> Features:
    fired = Counter(described["rules"][edge["rule"]]["features"])
    fired.update(edge["features"])
    return dict(fired)


def check_json(described: Json, words: Sequence[str], weights: Features) -> None:
    assert list(described) == ["sentence", "source", "weights", "rules", "nodes", "edges", "goal", "derivations"]
    nodes, edges = described["nodes"], described["edges"]
    assert described["source"] == list(words)
    assert [node["id"] for node in nodes] == list(range(len(nodes)))
    assert described["goal"] == len(nodes) - 1
    assert nodes[-1]["category"] == "Goal" and nodes[-1]["span"] == [0, len(words)]
    assert [edge["head"] for edge in edges] == sorted(edge["head"] for edge in edges)
    assert {edge["head"] for edge in edges} == set(range(len(nodes))), "no node without an edge"
    used = {tail for edge in edges for tail in edge["tails"]}
    assert used == set(range(len(nodes) - 1)), "no node that the goal does not reach, but for itself"
    assert {edge["rule"] for edge in edges} == set(range(len(described["rules"])))
    assert described["weights"].items() <= weights.items()
    for edge in edges:
        rule = described["rules"][edge["rule"]]
        assert rule["lhs"] == nodes[edge["head"]]["category"]
        for side in (rule["source"], rule["target"]):
            assert sorted(s for s in side if isinstance(s, int)) == list(range(len(edge["tails"])))
        assert all(0 <= tail < edge["head"] for tail in edge["tails"]), "bottom-up"
        start, end = nodes[edge["head"]]["span"]
        place = start
        for symbol in rule["source"]:
            if isinstance(symbol, str):
                assert words[place] == symbol
                place += 1
            else:
                assert nodes[edge["tails"][symbol]]["span"][0] == place
                place = nodes[edge["tails"][symbol]]["span"][1]
        assert place == end
        assert edge["score"] == pytest.approx(dot(weights, features_of(described, edge)), abs=1e-9)
    best = viterbi(described)
    assert [node["score"] for node in nodes] == pytest.approx(best, abs=1e-9)
    for derivation in described["derivations"][:1]:
        assert sum(edges[edge]["score"] for edge in derivation) == pytest.approx(best[-1], abs=1e-9)


def close(number: float) -> Any:
    """As near as sums of printed numbers come."""
    return pytest.approx(number, rel=1e-4, abs=1e-3)
