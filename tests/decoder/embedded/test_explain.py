"""Derivations and hypergraphs: what they show is what the decoder did."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from support.decoder_case import EVERYTHING, Case, by_slot, entries, same_features
from support.forest_json import Json, check_json, close, features_of, text_of, translation_of, viterbi
from support.naive_decoder import Features, Translation
from support.uncompiled import seeds

from mpitune.decoder.base import Derivation, Hypergraph
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.report.readable import NamedHypergraph

kernel = pytest.mark.kernel


def some_case(folder: Path, seed: int) -> Case:
    orders = [1 + seed % 4] if seed % 3 else [1 + seed % 4, 3]
    templates = ["id", "source-bigram", "shape"] if seed % 2 else []
    return Case(folder, 900 + seed, orders=orders, templates=templates, span_limit=[2, 15][seed // 4 % 2])


def forest(
    case: Case, decoder: EmbeddedDecoder, words: Sequence[str], weights: Features, k: int, grammar: int = 0
) -> NamedHypergraph:
    vector = by_slot(decoder, weights)
    graph = decoder.forest(case.sentence(words, grammar), vector, k)
    return NamedHypergraph(graph, vector, decoder.features)


def check_tree(graph: Hypergraph, derivation: Derivation) -> None:
    """Every rule's source side lies over the words of its span, its gaps over what fills them."""
    rule = graph.rules[graph.rule_of(derivation)]
    head = graph.edge_head[derivation.edge]
    assert rule.lhs == graph.node_category[head]
    place, end = graph.node_span[head].tolist()
    heads = [graph.edge_head[part.edge] for part in derivation.parts]
    assert heads == [tail for tail in graph.edge_tail[derivation.edge].tolist() if tail >= 0]
    for symbol in rule.source:
        if isinstance(symbol, str):
            assert graph.source[place] == symbol
            place += 1
        else:
            inner = heads[symbol.number - 1]
            assert graph.node_category[inner] == symbol.label
            assert graph.node_span[inner, 0] == place
            place = graph.node_span[inner, 1]
    assert place == end
    for part in derivation.parts:
        check_tree(graph, part)
    below = sum(part.score for part in derivation.parts)
    assert derivation.score == pytest.approx(graph.edge_score[derivation.edge] + below, abs=1e-9)


@kernel
@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("unique", [True, False])
def test_derivations_are_those_of_the_list(tmp_path: Path, seed: int, unique: bool) -> None:
    case = some_case(tmp_path, seed)
    words = case.some_words(20, 300)
    decoder = case.decoder([5, EVERYTHING][seed % 2], unique)
    weights = case.weights(decoder, words)
    listed = entries(case, decoder, decoder.decode(case.sentence(words), by_slot(decoder, weights), 30))
    named = forest(case, decoder, words, weights, 30)
    graph = named.graph
    assert list(graph.source) == words
    assert len(graph.best) == len(listed)
    for derivation, (text, score, fired) in zip(graph.best, listed, strict=True):
        check_tree(graph, derivation)
        assert graph.node_span[graph.edge_head[derivation.edge]].tolist() == [0, len(words)]
        assert tuple(graph.translation(derivation)) == text
        assert derivation.score == pytest.approx(score, abs=1e-9)
        assert derivation.score == pytest.approx(graph.edge_score[derivation.edges()].sum(), abs=1e-9)
        ours = named.features(derivation)
        assert {name: value for name, value in ours.items() if value} == pytest.approx(
            {name: value for name, value in fired.items() if value}, abs=1e-9
        )


@kernel
def test_rules_and_where_they_come_from(tmp_path: Path) -> None:
    case = some_case(tmp_path, 1)
    words = [*case.some_words(20, 300), "new", "[X,1]"]
    decoder = case.decoder()
    graph = forest(case, decoder, words, {}, 0).graph
    lines = {str(line.rule) for line in case.grammars[0]}
    assert graph.best == []
    assert (graph.origin[0], str(graph.rules[0])) == ("goal", "[Goal] ||| [S,1] ||| [S,1]")
    glue = [str(rule) for rule, origin in zip(graph.rules, graph.origin, strict=True) if origin == "glue"]
    assert glue == ["[S] ||| [X,1] ||| [X,1]", "[S] ||| [S,1] [X,2] ||| [S,1] [X,2]"]
    through = [str(rule) for rule, origin in zip(graph.rules, graph.origin, strict=True) if origin == "pass-through"]
    assert {"[X] ||| new ||| new", "[X] ||| [X,1] ||| [X,1]"} <= set(through)
    others = {str(rule) for rule, origin in zip(graph.rules, graph.origin, strict=True) if origin == "grammar"}
    assert others and others <= lines


def all_derivations(described: Json) -> list[tuple[Translation, Features]]:
    """Translation and features of every derivation of the goal."""
    found: list[list[tuple[Translation, Counter[str]]]] = [[] for _ in described["nodes"]]
    for edge in described["edges"]:
        for parts in product(*(found[tail] for tail in edge["tails"])):
            fired = Counter(features_of(described, edge))
            for _, below in parts:
                fired.update(below)
            text = text_of(described, edge, [text for text, _ in parts])
            found[edge["head"]].append((tuple(text), fired))
    return [(text, dict(fired)) for text, fired in found[-1]]


@kernel
@pytest.mark.parametrize("seed", seeds(8))
def test_hypergraph_in_json(tmp_path: Path, seed: int) -> None:
    case = some_case(tmp_path, seed)
    words = case.some_words(20, 300)
    decoder = case.decoder()
    weights = case.weights(decoder, words)
    line = forest(case, decoder, words, weights, 3).as_json(7)
    assert "\n" not in line
    described = json.loads(line)
    assert described["sentence"] == 7
    check_json(described, words, weights)
    listed = entries(case, decoder, decoder.decode(case.sentence(words), by_slot(decoder, weights), 3))
    assert viterbi(described)[-1] == pytest.approx(listed[0][1], abs=1e-6)
    derivations = [tuple(translation_of(described, iter(edges))) for edges in described["derivations"]]
    assert derivations == [text for text, _, _ in listed]
    # With no pop limit to speak of, every derivation is there.
    expected = case.naive().derivations(words)
    ours = all_derivations(described)
    assert Counter(text for text, _ in ours) == Counter(text for text, _ in expected)
    for text, fired in ours:
        assert any(text == other and same_features(fired, row) for other, row in expected)


@kernel
@pytest.mark.parametrize("pop_limit", [1, 3, 10])
def test_pruned_hypergraph(tmp_path: Path, pop_limit: int) -> None:
    case = some_case(tmp_path, pop_limit)
    words = case.some_words(100, 1000)
    decoder = case.decoder(pop_limit)
    weights = case.weights(decoder, words)
    check_json(json.loads(forest(case, decoder, words, weights, 3).as_json(0)), words, weights)


@kernel
def test_an_empty_sentence_has_an_empty_derivation(tmp_path: Path) -> None:
    case = some_case(tmp_path, 0)
    decoder = case.decoder()
    named = forest(case, decoder, [], {}, 3)
    described = json.loads(named.as_json(0))
    check_json(described, [], {})
    assert viterbi(described) == [0.0]
    assert described["derivations"] == [[0]]
    assert named.as_text(0)[2:4] == ["translation 1: ", "score: 0"]


@kernel
def test_words_that_look_like_gaps(tmp_path: Path) -> None:
    case = some_case(tmp_path, 0)
    words = ["[X,1]", "a", "|||"]
    decoder = case.decoder()
    weights = case.weights(decoder, words)
    check_json(json.loads(forest(case, decoder, words, weights, 1).as_json(0)), words, weights)


@kernel
def test_each_sentence_has_its_own_grammar(tmp_path: Path) -> None:
    grammars = [some_case(tmp_path, seed).grammars[0] for seed in (0, 2)]
    grammars = [[line for line in grammar if any(isinstance(s, str) for s in line.rule.source)] for grammar in grammars]
    case = Case(tmp_path, 950, grammars)
    decoder = case.decoder()
    for grammar in (0, 1, 0):
        words = case.some_words(10, 200, grammar)
        weights = case.weights(decoder, words, grammar)
        described = json.loads(forest(case, decoder, words, weights, 1, grammar).as_json(0))
        check_json(described, words, weights)
        expected = case.naive(grammar).derivations(words)
        assert Counter(text for text, _ in all_derivations(described)) == Counter(text for text, _ in expected)


# As text


class Step:
    """What the text says of one step, and the steps under it."""

    def __init__(self, line: str, depth: int) -> None:
        self.depth = depth
        found = re.fullmatch(r"\[(\d+),(\d+)\) \[(\S+)\] \|\|\| (.*?) \|\|\| (.*?)(  \(\S+\)|  => .*)?", line)
        assert found, line
        self.span = int(found[1]), int(found[2])
        self.mark = (found[6] or "").strip()
        self.total = 0.0
        self.terms: dict[str, float] = {}
        self.rule: list[tuple[str, float, float, float]] = []


def read_text(lines: Sequence[str]) -> Iterator[tuple[str, float, dict[str, float], list[Step]]]:
    """Translation, score, products and steps of each explained translation."""
    text, score, products, steps = "", 0.0, {}, []
    for line in lines:
        if line.startswith("translation "):
            text, products, steps = line.split(": ", 1)[1], {}, []
        elif line.startswith("score: "):
            score = float(line.split()[1])
        elif found := re.fullmatch(r" *(\S+) = (\S+) (\S+) \* (\S+)", line):
            assert float(found[1]) == close(float(found[3]) * float(found[4]))
            products[found[2]] = float(found[1])
        elif found := re.fullmatch(r" *(\S+) = (\d+ more sparse features)", line):
            products[found[2]] = float(found[1])
        elif line.startswith("  ") and line.lstrip().startswith("["):
            depth = (len(line) - len(line.lstrip())) // 2
            steps.append(Step(line.lstrip(), depth))
        elif found := re.fullmatch(r" +rule: (.*)", line):
            for one in found[1].split(", "):
                name, value, _, weight, _, made = one.rsplit(" ", 5)
                steps[-1].rule.append((name, float(value), float(weight), float(made)))
        elif found := re.fullmatch(r" +(\S+) = (.*)", line):
            steps[-1].total = float(found[1])
            terms = [term.rsplit(" ", 1) for term in found[2].split(" + ")]
            steps[-1].terms = {name: float(value) for name, value in terms}
        elif not line and steps:
            yield text, score, products, steps


@kernel
@pytest.mark.parametrize("seed", range(4))
def test_text_adds_up(tmp_path: Path, seed: int) -> None:
    case = some_case(tmp_path, seed)
    words = case.some_words(20, 300)
    decoder = case.decoder()
    weights = case.weights(decoder, words)
    named = forest(case, decoder, words, weights, 5)
    lines = named.as_text(3)
    assert lines[:2] == [f"sentence 3: {' '.join(words)}", ""]
    explained = list(read_text(lines))
    assert len(explained) == len(named.graph.best) > 1
    for (text, score, products, steps), derivation in zip(explained, named.graph.best, strict=True):
        assert text == " ".join(named.graph.translation(derivation))
        assert score == close(derivation.score) == close(sum(products.values()))
        assert len(steps) == len(derivation.edges())
        assert (steps[0].mark, steps[0].span, steps[0].total) == ("(goal)", (0, len(words)), score)
        below_all = 0.0
        for step in steps:
            assert step.total == close(sum(step.terms.values()))
            assert step.terms.get("rule", 0.0) == close(sum(made for *_, made in step.rule))
            assert all(made == close(value * weight) for _, value, weight, made in step.rule)
            sizes = [abs(made) for *_, made in step.rule]
            assert sizes == sorted(sizes, reverse=True)
            below_all += step.total - step.terms.get("below", 0.0)
        assert below_all == pytest.approx(score, abs=1e-2)
    against = [line for line in lines if line.startswith("against translation 1: ")]
    assert len(against) == len(explained) - 1
    for line, (_, score, _, _) in zip(against, explained[1:], strict=True):
        less = float(line.split()[3])
        assert less == close(score - explained[0][1])
        inside = [one.rsplit(" ", 1) for one in line.split("(", 1)[1][:-1].split(", ")]
        assert sum(float(value) for _, value in inside) == pytest.approx(less, abs=1e-2)


@kernel
def test_glued_phrases_follow_the_sentence(tmp_path: Path) -> None:
    case = Case(tmp_path, 960, [[]])
    named = forest(case, case.decoder(), ["a", "b", "c"], {}, 1)
    shown = [line for line in named.as_text(0) if line.lstrip().startswith("[")]
    glue = "[S] ||| [S,1] [X,2] ||| [S,1] [X,2]  (glue)"
    assert shown == [
        "  [0,3) [Goal] ||| [S,1] ||| [S,1]  (goal)",
        "    [0,1) [S] ||| [X,1] ||| [X,1]  (glue)",
        "      [0,1) [X] ||| a ||| a  (pass-through)",
        f"    [0,2) {glue}",
        "      [1,2) [X] ||| b ||| b  (pass-through)",
        f"    [0,3) {glue}",
        "      [2,3) [X] ||| c ||| c  (pass-through)",
    ]


def test_a_derivation_as_deep_as_the_longest_sentence(tmp_path: Path) -> None:
    case = Case(tmp_path, 961, [[]], span_limit=1)
    decoder = case.decoder(5)
    words = [f"w{i}" for i in range(1500)]
    named = forest(case, decoder, words, {}, 1)
    [derivation] = named.graph.best
    assert named.graph.translation(derivation) == words
    assert len(derivation.edges()) == 1 + 2 * len(words)
    assert len(named.as_text(0)) > 2 * len(words)
    assert json.loads(named.as_json(0))["derivations"] == [derivation.edges()]
