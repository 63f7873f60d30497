"""The trie of source sides against a dictionary of rules."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from support.naive_decoder import random_grammar, write_grammar

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.embedded.trie import ROOT, TAKES_GAP, TAKES_WORD, Trie, build, child
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import GOAL, RuleReader, Rules

pytestmark = pytest.mark.kernel


def sides(rules: Rules, goal: bool) -> dict[tuple[tuple[int, ...], int], list[int]]:
    """The rules of each source side and left-hand side."""
    types = rules.types
    found: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for rule, side in enumerate(types.side[rules.type].tolist()):
        if (types.lhs[side] == GOAL) == goal:
            source = tuple(types.source[types.source_ptr[side] : types.source_ptr[side + 1]].tolist())
            found.setdefault((source, int(types.lhs[side])), []).append(rule)
    return found


def walk(trie: Trie, symbols: tuple[int, ...]) -> int:
    node = ROOT
    for symbol in symbols:
        if node >= 0:
            node = int(child(trie, node, symbol))
    return node


@pytest.mark.parametrize("seed", range(6))
def test_holds_the_rules_of_a_grammar(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = Vocabulary()
    reader = RuleReader(words)
    sizes = [0, 1, 30, 80]
    for n, size in enumerate(sizes):
        # Unary rules might form a cycle with those of the grammars before.
        lines = [line for line in random_grammar(draw, "abcdefgh", "xyz", size) if len(line.rule.source) > 1]
        reader.read(write_grammar(tmp_path / f"{n}", lines))
    grammars = ListedGrammars(reader.rules(), reader.grammar_ptr)
    assert len(grammars) == len(sizes)
    for rules in map(grammars.open, range(len(grammars))):
        for goal in (False, True):
            trie = build(rules, goal)
            expected = sides(rules, goal)
            met = {}
            prefixes = {source[:n] for source, _ in expected for n in range(len(source) + 1)} | {()}
            assert len(trie.takes) == len(prefixes)
            symbols = {symbol for prefix in prefixes for symbol in prefix} | {0, -1, -9, 99}
            for prefix in prefixes:
                node = walk(trie, prefix)
                assert node >= 0
                longer = {symbol for symbol in symbols if (*prefix, symbol) in prefixes}
                assert {symbol for symbol in symbols if walk(trie, (*prefix, symbol)) >= 0} == longer
                takes = TAKES_WORD * any(s >= 0 for s in longer) | TAKES_GAP * any(s < 0 for s in longer)
                assert trie.takes[node] == takes
                for group in range(*trie.group_ptr[node].tolist()):
                    met[prefix, int(trie.lhs[group])] = list(range(*trie.rule_ptr[group].tolist()))
            assert met == expected
            assert np.count_nonzero(trie.key >= 0) == len(prefixes) - 1
