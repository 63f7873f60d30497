"""Templates of sparse features: each turns a rule, or an entry of an n-best list, into features.

- `rules`: the templates of rules; `lists`: those of entries of lists.

A template in another module of this package needs no more than itself. The package imports nothing that takes time: the
command line reads the names before any work starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from mpitune.registry import Origin, Registry


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


class Hypothesis(NamedTuple):
    """An entry of an n-best list."""

    source: Sequence[str]
    """The words of the source sentence; empty if the job has no ``data.source``."""
    words: Sequence[str]
    features: Mapping[str, float]
    """The features of the entry in its list, by name."""
    lexicon: Mapping[str, Collection[str]]
    """Translations of words, of ``features.lexicon``."""


Fired = str | tuple[str, float]
"""A feature's name, which counts 1, or its name and value; the values of a name add up."""
OfRule = Callable[[Rule], Iterable[Fired]]
"""The features of a rule."""
OfText = Callable[[Hypothesis], Iterable[Fired]]
"""The features of an entry of a list."""
InWords = Callable[[str], str | None]
"""Turns the rest of a name into words, gaps as X₁; None if it is ambiguous."""
F = TypeVar("F", bound=Callable[..., Iterable[Fired]])


class Template(NamedTuple):
    """A template."""

    fire: Any
    """`OfRule`, or `OfText`."""
    of_lists: bool
    """True for a template of entries of lists."""
    prefix: str
    """The beginning of its features' names."""
    in_words: InWords
    needs_source: bool = False
    """True for a template of entries of lists that needs the words of the source."""


TEMPLATES: Registry[Template] = Registry(
    "mpitune.grammar.sparse",
    first=(
        *("id", "source-bigram", "target-bigram", "shape", "word-pair", "word-pair-all", "insertion", "target-words"),
        *("reordering", "fertility", "text-length", "target-ngrams", "lexicon-pair"),
    ),
)
"""By their names in ``features.templates``."""


def template(
    name: str,
    prefix: str,
    in_words: InWords = lambda text: None,
    *,
    of_lists: bool = False,
    needs_source: bool = False,
    origin: Origin | None = None,
) -> Callable[[F], F]:
    """A decorator that registers a function of rules, or of entries of lists, as the template ``name``."""

    def add(function: F) -> F:
        TEMPLATES.register(name, origin)(Template(function, of_lists, prefix, in_words, needs_source))
        prefixes.cache_clear()
        return function

    return add


def template_names(*, of_lists: bool) -> list[str]:
    """The templates of rules, or those of entries of lists."""
    return [name for name, template in TEMPLATES.items() if template.of_lists == of_lists]


def templates_with_source(names: Iterable[str]) -> list[str]:
    """The templates among ``names`` that need the words of the source, in their order."""
    return [name for name in names if TEMPLATES[name].needs_source]


@cache
def prefixes() -> dict[str, str]:
    """The prefix of the feature names of each template."""
    return {name: template.prefix for name, template in TEMPLATES.items()}
