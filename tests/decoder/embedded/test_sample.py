"""Sampled lists: against a plain twin that draws from the hypergraph, and against the exact distribution."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.decoder_case import Case
from support.uncompiled import seeds

from mpitune.decoder.base import Derivation, Hypergraph, KBest


def inside_sums(graph: Hypergraph) -> list[float]:
    """For each node, the sum over its derivations of exp(score)."""
    sums: list[float] = [0.0] * len(graph.node_score)
    for edge, head in enumerate(graph.edge_head.tolist()):
        sums[head] += math.exp(graph.edge_score[edge]) * math.prod(sums[t] for t in tails_of(graph, edge))
    return sums


def tails_of(graph: Hypergraph, edge: int) -> list[int]:
    return [tail for tail in graph.edge_tail[edge].tolist() if tail >= 0]


def edges_of(graph: Hypergraph, node: int) -> list[int]:
    return np.flatnonzero(graph.edge_head == node).tolist()


def longest(graph: Hypergraph) -> int:
    """The most edges of a derivation."""
    size: list[int] = []
    for node in range(len(graph.node_score)):
        size.append(max(1 + sum(size[t] for t in tails_of(graph, edge)) for edge in edges_of(graph, node)))
    return size[-1]


def draw(graph: Hypergraph, sums: list[float], numbers: list[float]) -> Derivation:
    """A derivation by these random numbers, one for each edge: breadth first."""
    chosen: dict[int, int] = {}
    queue = [len(sums) - 1]
    parts: list[list[int]] = []
    for place, number in enumerate(numbers):
        if place == len(queue):
            break
        edges = edges_of(graph, queue[place])
        worth = [math.exp(graph.edge_score[e]) * math.prod(sums[t] for t in tails_of(graph, e)) for e in edges]
        reached = np.cumsum(worth) / sum(worth)
        chosen[place] = edges[min(int(np.searchsorted(reached, number, side="right")), len(edges) - 1)]
        tails = tails_of(graph, chosen[place])
        parts.append(list(range(len(queue), len(queue) + len(tails))))
        queue += tails

    def derivation(place: int) -> Derivation:
        below = tuple(derivation(part) for part in parts[place])
        return Derivation(chosen[place], below, graph.edge_score[chosen[place]] + sum(part.score for part in below))

    return derivation(0)


def texts(case: Case, kbest: KBest) -> list[str]:
    return [" ".join(case.vocabulary.decode(kbest.translation(j))) for j in range(kbest.size)]


@pytest.mark.kernel
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("seed", seeds(12))
def test_samples_are_those_of_the_plain_twin(tmp_path: Path, seed: int, unique: bool) -> None:
    case = Case(tmp_path, seed, orders=(2, 3) if seed % 2 else (2,), templates=("id",))
    words = case.some_words(5, 400)
    decoder, random = case.decoder(pop_limit=20, unique=unique), np.random.default_rng(seed)
    weights = random.normal(size=len(decoder.features)) * random.choice([0.0, 0.3, 2.0])
    sentence = case.sentence(words)
    found = decoder.sample(sentence, weights, 40, np.random.default_rng(seed))
    graph = decoder.forest(sentence, weights)
    numbers, sums = np.random.default_rng(seed).random((40, longest(graph))), inside_sums(graph)
    drawn = [draw(graph, sums, row) for row in numbers.tolist()]
    drawn.sort(key=lambda each: -each.score)
    expected = [(" ".join(graph.translation(each)), each.score) for each in drawn]
    if unique:
        best = dict(reversed(expected))
        expected = [(text, best[text]) for text in dict.fromkeys(text for text, _ in expected)]
    assert found.score.tolist() == pytest.approx([score for _, score in expected])
    # Among equal scores, rounding decides on the order.
    assert Counter(texts(case, found)) == Counter(text for text, _ in expected)
    assert (np.diff(found.score) <= 1e-9).all()
    again = decoder.sample(sentence, weights, 40, np.random.default_rng(seed))
    assert all((a == b).all() for a, b in zip(found, again, strict=True)), "the same seed, the same bits"


def test_frequencies_are_the_probabilities(tmp_path: Path) -> None:
    """Of all derivations of a small forest, which a long list enumerates."""
    case = Case(tmp_path, 3)
    decoder, random = case.decoder(unique=False), np.random.default_rng(3)
    weights = random.normal(size=len(decoder.features)) * 0.5
    sentence = case.sentence(case.some_words(5, 60))
    every = decoder.decode(sentence, weights, 3000)
    assert 5 <= every.size < 3000
    drawn = decoder.sample(sentence, weights, 20000, random)
    p = np.exp(every.score - every.score.max())
    expected, counts = Counter[float](), Counter(np.round(drawn.score, 6).tolist())
    for score, share in zip(np.round(every.score, 6).tolist(), (p / p.sum()).tolist(), strict=True):
        expected[score] += share
    assert counts.keys() <= expected.keys()
    for score, share in expected.items():
        assert abs(counts[score] / 20000 - share) < 5 * math.sqrt(share * (1 - share) / 20000) + 1e-12


def test_a_sentence_of_no_words(tmp_path: Path) -> None:
    case = Case(tmp_path, 1)
    found = case.decoder().sample(case.sentence([]), np.zeros(1), 5, np.random.default_rng(1))
    assert found.size == 1 and len(found.word) == 0
