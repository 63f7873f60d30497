"""Rules as lines of a grammar file, read again."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from support.extraction import Corpus
from support.naive_extract import random_pairs, read_grammar

from mpitune.corpus.vocabulary import Names
from mpitune.extraction.rule_lines import rule_lines


def test_lines_are_those_of_a_grammar_file(tmp_path: Path) -> None:
    pairs = random_pairs(7)
    corpus = Corpus(pairs)
    words = max((pair[0] for pair in pairs), key=len)
    rules, none = corpus.opened([(words, None), ([], None)])
    names, path = Names.of(corpus.words.words), tmp_path / "grammar.gz"
    path.write_bytes(gzip.compress(rule_lines(rules, names)))
    found, expected = read_grammar(path), corpus.grammar(words)
    assert len(found) > 20 and found.keys() == expected.keys()
    for key, rule in found.items():
        assert rule.alignment == expected[key].alignment
        assert rule.features == pytest.approx(expected[key].features, rel=1e-11, abs=1e-11)
    assert rule_lines(none, names) == b""
