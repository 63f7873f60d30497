"""The extractor against the plain one, and against the reference extractor's grammars."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from support.extraction import Corpus, Wanted
from support.naive_extract import (
    Grammar,
    Lexicon,
    Pair,
    cores_of,
    naive_grammar,
    places,
    random_pairs,
    read_grammar,
    read_pairs,
    scored,
)
from support.uncompiled import seeds

from mpitune.extraction import extractor, sentences
from mpitune.extraction.occurrences import SAMPLES

SAMPLED = np.log10(1.0 + SAMPLES - 10)
"""A SampleCountF from here on may be that of a sample, and then another one than the reference's."""


def assert_same(found: Grammar, expected: Grammar, digits: float = 1e-12) -> None:
    assert found.keys() == expected.keys()
    for key, rule in found.items():
        assert rule.alignment == expected[key].alignment, key
        assert rule.features == pytest.approx(expected[key].features, rel=digits, abs=digits), key


@pytest.mark.kernel
@pytest.mark.parametrize("seed", seeds(40))
def test_sentences_together_get_the_rules_of_the_plain_extractor(seed: int) -> None:
    pairs = random_pairs(seed)
    own: list[Wanted] = [(words, i) for i, (words, _, _) in enumerate(pairs)]
    other: list[Wanted] = [([*words, "never", *words[:3]], None) for words, _, _ in pairs[:4]]
    wanted = [*own, *other]
    for found, (words, without) in zip(Corpus(pairs).grammars(wanted), wanted, strict=True):
        assert_same(found, naive_grammar(pairs, words, without))


@pytest.mark.kernel
@pytest.mark.large
@pytest.mark.parametrize("seed", range(8))
def test_counts_of_several_alignments_are_added_up(seed: int) -> None:
    """As of a bitext that has each pair once with each alignment, where leave-one-out leaves out the pair each time."""
    first = random_pairs(seed)
    second: list[Pair] = [(source, target, links[::2]) for source, target, links in first]
    third: list[Pair] = [(source, target, [*links[1:], *links[:1]][:-2]) for source, target, links in first]
    wanted: list[Wanted] = [(words, i) for i, (words, _, _) in enumerate(first)]
    wanted += [([*words, "never", *words[:3]], None) for words, _, _ in first[:4]]
    changed = False
    for alignments in ([first, second, third], [first, first]):
        together = [pair for pairs in alignments for pair in pairs]
        grammars = Corpus(*alignments).grammars(wanted)
        for found, (words, without) in zip(grammars, wanted, strict=True):
            where = {
                core: [(i, at) for i, at in found_at if i % len(first) != without]
                for core, found_at in places(together, cores_of(words)).items()
            }
            assert_same(found, scored(together, where, Lexicon(together)))
        changed |= grammars != Corpus(first).grammars(wanted)
    assert changed == any(links for _, _, links in first)


@pytest.mark.kernel
def test_each_alignment_has_the_sample_of_one() -> None:
    """A core with as many rules as there can be: a sample has `SAMPLES` occurrences, each with both alignments."""
    one: list[Pair] = [(["a", "b"], [f"x{n}", f"y{n}"], [(0, 0), (1, 1)]) for n in range(SAMPLES + 50)]
    other: list[Pair] = [(source, target, [(0, 1), (1, 0)]) for source, target, _ in one]
    corpus = Corpus(one, other)
    pair = int(corpus.bitext.place.argmin())  # the first in the order of the text
    grammar, without = corpus.grammars([(["a", "b"], None), (["a", "b"], pair)])
    alone = [Corpus(pairs).grammar(["a", "b"]) for pairs in (one, other)]
    assert grammar.keys() == alone[0].keys() | alone[1].keys()
    assert sum(source == ("a",) for source, _ in grammar) == 2 * SAMPLES
    assert 10 ** grammar[("a",), (f"x{pair}",)].features["SampleCountF"] == pytest.approx(1 + 2 * SAMPLES)
    left_out = {target for source, target in grammar.keys() - without.keys() if source == ("a",)}
    assert left_out == {(f"x{pair}",), (f"y{pair}",)}
    assert 10 ** next(iter(without.values())).features["SampleCountF"] == pytest.approx(1 + 2 * (SAMPLES - 1))


@pytest.mark.kernel
@pytest.mark.large
@pytest.mark.parametrize("small", ["items", "tables"])
def test_neither_items_nor_tables_nor_other_sentences_matter(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [pair for seed in range(6) for pair in random_pairs(seed)]
    corpus = Corpus(pairs)
    wanted: list[Wanted] = [(words, i if i % 3 else None) for i, (words, _, _) in enumerate(pairs[:9])]
    together, at_once = corpus.grammars(wanted), corpus.parts(wanted)
    assert [len(at_once), sum(map(len, together)) > 200] == [1, True]
    if small == "items":
        for name in ("ITEMS", "SMALLEST_ITEM", "LARGEST_ITEM"):
            monkeypatch.setattr(sentences, name, 1)
        assert len(corpus.parts(wanted)) == len({word for words, _ in wanted for word in words}) > 1
    else:
        monkeypatch.setattr(extractor, "TABLE", 1)
        items = sentences.items_of_work(corpus.index(wanted))
        assert sum(1 for item in items for _ in extractor.extract_item(corpus.bitext, corpus.index(wanted), item)) > 10
    # The same numbers, in the same order.
    assert corpus.grammars(wanted) == together
    for (words, without), grammar in zip(wanted, together, strict=True):
        alone = corpus.grammar(words, without)
        assert alone == grammar and list(alone) == list(grammar)


@pytest.mark.kernel
def test_leaving_a_pair_out_changes_alignments_and_makes_rules_and_source_sides_vanish() -> None:
    loose, full = [(0, 0), (1, 2)], [(0, 0), (0, 1), (1, 2)]
    sides = ["a", "b"], ["x", "y", "z"]
    pairs: list[Pair] = [
        (*sides, loose),
        (*sides, full),
        (*sides, loose),
        (["a", "b"], ["v", "w"], [(0, 0), (1, 1)]),
        (["c", "a"], ["u", "x"], [(0, 0), (1, 1)]),
        (["c"], ["t"], [(0, 0)]),
    ]
    wanted: list[Wanted] = [*((pair[0], i) for i, pair in enumerate(pairs)), (["c", "a", "b"], None)]
    found = Corpus(pairs).grammars(wanted)
    for grammar, (words, without) in zip(found, wanted, strict=True):
        assert_same(grammar, naive_grammar(pairs, words, without))
    key, rare = (("a", "b"), ("x", "y", "z")), (("a", "b"), ("v", "w"))
    # Where one of two equally frequent alignments is left, it is the smallest; elsewhere the most frequent one.
    assert [found[i][key].alignment for i in (0, 1, 3)] == [tuple(full), tuple(loose), tuple(loose)]
    assert [rare in grammar for grammar in found[:4]] == [True, True, True, False]
    # Its only rule is left out, or one of two.
    assert (("c", "a"), ("u", "x")) in found[6] and not any(source == ("c", "a") for source, _ in found[4])
    c = [{target: rule.features["IsSingletonF"] for (side, target), rule in g.items() if side == ("c",)} for g in found]
    assert c[4:] == [{("t",): 1.0}, {("u",): 1.0}, {("t",): 0.0, ("u",): 0.0}]


@pytest.mark.kernel
def test_source_sides_are_sorted() -> None:
    pairs = [pair for seed in range(6) for pair in random_pairs(seed)]
    corpus = Corpus(pairs)
    for rules in corpus.opened([(pair[0], i) for i, pair in enumerate(pairs)]):
        types = rules.types
        sides = [
            tuple(types.source[types.source_ptr[s] : types.source_ptr[s + 1]].tolist()) for s in types.side[rules.type]
        ]
        assert sides == sorted(sides)


@pytest.mark.kernel
def test_the_first_of_many_occurrences_are_the_sample() -> None:
    pair: Pair = (["a", "b", "c", "a", "d"], ["v", "w", "x", "v", "y"], [(k, k) for k in range(5)])
    other: Pair = (["a", "e"], ["z", "e"], [(0, 0), (1, 1)])
    corpus = Corpus([pair] * 250 + [other] * 250)
    words = ["a", "b", "c", "a"]
    some = (0, 1, 2, 3, 260, 261, 262, 263)
    grammar, *without_one = corpus.grammars([(words, None), *((words, pair) for pair in some)])
    counts = {
        target[0]: round(10 ** rule.features["CountEF"] - 1)
        for (source, target), rule in grammar.items()
        if source == ("a",)
    }
    assert 10 ** grammar[("a",), ("v",)].features["SampleCountF"] == pytest.approx(1 + SAMPLES)
    texts = corpus.bitext.texts
    a, e = corpus.numbers(["a", "e"])
    places = np.flatnonzero(corpus.bitext.source_words == a)[:SAMPLES]
    assert counts["z"] == (corpus.bitext.source_words[places + 1] == e).sum()
    assert counts["v"] == SAMPLES - counts["z"]
    # Without a pair of the sample, it is smaller; without another pair, as large.
    sampled = texts.source["pair"][places]
    left = [SAMPLES - (sampled == corpus.bitext.place[pair]).sum() for pair in some]
    assert len(set(left)) == 3
    for found, number in zip(without_one, left, strict=True):
        assert 10 ** found[("a",), ("v",)].features["SampleCountF"] == pytest.approx(1 + number)


@pytest.mark.kernel
def test_words_that_are_all_linked_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core's rules have many more links than words; they fit into an empty table."""
    monkeypatch.setattr(extractor, "TABLE", 1)
    source, links = ["a", "b", "c", "d", "e"], [(i, j) for i in range(5) for j in range(15)]
    pairs: list[Pair] = [(source, [f"{n}.{j}" for j in range(15)], links) for n in range(SAMPLES)]
    assert_same(Corpus(pairs).grammar(source), naive_grammar(pairs, source))


@pytest.mark.kernel
@pytest.mark.large
def test_many_sentences_that_leave_the_same_pair_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has as many changes of counts as the pair has rules; they fit into a table, whatever their number."""
    monkeypatch.setattr(extractor, "TABLE", 1)
    source, links = ["a"] * 8, [(i, i) for i in range(8)]
    pairs: list[Pair] = [(source, [f"{i}" for i in range(8)], links)] * 2
    corpus, wanted = Corpus(pairs), [(source, 0)] * 1000
    index = corpus.index(wanted)
    tables = [
        table for item in sentences.items_of_work(index) for table in extractor.extract_item(corpus.bitext, index, item)
    ]
    assert max(int(table.change_ptr[-1]) for table in tables) > 8000
    assert all(int(table.change_ptr[-1]) == len(table.change_rule) for table in tables)
    expected = naive_grammar(pairs, source, 0)
    for found in corpus.grammars(wanted)[::333]:
        assert_same(found, expected)


@pytest.mark.kernel
def test_a_long_sentence_and_empty_ones() -> None:
    pairs = random_pairs(5)
    corpus = Corpus(pairs)
    words = [word for pair in pairs for word in pair[0]] * 3
    found = corpus.grammars([([], None), (words, None), (["never"], None)])
    assert_same(found[1], naive_grammar(pairs, words))
    assert [found[0], found[2], corpus.grammar([]), corpus.grammars([])] == [{}, {}, {}, []]


@pytest.fixture(scope="module")
def captions(shared: Path) -> Corpus:
    data = shared / "data/multi30k"
    return Corpus(read_pairs(data / "train.de.gz", data / "train.en.gz", data / "train.de-en.align.gz"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["val", "train-loo"])
def test_the_reference_extractors_grammars(shared: Path, captions: Corpus, name: str) -> None:
    with gzip.open(shared / f"data/multi30k/{name.removesuffix('-loo')}.de.gz", "rt", encoding="utf-8") as file:
        lines = [line.split() for line in islice(file, 20)]
    compared = recalled = golden = 0
    grammars = captions.grammars([(words, i if name == "train-loo" else None) for i, words in enumerate(lines)])
    for i, found in enumerate(grammars):
        reference = read_grammar(shared / f"golden/multi30k-grammars/{name}.{i}.gz")
        recalled += len(reference.keys() & found.keys())
        golden += len(reference)
        # Where no sampling is involved, all is the same.
        whole = [{k: r for k, r in g.items() if r.features["SampleCountF"] < SAMPLED} for g in (found, reference)]
        assert_same(whole[0], whole[1], digits=1e-11)
        compared += len(whole[1])
    assert compared > 25_000
    assert recalled > 0.75 * golden
