"""Templates of sparse features: each turns a rule, or an entry of an n-best list, into names of features.

- `rules`: the templates of rules; `lists`: those of entries of lists.

A template in another module of this package needs no more than itself. The package imports nothing that takes time: the
command line reads the names before any work starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

from mpitune.registry import Registry


class Gap(NamedTuple):
    """A nonterminal on the right-hand side of a rule."""

    label: str
    """Its category."""
    number: int
    """Its number from 1, in the order of the source side."""

    def __str__(self) -> str:
        return f"[{self.label},{self.number}]"


class Rule(NamedTuple):
    """A rule as words and gaps. Its string is the beginning of a grammar line in cdec's format."""

    lhs: str
    source: Sequence[str | Gap]
    target: Sequence[str | Gap]
    links: Sequence[tuple[int, int]] = ()
    """The word alignment: positions in source and target, gaps included; empty if the grammar has none."""

    def __str__(self) -> str:
        return f"[{self.lhs}] ||| {' '.join(map(str, self.source))} ||| {' '.join(map(str, self.target))}"


OfRule = Callable[[Rule], Iterable[str]]
"""The names of the features that a rule fires, one as often as it fires."""
OfText = Callable[[Sequence[str], Sequence[str], Mapping[str, Collection[str]]], Iterable[str]]
"""The same of an entry of a list, from its source words, its words, and the job's lexicon."""
R = TypeVar("R", bound=OfRule)
T = TypeVar("T", bound=OfText)


class Template(NamedTuple):
    """A template."""

    prefix: str
    """The beginning of its features' names."""
    of_rule: OfRule | None
    of_text: OfText | None
    in_words: Callable[[str], str | None]
    """Turns the rest of a name into words, gaps as X₁; None if it is ambiguous."""


TEMPLATES: Registry[Template] = Registry(
    "mpitune.grammar.sparse",
    first=(
        *("id", "source-bigram", "target-bigram", "shape", "word-pair", "word-pair-all", "insertion", "target-words"),
        *("reordering", "fertility", "text-length", "target-ngrams", "lexicon-pair"),
    ),
)
"""By their names in ``features.templates``."""


def of_rules(name: str, prefix: str, in_words: Callable[[str], str | None] = lambda text: None) -> Callable[[R], R]:
    """A decorator that registers a function of rules as the template ``name``."""

    def add(function: R) -> R:
        TEMPLATES.register(name)(Template(prefix, function, None, in_words))
        return function

    return add


def of_lists(name: str, prefix: str, in_words: Callable[[str], str | None] = lambda text: None) -> Callable[[T], T]:
    """The same for a function of entries of lists."""

    def add(function: T) -> T:
        TEMPLATES.register(name)(Template(prefix, None, function, in_words))
        return function

    return add


def names_of_rules() -> list[str]:
    """The templates of rules."""
    return [name for name, template in TEMPLATES.items() if template.of_rule]


def names_of_lists() -> list[str]:
    """The templates of entries of lists."""
    return [name for name, template in TEMPLATES.items() if template.of_text]


@cache
def prefixes() -> dict[str, str]:
    """The prefix of the feature names of each template."""
    return {name: template.prefix for name, template in TEMPLATES.items()}
