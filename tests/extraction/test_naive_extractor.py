"""The plain rule extractor, against the reference extractor's grammars and against the textbook definition."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path

import pytest
from support.naive_extract import (
    MAX_SYMBOLS,
    Extracted,
    Lexicon,
    Pair,
    Side,
    Span,
    cores_of,
    cores_with_places,
    gap_count,
    is_tight_phrase,
    naive_grammar,
    places,
    random_pairs,
    read_grammar,
    read_pairs,
    rule,
    rules_at,
    scored,
    target_span,
)

MAX_SAMPLES = 300  # of a source side with more occurrences, the reference looks at so many only
GOLDEN = [("val", 0), ("val", 1), ("val", 4), ("train-loo", 0), ("train-loo", 3)]


def core(source: Side) -> Side:
    """A source side without the gaps at its edges."""
    first, last = isinstance(source[0], int), isinstance(source[-1], int)
    bare = source[first : len(source) - last]
    return tuple(symbol - first if isinstance(symbol, int) else symbol for symbol in bare)


def as_written(rule: Extracted) -> Extracted:
    """With the reference's 12 significant digits."""
    return replace(rule, features={name: float(f"{value:.12g}") for name, value in rule.features.items()})


@pytest.fixture(scope="module")
def multi30k(shared: Path) -> list[Pair]:
    data = shared / "data" / "multi30k"
    return read_pairs(data / "train.de.gz", data / "train.en.gz", data / "train.de-en.align.gz")


@pytest.mark.slow
def test_gives_the_reference_extractors_rules(shared: Path, multi30k: list[Pair]) -> None:
    sentences = {}
    for name in ("val", "train"):
        with gzip.open(shared / "data" / "multi30k" / f"{name}.de.gz", "rt", encoding="utf-8") as file:
            sentences[name] = [line.split() for line in islice(file, 40)]
    cores = {case: cores_of(sentences[case[0].removesuffix("-loo")][case[1]]) for case in GOLDEN}
    where = {c: at for c, at in places(multi30k, set().union(*cores.values())).items() if len(at) <= MAX_SAMPLES}
    lexicon = Lexicon(multi30k)
    for name, i in GOLDEN:
        golden = read_grammar(shared / "golden" / "multi30k-grammars" / f"{name}.{i}.gz")
        assert {core(source) for source, _ in golden} <= cores[name, i]
        expected = {key: of_key for key, of_key in golden.items() if core(key[0]) in where}
        of_sentence = {c: at for c, at in where.items() if c in cores[name, i]}
        found = scored(multi30k, of_sentence, lexicon, without=i if name == "train-loo" else None)
        assert len(expected) > 100
        assert found.keys() == expected.keys()
        for key, extracted in found.items():
            assert as_written(extracted) == expected[key], key


def textbook(pair: Pair) -> Iterator[tuple[Side, Side]]:
    """Every phrase pair with up to two smaller ones taken out (Chiang 2007), tight and with an aligned word left."""
    source, _, links = pair
    spans: list[Span] = [
        (low, high)
        for low in range(len(source))
        for high in range(low + 1, len(source) + 1)
        if is_tight_phrase(links, (low, high))
    ]
    for span in spans:
        inside = [gap for gap in spans if span[0] <= gap[0] and gap[1] <= span[1] and gap != span]
        for gaps in [(), *((gap,) for gap in inside), *combinations(inside, 2)]:
            if all(before[1] < after[0] for before, after in combinations(gaps, 2)):
                kept = tuple(p for p in range(*span) if not any(gap[0] <= p < gap[1] for gap in gaps))
                if len(kept) + len(gaps) <= MAX_SYMBOLS and any(s in kept for s, _ in links):
                    source_side, target_side, _ = rule(pair, kept, span, gaps)
                    yield source_side, target_side


def own(pair: Pair) -> Iterator[tuple[Side, Side]]:
    """All rules of a pair, through its own cores."""
    for c, at in cores_with_places(pair[0], 15):
        for source_side, target_side, _ in rules_at(pair, c, at):
            yield source_side, target_side


@pytest.mark.parametrize("seed", range(30))
def test_rules_are_those_of_the_textbook(seed: int) -> None:
    """All of those without a gap at the edges, as often; of those with one, the smallest gap at each place."""
    for pair in random_pairs(seed):
        expected, found = Counter(textbook(pair)), Counter(own(pair))
        assert found <= expected
        assert found.keys() >= {key for key in expected if key[0] == core(key[0])}
        for key, count in found.items():
            if key[0] == core(key[0]):
                assert count == expected[key], key


@pytest.mark.parametrize("seed", range(30))
def test_a_pair_left_out_counts_in_the_lexicon_only(seed: int) -> None:
    pairs = random_pairs(seed)
    words = pairs[0][0] or ["a", "b"]
    rest = scored(pairs[1:], places(pairs[1:], cores_of(words)), Lexicon(pairs))
    assert naive_grammar(pairs, words, without=0) == rest


def test_counts_and_alignment_of_a_corpus_by_hand() -> None:
    """`b` is unaligned in the second pair: the occurrence counts in c(f), but yields no rule."""
    pairs: list[Pair] = [
        (["a", "b"], ["x", "y"], [(1, 1), (0, 0)]),
        (["a", "b"], ["x", "y"], [(0, 0)]),
        (["b"], ["y"], [(0, 0)]),
    ]
    grammar = naive_grammar(pairs, ["a", "b"])
    assert grammar.keys() == {
        (("a",), ("x",)),
        (("b",), ("y",)),
        (("a", "b"), ("x", "y")),
        ((1, "b"), (1, "y")),
        (("a", 1), ("x", 1)),
    }
    assert grammar[("a", "b"), ("x", "y")].alignment == ((1, 1), (0, 0))
    assert grammar[(1, "b"), (1, "y")].alignment == ((1, 1),)
    b = grammar[("b",), ("y",)].features
    assert b["EgivenFCoherent"] == pytest.approx(0.176091259)  # log10(3 / 2)
    assert b["SampleCountF"] == pytest.approx(0.602059991)  # log10(1 + 3)
    assert b["CountEF"] == pytest.approx(0.477121255)  # log10(1 + 2)
    assert b["MaxLexFgivenE"] == pytest.approx(0.0)  # p(b|NULL) = 1: the unaligned b is NULL's only link
    assert b["MaxLexEgivenF"] == pytest.approx(0.0)  # p(y|NULL) = 1
    assert b["IsSingletonF"] == b["IsSingletonFE"] == 0.0
    assert grammar[("a", 1), ("x", 1)].features["EgivenFCoherent"] == pytest.approx(0.301029996)  # c(f) of `a`: 2
    assert grammar[("a", 1), ("x", 1)].features["IsSingletonF"] == 1.0  # sum over the rules of `a [X]`, not of `a`


def test_of_several_alignments_the_most_frequent_counts_then_the_smallest() -> None:
    loose, full = [(0, 0), (1, 2)], [(0, 0), (0, 1), (1, 2)]
    sides = ["a", "b"], ["x", "y", "z"]
    key = ("a", "b"), ("x", "y", "z")
    assert naive_grammar([(*sides, loose), (*sides, full)], ["a", "b"])[key].alignment == tuple(full)
    assert naive_grammar([(*sides, loose), (*sides, full), (*sides, loose)], ["a", "b"])[key].alignment == tuple(loose)


def test_a_core_may_reach_over_16_words_of_the_sentence_and_15_of_the_corpus() -> None:
    words = [str(n) for n in range(18)]
    assert ("0", 1, "15") in cores_of(words)
    assert ("0", 1, "16") not in cores_of(words)
    in_corpus = places([(words, [], [])], cores_of(words))
    assert ("0", 1, "14") in in_corpus
    assert ("0", 1, "15") not in in_corpus
    assert max(gap_count(c) for c in in_corpus) == 2


def test_the_rule_of_a_phrase_wider_than_15_target_words_is_not_there() -> None:
    target = [str(n) for n in range(16)]
    assert not naive_grammar([(["a"], target, [(0, 0), (0, 15)])], ["a"])
    assert naive_grammar([(["a"], target, [(0, 0), (0, 14)])], ["a"])
    assert target_span([(0, 0), (0, 14)], (0, 1)) == (0, 15)
