"""The decoder against a listing of all derivations, on small random grammars and language models."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.decoder_case import EVERYTHING, SOURCES, TARGETS, Case, by_slot, entries, same, same_features
from support.naive_decoder import Line, dot, random_grammar
from support.uncompiled import seeds

from mpitune.decoder.base import KBest
from mpitune.decoder.embedded import cube, decoder, kbest
from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.decoder.embedded.forest import Forest
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import Rules
from mpitune.grammar.sparse import Gap, Rule, template_names
from mpitune.grammar.templates import GLUE, features, pass_through

TEMPLATES = template_names(of_lists=False)

pytestmark = pytest.mark.kernel


def check_all(case: Case, words: Sequence[str], unique: bool = True, grammar: int = 0) -> None:
    """The list of all derivations, or of the best one for each translation, is what the plain decoder finds."""
    decoder = case.decoder(unique=unique)
    weights = case.weights(decoder, words, grammar)
    vector = by_slot(decoder, weights)
    kbest = decoder.decode(case.sentence(words, grammar), vector, EVERYTHING)
    expected = case.naive(grammar).best(words, weights)
    best = {text: ways[:1] if unique else ways for text, ways in expected.items()}
    assert sum(map(len, best.values())) < EVERYTHING
    listed = entries(case, decoder, kbest)
    assert sorted(text for text, _, _ in listed) == sorted(text for text, ways in best.items() for _ in ways)
    scores = sorted((score for ways in best.values() for score, _ in ways), reverse=True)
    assert [score for _, score, _ in listed] == pytest.approx(scores, rel=1e-6, abs=1e-5)
    for text, score, fired in listed:
        assert score == pytest.approx(dot(weights, fired), abs=1e-6)
        assert any(
            score == pytest.approx(value, rel=1e-6, abs=1e-5) and same_features(fired, row)
            for value, row in expected[text]
        )


@pytest.mark.parametrize("seed", seeds(24))
def test_finds_all_translations(tmp_path: Path, seed: int) -> None:
    orders = [1 + seed % 4] if seed % 3 else [1 + seed % 4, 3]
    templates = ["id", "source-bigram", "shape"] if seed % 2 else []
    case = Case(tmp_path, seed, orders=orders, templates=templates, span_limit=[1, 2, 3, 15][seed // 4 % 4])
    check_all(case, case.some_words(1, 100))
    check_all(case, case.some_words(20, 200))
    check_all(case, case.some_words(50, 500))


@pytest.mark.parametrize("seed", seeds(4))
def test_finds_all_derivations(tmp_path: Path, seed: int) -> None:
    case = Case(tmp_path, 100 + seed, orders=[1 + seed])
    check_all(case, case.some_words(10, 100), unique=False)
    check_all(case, case.some_words(50, 500), unique=False)


def check_sound(
    case: Case, decoder: EmbeddedDecoder, words: Sequence[str], weights: dict[str, float], k: int = 100
) -> KBest:
    """Each entry is a derivation, with its features and its score; returns the list."""
    listed = decoder.decode(case.sentence(words), by_slot(decoder, weights), k)
    ways = case.naive().best(words, weights)
    texts = []
    for text, score, fired in entries(case, decoder, listed):
        texts.append(text)
        assert score == pytest.approx(dot(weights, fired), abs=1e-6)
        assert any(same_features(fired, row) for _, row in ways[text])
    assert len(set(texts)) == len(texts)
    assert 1 <= len(texts) <= k
    return listed


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("pop_limit", [1, 2, 7])
@pytest.mark.parametrize("rule_margin", [0.0, 2.0])
def test_low_pop_limits_give_sound_lists(tmp_path: Path, seed: int, pop_limit: int, rule_margin: float) -> None:
    case = Case(tmp_path, 200 + seed, orders=[1 + seed, 2])
    words = case.some_words(50, 500)
    decoder = case.decoder(pop_limit, rule_margin=rule_margin)
    check_sound(case, decoder, words, case.weights(decoder, words))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["Glue", "WordPenalty", "LanguageModel", "PassThrough"])
def test_weights_that_are_no_numbers_do_no_harm(tmp_path: Path, name: str, bad: float) -> None:
    """They are told by whoever learns; a search with them must end, and stay within its arrays."""
    case = Case(tmp_path, 250)
    words = case.some_words(50, 500)
    decoder = case.decoder(pop_limit=20)
    weights = {**case.weights(decoder, words), name: bad}
    with np.errstate(invalid="ignore"):
        found = decoder.decode(case.sentence(words), by_slot(decoder, weights), 30)
    assert 0 < found.size <= 30


@pytest.mark.parametrize("seed", seeds(4))
def test_short_lists_are_the_heads_of_long_ones(tmp_path: Path, seed: int) -> None:
    case = Case(tmp_path, 300 + seed)
    words = case.some_words(50, 500)
    decoder = case.decoder()
    weights = case.weights(decoder, words)
    long = check_sound(case, decoder, words, weights, EVERYTHING)
    for k in (1, 2, 5):
        short = check_sound(case, decoder, words, weights, k)
        assert short.size == min(k, long.size)
        for ours, whole in (
            (short.word, long.word),
            (short.score, long.score),
            (short.feature_value, long.feature_value),
        ):
            assert np.array_equal(ours, whole[: len(ours)])


@pytest.mark.parametrize("unique", [True, False])
def test_zero_weights_give_the_same_list_always(tmp_path: Path, unique: bool) -> None:
    case = Case(tmp_path, 400, orders=[3])
    words = case.some_words(50, 500)
    decoder, twin = case.decoder(20, unique), case.decoder(20, unique)
    zeros = np.zeros(len(decoder.features))
    first = decoder.decode(case.sentence(words), zeros, 30)
    assert first.size > 1
    assert (first.score == 0).all()
    if unique:
        check_sound(case, decoder, words, {})
    decoder.decode(case.sentence(["a"]), zeros + 1, 5)
    assert same(first, decoder.decode(case.sentence(words), zeros, 30))
    assert same(first, twin.decode(case.sentence(words), zeros, 30))
    # Slots past the end of the weights count as 0.
    assert same(first, twin.decode(case.sentence(words), zeros[:0], 30))


def test_an_empty_sentence_has_one_empty_translation(tmp_path: Path) -> None:
    case = Case(tmp_path, 500)
    decoder = case.decoder()
    listed = decoder.decode(case.sentence([]), np.ones(len(decoder.features)), 10)
    assert entries(case, decoder, listed) == [((), 0.0, {})]


def test_unknown_words_pass_through(tmp_path: Path) -> None:
    case = Case(tmp_path, 501, [[]], orders=[2], templates=["id", "shape"])
    check_all(case, ["new", "newer", "new"])


@pytest.mark.parametrize("span_limit", [1, 2, 15])
def test_sentences_longer_than_the_span_limit(tmp_path: Path, span_limit: int) -> None:
    longer = Rule("X", ["a", Gap("X", 1), "b"], ["b", Gap("X", 1)])
    goal = Rule("S", [Gap("S", 1), "b"], ["d", Gap("S", 1)])
    case = Case(tmp_path, 502, [[Line(longer, {"A": 1.0}), Line(goal, {"B": 1.0})]], span_limit=span_limit)
    check_all(case, ["a", "a", "c", "b", "b"])
    decoder = case.decoder()
    words = ["a"] * 20 + ["b"] * 20
    listed = decoder.decode(case.sentence(words), np.zeros(len(decoder.features)), EVERYTHING)
    most = max(row.get("A", 0.0) for _, _, row in entries(case, decoder, listed))
    # Each pair of brackets takes two words, the innermost gap one or more.
    assert most == max(0, (span_limit - 1) // 2)


def test_goal_is_found_where_other_categories_derive_it(tmp_path: Path) -> None:
    grammar = [
        Line(Rule("X", ["a"], ["b"]), {"A": 1.0}),
        Line(Rule("NP", [Gap("S", 1)], ["c", Gap("S", 1)]), {}),
        Line(Rule("VP", [Gap("NP", 1)], [Gap("NP", 1)]), {}),
        Line(Rule("X", [Gap("NP", 1), "a"], [Gap("NP", 1), "d"]), {"B": 1.0}),
    ]
    case = Case(tmp_path, 503, [grammar])
    for n in range(1, 5):
        check_all(case, ["a"] * n)


def test_a_long_chain_of_categories(tmp_path: Path) -> None:
    names = ["S", *(f"C{n}" for n in range(300, 0, -1)), "X"]
    chain = [Line(Rule(parent, [Gap(child, 1)], [Gap(child, 1)]), {"B": 1.0}) for parent, child in pairwise(names[:-1])]
    case = Case(tmp_path, 505, [[*chain, Line(Rule("C1", ["a"], ["b"]), {"A": 1.0})]])
    decoder = case.decoder()
    listed = decoder.decode(case.sentence(["a"]), by_slot(decoder, {"A": 10.0}), EVERYTHING)
    assert [(text, row.get("B", 0.0)) for text, _, row in entries(case, decoder, listed)] == [
        (("b",), 300.0),
        (("a",), 0.0),
    ]


def test_repeated_lines_compete(tmp_path: Path) -> None:
    rule = Rule("X", ["a"], ["b"])
    case = Case(tmp_path, 504, [[Line(rule, {"A": 1.0}), Line(rule, {"A": 1.0}), Line(rule, {"A": 3.0})]])
    check_all(case, ["a", "a"], unique=False)
    check_all(case, ["a", "a"])


def test_grammars_can_change_from_sentence_to_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(600)
    # Unary rules of one grammar might form a cycle with those of another.
    grammars = [random_grammar(draw, SOURCES, TARGETS, 24) for _ in range(3)]
    grammars = [[line for line in grammar if not _is_unary(line)] for grammar in grammars]
    case = Case(tmp_path, 601, grammars)
    inputs = [(case.some_words(10, 200, g), g) for g in range(3)]
    decoder = case.decoder()
    weights = {name: value for words, g in inputs for name, value in case.weights(decoder, words, g).items()}
    alone = []
    for words, grammar in inputs:
        fresh = case.decoder()
        alone.append(fresh.decode(case.sentence(words, grammar), by_slot(fresh, weights), 50))
    assert not same(alone[0], alone[1])
    opened, open_grammar = list[int](), ListedGrammars.open

    def count(grammars: ListedGrammars, number: int) -> Rules:
        opened.append(number)
        return open_grammar(grammars, number)

    monkeypatch.setattr(ListedGrammars, "open", count)
    for i in (0, 1, 0, 2, 2, 1, 0):
        words, grammar = inputs[i]
        listed = decoder.decode(case.sentence(words, grammar), by_slot(decoder, weights), 50)
        assert same(listed, alone[i])
    # A grammar stays open for the next sentence.
    assert opened == [0, 1, 0, 2, 1, 0]


def _is_unary(line: Line) -> bool:
    return len(line.rule.source) == 1 and isinstance(line.rule.source[0], Gap)


def test_space_that_runs_out_is_enlarged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(tmp_path, 700)
    words = case.some_words(50, 500)
    usual = case.decoder()
    monkeypatch.setattr(decoder, "LM_STATES", 4)
    monkeypatch.setattr(decoder, "TRANSITIONS", 2)
    tight = case.decoder()
    weights = case.weights(usual, words)
    vector = by_slot(usual, weights)
    expected = usual.decode(case.sentence(words), vector, 50)
    tight._space = dict.fromkeys(tight._space, 1)
    tried = []
    new_derivations = kbest.new_derivations

    def small(arena: Arena, capacity: int, nodes: int) -> kbest.Derivations:
        tried.append((capacity, arena.mark()))
        return new_derivations(arena, capacity // 256, nodes)

    monkeypatch.setattr(kbest, "new_derivations", small)
    assert same(expected, tight.decode(case.sentence(words), vector, 50))
    assert min(tight._space.values()) > 1
    assert tight._lm_states > 4 and tight._transitions > 2
    assert len(tried) > 1
    # What was too small takes no memory beside what was not.
    assert len({used for _, used in tried}) == 1
    used = tight._arena.mark()
    assert same(expected, tight.decode(case.sentence(words), vector, 50)) and tight._arena.mark() == used


@pytest.mark.large
def test_space_for_lm_states_doubles_with_every_search_that_needs_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, 701, orders=[4])
    monkeypatch.setattr(decoder, "LM_STATES", 32)
    grown = case.decoder()
    tried: list[tuple[int, bool]] = []
    search = cube.search

    def observed(*arguments: Any) -> Forest | None:
        forest = search(*arguments)
        tried.append((grown._lm_states, forest is not None))
        return forest

    monkeypatch.setattr(cube, "search", observed)
    for words in (["other"], ["a", "b", "a", "b", "a", "b", "a"]):
        grown.decode(case.sentence(words), np.zeros(0), 10)
    # Enough for one word; then not enough beside what it left.
    assert tried[:3] == [(32, True), (32, False), (64, tried[2][1])]
    assert [states for states, _ in tried[1:]] == [32 << n for n in range(len(tried) - 1)]
    assert [found for _, found in tried[1:]] == [False] * (len(tried) - 2) + [True]


def test_what_was_decoded_before_does_not_show(tmp_path: Path) -> None:
    case = Case(tmp_path, 750, templates=["id", "source-bigram"])
    words = ["newest", "a", "Zug", "oldest"]
    one, other = case.decoder(), case.decoder()
    for word in ("oldest", "later", "Zug"):
        other.decode(case.sentence([word]), np.zeros(0), 1)
    draw = random.Random(1)
    weights = {name: draw.gauss(0, 1) for name in case.weights(one, words)}
    for name in reversed(weights):
        other.features.slot(name)
    first, second = (decoder.decode(case.sentence(words), by_slot(decoder, weights), 50) for decoder in (one, other))
    assert max(first.feature_index) >= one.features.first_dynamic_slot
    assert first.feature_index.tolist() != second.feature_index.tolist()
    names = [
        [decoder.features.name(slot) for slot in listed.feature_index.tolist()]
        for decoder, listed in ((one, first), (other, second))
    ]
    assert names[0] == names[1]
    assert first.score.tolist() == second.score.tolist()


def test_only_features_of_listed_translations_get_slots(tmp_path: Path) -> None:
    """And those of glue and pass-through rules, which are few."""
    case = Case(tmp_path, 760, templates=TEMPLATES)
    decoder, words = case.decoder(), ["a", "b", "Zug", "a", "b"]
    listed = decoder.decode(case.sentence(words), np.zeros(0), 2)
    always = {name for rule in (*GLUE, *map(pass_through, words)) for name, _ in features(TEMPLATES, rule)}
    in_use = set(map(decoder.features.name, range(decoder.features.first_dynamic_slot, len(decoder.features))))
    fired = set(map(decoder.features.name, listed.feature_index.tolist()))
    assert fired - always - set(case.model.dense_features()) == in_use - always
    assert always <= in_use
    possible = {name for _, row in case.naive().derivations(words) for name in row}
    assert in_use < possible


def test_words_that_the_vocabulary_gains_later(tmp_path: Path) -> None:
    case = Case(tmp_path, 800, orders=[2, 3], templates=["id"])
    decoder = case.decoder()
    check_sound(case, decoder, ["a"], case.weights(decoder, ["a"]))
    slots = len(decoder.features)
    words = ["a", "newest", "Zug"]
    weights = case.weights(decoder, words)
    listed = check_sound(case, decoder, words, weights)
    assert len(decoder.features) > slots
    fresh = case.decoder()
    for slot in range(len(decoder.features)):
        fresh.features.slot(decoder.features.name(slot))
    assert same(listed, check_sound(case, fresh, words, weights))
