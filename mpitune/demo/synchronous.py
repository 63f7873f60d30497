"""Draw random derivations of a synchronous grammar."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, product
from random import Random
from typing import Generic, NamedTuple, TypeVar

from mpitune.demo.notation import Notation, Schema

GAP = re.compile(r"\[(?:([^\[\],]+),)?([0-9]+)\]")
LARGEST = 120
"""Largest number of rules in a derivation."""

T = TypeVar("T")
Link = tuple[int, int]
Binding = dict[str, str]


class Rule(NamedTuple):
    """A rule with values for all variables."""

    category: str
    """The first part of its left-hand side."""
    source: tuple[str | int, ...]
    """Words, and gaps as indices of ``children``."""
    target: tuple[str | int, ...]
    links: tuple[Link, ...]
    """The word alignment: positions in ``source`` and ``target``."""
    children: tuple[str, ...]
    """The categories of the gaps."""
    line: int
    """Its line in the grammar."""
    verb: str
    """The value of $v, or ""."""
    word: str
    """The lexicon word of the rule, or ""."""


class Tree(NamedTuple):
    """A derivation."""

    rule: Rule
    children: tuple[Tree, ...]


class TooLarge(Exception):
    """The derivation has more than `LARGEST` rules."""


class _Instance(NamedTuple):
    """A schema with values for its variables."""

    schema: Schema
    category: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    children: tuple[str, ...]
    binding: Binding


class _Choice(Generic[T]):
    """A discrete distribution given by weights."""

    def __init__(self, values: list[T], weights: list[float]) -> None:
        self._values = values
        self._cumulated = list(accumulate(weights))

    def draw(self, random: Random) -> T:
        place = bisect(self._cumulated, random.random() * self._cumulated[-1], hi=len(self._values) - 1)
        return self._values[place]


class Grammar:
    """Draws derivations. Rules that cannot be completed are never used."""

    def __init__(self, notation: Notation) -> None:
        self._notation = notation
        self._variables = {
            name: _Choice(list(values), list(values.values())) for name, values in notation.values.items()
        }
        # Caches.
        self._matching: dict[str, list[tuple[Schema, Binding]]] = {}
        self._choices: dict[str, _Choice[tuple[Schema, Binding]]] = {}
        self._possible: dict[tuple[int, str], bool] = {}
        self._instances: dict[tuple[int, str, tuple[str, ...]], _Instance | None] = {}
        self._rules: dict[int, Rule] = {}

    def draw(self, category: str, random: Random) -> Tree:
        """Draw a random derivation. Raises TooLarge if it has more than `LARGEST` rules."""
        left = [LARGEST]

        def grow(category: str) -> Tree:
            left[0] -= 1
            if left[0] < 0:
                raise TooLarge
            rule = self._draw_rule(category, random)
            return Tree(rule, tuple(grow(child) for child in rule.children))

        return grow(category)

    def _draw_rule(self, category: str, random: Random) -> Rule:
        if category not in self._choices:
            options = [option for option in self._options(category) if self._is_possible(*option, category)]
            self._choices[category] = _Choice(options, [schema.weight for schema, _ in options])
        schema, bound = self._choices[category].draw(random)
        while True:
            # Incompatible values are drawn again.
            drawn = {variable: self._variables[variable].draw(random) for variable in schema.free}
            if instance := self._instance(schema, bound | drawn, category):
                return self._rule(instance)

    def _options(self, category: str) -> list[tuple[Schema, Binding]]:
        if category not in self._matching:
            self._matching[category] = self._notation.matching(category)
        return self._matching[category]

    def _is_possible(self, schema: Schema, bound: Binding, category: str) -> bool:
        """Test if some values of the variables make the schema a rule of ``category``."""
        key = (id(schema), category)
        if key not in self._possible:
            # A recursion that only leads back here derives nothing.
            self._possible[key] = False
            drawn = product(*(self._notation.values[variable] for variable in schema.free))
            bindings = (bound | dict(zip(schema.free, values, strict=True)) for values in drawn)
            self._possible[key] = any(self._instance(schema, binding, category) for binding in bindings)
        return self._possible[key]

    def _is_productive(self, category: str) -> bool:
        """Test if some derivation has the root ``category``."""
        return any(self._is_possible(*option, category) for option in self._options(category))

    def _instance(self, schema: Schema, binding: Binding, category: str) -> _Instance | None:
        """Instantiate the schema with these values; None if that is no rule of ``category``."""
        key = (id(schema), category, tuple(binding.values()))
        if key not in self._instances:
            self._instances[key] = self._new_instance(schema, binding, category)
        return self._instances[key]

    def _new_instance(self, schema: Schema, binding: Binding, category: str) -> _Instance | None:
        if self._notation.resolved(schema.lhs, binding) != tuple(category.split(".")):
            return None
        source = self._notation.resolved(schema.source, binding)
        if source is None:
            return None
        gaps = {int(gap[2]): gap[1] for gap in map(GAP.fullmatch, source) if gap}
        children = tuple(gaps[n] for n in sorted(gaps))
        if not all(map(self._is_productive, children)):
            return None
        target = self._notation.resolved(schema.target, binding)
        return None if target is None else _Instance(schema, category, source, target, children, binding)

    def _rule(self, instance: _Instance) -> Rule:
        if id(instance) not in self._rules:
            self._rules[id(instance)] = _new_rule(instance)
        return self._rules[id(instance)]


def _new_rule(instance: _Instance) -> Rule:
    schema = instance.schema
    source, source_kinds, source_places = _words(schema.source, instance.source)
    target, target_kinds, target_places = _words(schema.target, instance.target)
    explicit = schema.links and [(i, j) for a, b in schema.links for i in source_places[a] for j in target_places[b]]
    return Rule(
        category=instance.category.partition(".")[0],
        source=source,
        target=target,
        links=_links(source, source_kinds, target, target_kinds, explicit),
        children=instance.children,
        line=schema.line,
        verb=instance.binding.get("v", ""),
        word=schema.word,
    )


def _words(symbols: tuple[str, ...], texts: tuple[str, ...]) -> tuple[tuple[str | int, ...], list[str], list[range]]:
    """Return the words and gaps of a side, the kind of each, and the range of positions of each original symbol."""
    side: list[str | int] = []
    kinds: list[str] = []
    places: list[range] = []
    for symbol, text in zip(symbols, texts, strict=True):
        start = len(side)
        if gap := GAP.fullmatch(text):
            side.append(int(gap[2]) - 1)
            kinds.append("gap")
        else:
            words = text.split()
            side += [word.lstrip("+").lower() for word in words]
            usual = "verb" if "{v}" in symbol else "word"
            kinds += ["auxiliary" if word[0] == "+" else "mark" if word in (",", ".", "?") else usual for word in words]
        places.append(range(start, len(side)))
    return tuple(side), kinds, places


def _links(
    source: Sequence[str | int],
    source_kinds: list[str],
    target: Sequence[str | int],
    target_kinds: list[str],
    explicit: Sequence[Link] | None,
) -> tuple[Link, ...]:
    """Align a rule's symbols by their kinds: gap, mark, auxiliary, verb and word.

    ``explicit``: the links of plain words. If None, plain words are aligned one to one if both sides have equally many,
    else all with all.
    """
    places = [
        {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in ("mark", "auxiliary", "verb", "word")}
        for kinds in (source_kinds, target_kinds)
    ]
    f, e = places
    links = {*product(f["verb"], e["verb"]), *product(f["auxiliary"], e["auxiliary"] or e["verb"])}
    if not f["auxiliary"]:
        links |= set(product(f["verb"], e["auxiliary"]))
    # Marks are paired from the end; equal ones are aligned.
    links |= {(i, j) for i, j in zip(f["mark"][::-1], e["mark"][::-1], strict=False) if source[i] == target[j]}
    if explicit is not None:
        links |= set(explicit)
    elif len(f["word"]) == len(e["word"]):
        links |= set(zip(f["word"], e["word"], strict=True))
    else:
        links |= set(product(f["word"], e["word"]))
    return tuple(sorted(links))
