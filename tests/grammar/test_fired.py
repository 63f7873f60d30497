"""The features that rules fire, as hashes of the names that `mpitune.grammar.templates` spells out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mpitune.corpus.hashing import hashed
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.errors import UsageError
from mpitune.grammar import sparse
from mpitune.grammar.fired import _KERNELS, Speller, fire, in_order, new_workspace
from mpitune.grammar.firing_rules import names_fired
from mpitune.grammar.rules import RuleReader, RuleTypes
from mpitune.grammar.sparse import Rule, template_names
from mpitune.grammar.templates import as_symbols, features

TEMPLATES = template_names(of_lists=False)

RULES = """\
[X] ||| a [NP,2] a [X,1] ||| b = [1] [2]
[NP] ||| a a a |||
[X] ||| a ||| a
[X] ||| a [X,1] a ||| b [1] c = ||| Cost=1 ||| 0-0 2-2 2-0
[X] ||| a [X,1] a ||| b [1] c = ||| Cost=1 ||| 0-0
[X] ||| [X,1] é_: [NP;=,2] ||| [2] é é [1] d é é ||| Cost=1 ||| 1-1 1-2 0-3 2-0
[X] ||| a b a b a_b ||| c c c c c c ||| Cost=1 ||| 0-0 2-0 0-1 4-4 1-1
[S] ||| [S,1] [X,2] . ||| [2] [1] a ||| Cost=1 ||| 2-2
[X] ||| a  ||| b = ||| Cost=1 ||| 0-0 1-1
"""
CHOICES = [
    TEMPLATES,
    [*reversed(_KERNELS)],
    ["shape", "id"],
    *([name] for name in TEMPLATES),
]
SPACE = 200


class Grammar:
    def __init__(self, grammar: Path) -> None:
        vocabulary = Vocabulary()
        reader = RuleReader(vocabulary)
        reader.read(grammar)
        self.words = vocabulary.words
        self.categories = reader.categories
        self.types: RuleTypes = reader.rules().types

    def check(self, templates: Sequence[str]) -> None:
        """Compare the features of all rules, one after the other as in a sentence, with their names."""
        speller, space = Speller(templates, self.types, self.categories, self.words), new_workspace(SPACE)
        numbers = np.arange(len(self.types.side), dtype=np.int32)
        # As if grammars were opened one after the other, with rules in common.
        speller.of(numbers[3:1:-1])
        spelled = speller.of(numbers)
        for number in range(len(self.types.side)):
            named = features(in_order(templates), as_symbols(self.types, number, self.categories, self.words))
            count = fire(spelled, self.types, number, space)
            assert space.hash[:count].tolist() == hashed([name for name, _ in named]).hash.tolist()
            assert space.value[:count].tolist() == [value for _, value in named]


@pytest.fixture
def grammar(tmp_path: Path) -> Grammar:
    (tmp_path / "g").write_text(RULES)
    return Grammar(tmp_path / "g")


@pytest.mark.parametrize("templates", CHOICES, ids="+".join)
def test_hashes_are_those_of_the_names(grammar: Grammar, templates: list[str]) -> None:
    grammar.check(templates)


def test_a_template_without_a_kernel_is_listed(grammar: Grammar, monkeypatch: pytest.MonkeyPatch) -> None:
    def symbols(rule: Rule) -> Iterable[str]:
        return [f"SYM:{symbol}" for symbol in rule.target]

    parts = sparse.TEMPLATES._parts
    monkeypatch.setitem(parts, "symbols", sparse.Template(symbols, False, "SYM:", lambda text: text))
    monkeypatch.setitem(parts, "words", sparse.Template(lambda rule: ["n"] * len(rule.source), False, "n", str))
    monkeypatch.setitem(parts, "sizes", sparse.Template(_sizes, False, "z:", str))
    for templates in (["symbols"], ["words", "symbols"], ["symbols", "id", "words", "shape"], ["sizes", "shape"]):
        grammar.check(templates)
    names = ["SYM:b", "SYM:z", "n", "z:size"]
    fired = names_fired(["symbols", "sizes", "id"], grammar.types, grammar.categories, grammar.words, names)
    assert fired == {"SYM:b", "z:size"}


def _sizes(rule: Rule) -> Iterable[str | tuple[str, float]]:
    """Values, which add up, and nothing for some rules."""
    if len(rule.source) > 1:
        yield "z:size", len(rule.source) / 4
        yield "z:size", len(rule.target) / 8
        yield "z:long"


def test_functions_are_asked_once_for_each_rule_and_only_for_their_names(
    grammar: Grammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def counted(rule: Rule) -> Iterable[str]:
        asked.append(str(rule))
        return ["c:"]

    monkeypatch.setitem(sparse.TEMPLATES._parts, "counted", sparse.Template(counted, False, "c:", str))
    speller = Speller(["id", "counted"], grammar.types, grammar.categories, grammar.words)
    for numbers in ([1, 2, 1], [2], [], [4, 2, 1, 0]):
        speller.of(np.array(numbers, dtype=np.int32))
    assert asked == [str(as_symbols(grammar.types, n, grammar.categories, grammar.words)) for n in (1, 2, 0, 4)]
    arguments = grammar.types, grammar.categories, grammar.words
    assert names_fired(["id", "counted"], *arguments, ["R:X:a:a"]) == {"R:X:a:a"} and len(asked) == 4


def test_hashes_of_a_grammar_per_sentence(shared: Path) -> None:
    Grammar(next((shared / "data" / "nc" / "persent").iterdir())).check(TEMPLATES)


def test_names_that_something_fires(grammar: Grammar) -> None:
    fired = ["R:X:a:a", "RBS:a_b", "TB:é_é", "R:S:NX:N1", "R:X:b:b", "Shape_S01110_T01111"]
    others = ["R:X:a:b", "RBS:b_b", "TB:é_a", "Shape_S11111_T11111", "Cost", "", "RBT:<r>_a"]
    arguments = (["id", "source-bigram", "shape", "target-words"], grammar.types, grammar.categories, grammar.words)
    assert names_fired(*arguments, [*others, *fired, *fired]) == set(fired)
    assert names_fired([], *arguments[1:], fired) == set()


def test_an_unknown_template_is_refused(grammar: Grammar) -> None:
    with pytest.raises(UsageError, match="'shapes', expected any of id, "):
        Speller(["shapes"], grammar.types, grammar.categories, grammar.words)
