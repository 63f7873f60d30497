"""The extractor against the plain one, and against the reference extractor's grammars."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from mpitune.extraction.extracted import FEATURES, Extracted
from mpitune.extraction.suffix_array import compile_bitext
from support.naive_extract import Extracted as NaiveRule
from support.naive_extract import Grammar, Pair, naive_grammar, random_pairs, read_grammar, read_pairs

from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.extraction import extractor, rule_counts
from mpitune.extraction.extractor import Extractor
from mpitune.extraction.occurrences import SAMPLES
from mpitune.extraction.rule_lines import rule_lines

SAMPLED = np.log10(1.0 + SAMPLES - 10)
"""A SampleCountF from here on may be that of a sample, and then another one than the reference's."""


class Corpus:
    """Pairs, and an extractor for them."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self.words = Vocabulary()
        self.extractor = Extractor(compile_bitext(pairs, self.words))
        self._known = set(self.words.words)

    def extracted(self, words: Sequence[str], without: int | None = None) -> Extracted:
        known = [self.words.add(word) if word in self._known else -1 for word in words]
        return self.extractor.grammar(np.array(known, np.int32), -1 if without is None else without)

    def grammar(self, words: Sequence[str], without: int | None = None) -> Grammar:
        found = self.extracted(words, without)
        grammar: Grammar = {}
        for r, scores in enumerate(found.score.tolist()):
            source, target = (
                tuple(self.words.words[s] if s >= 0 else -s for s in side[ptr[r] : ptr[r + 1]].tolist())
                for side, ptr in ((found.source, found.source_ptr), (found.target, found.target_ptr))
            )
            links = found.align[found.align_ptr[r] : found.align_ptr[r + 1]].tolist()
            assert (source, target) not in grammar
            rule = NaiveRule(dict(zip(FEATURES, scores, strict=True)), tuple((i, j) for i, j in links))
            grammar[source, target] = rule
        return grammar


def assert_same(found: Grammar, expected: Grammar, digits: float = 1e-12) -> None:
    assert found.keys() == expected.keys()
    for key, rule in found.items():
        assert rule.alignment == expected[key].alignment, key
        assert rule.features == pytest.approx(expected[key].features, rel=digits, abs=digits), key


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(40))
def test_random_pairs_give_the_rules_of_the_plain_extractor(seed: int) -> None:
    corpus = Corpus(random_pairs(seed))
    for i, (words, _, _) in enumerate(corpus.pairs[:4]):
        assert_same(
            corpus.grammar([*words, "never", *words[:3]]), naive_grammar(corpus.pairs, [*words, "never", *words[:3]])
        )
        assert_same(corpus.grammar(words, without=i), naive_grammar(corpus.pairs, words, without=i))


@pytest.mark.kernel
def test_what_is_kept_for_the_next_sentence_changes_nothing() -> None:
    pairs = [pair for seed in range(12) for pair in random_pairs(seed)]
    fresh, kept = Corpus(pairs), Corpus(pairs)
    # The first forgets after each core.
    fresh.extractor._space = extractor._new_workspace(64, rule_counts.new_rule_counts(1))
    for i in [*range(8), *range(8)]:
        words = pairs[i][0]
        for without in (None, i, 0):
            one, other = fresh.extracted(words, without), kept.extracted(words, without)
            assert all(map(np.array_equal, one, other))
    sizes = [corpus.extractor._space.counts.size[rule_counts.CORES] for corpus in (kept, fresh)]
    assert sizes[0] > 50 > 1 >= sizes[1]


@pytest.mark.kernel
def test_many_occurrences_are_sampled() -> None:
    pair = (["a", "b", "c", "a", "d"], ["v", "w", "x", "v", "y"], [(k, k) for k in range(5)])
    other = (["a", "e"], ["z", "e"], [(0, 0), (1, 1)])
    corpus = Corpus([pair] * 250 + [other] * 250)
    grammar = corpus.grammar(["a", "b", "c", "a"])
    counts = {
        target[0]: 10 ** rule.features["CountEF"] - 1 for (source, target), rule in grammar.items() if source == ("a",)
    }
    assert 10 ** grammar[("a",), ("v",)].features["SampleCountF"] == pytest.approx(1 + SAMPLES)
    assert sum(counts.values()) == pytest.approx(SAMPLES)
    # Two thirds of the occurrences of a are translated by v.
    assert 0.5 * SAMPLES < counts["v"] < 0.8 * SAMPLES
    assert grammar == Corpus([pair] * 250 + [other] * 250).grammar(["a", "b", "c", "a"])


@pytest.mark.kernel
def test_a_long_sentence_and_an_empty_one() -> None:
    pairs = random_pairs(5)
    corpus = Corpus(pairs)
    words = [word for pair in pairs for word in pair[0]] * 3
    assert_same(corpus.grammar(words), naive_grammar(pairs, words))
    assert corpus.grammar([]) == {} == corpus.grammar(["never"])


def test_lines_are_those_of_a_grammar_file(tmp_path: Path) -> None:
    pairs = random_pairs(7)
    corpus = Corpus(pairs)
    words = max((pair[0] for pair in pairs), key=len)
    found = corpus.extracted(words)
    path = tmp_path / "grammar.gz"
    path.write_bytes(gzip.compress(rule_lines(found, Names.of(corpus.words.words))))
    assert_same(read_grammar(path), corpus.grammar(words), digits=1e-11)
    assert rule_lines(corpus.extracted([]), Names.of(corpus.words.words)) == b""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["val", "train-loo"])
def test_the_reference_extractors_grammars(shared: Path, name: str) -> None:
    data = shared / "data/multi30k"
    corpus = Corpus(read_pairs(data / "train.de.gz", data / "train.en.gz", data / "train.de-en.align.gz"))
    with gzip.open(data / f"{name.removesuffix('-loo')}.de.gz", "rt", encoding="utf-8") as file:
        sentences = [line.split() for line in islice(file, 40)]
    compared = recalled = golden = 0
    for i, words in enumerate(sentences):
        reference = read_grammar(shared / f"golden/multi30k-grammars/{name}.{i}.gz")
        found = corpus.grammar(words, without=i if name == "train-loo" else None)
        recalled += len(reference.keys() & found.keys())
        golden += len(reference)
        # Where no sampling is involved, all is the same.
        whole = [{k: r for k, r in g.items() if r.features["SampleCountF"] < SAMPLED} for g in (found, reference)]
        assert_same(whole[0], whole[1], digits=1e-11)
        compared += len(whole[1])
    assert compared > 55_000
    assert recalled > 0.75 * golden
