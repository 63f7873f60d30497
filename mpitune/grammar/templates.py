"""Rules as words, and the sparse features that they fire, by name.

`mpitune.grammar.sparse` has the templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np

from mpitune.array_files.csr import iter_rows, select_rows
from mpitune.errors import UsageError
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.sparse import TEMPLATES, Fired, Gap, OfRule, Rule, template_names

T = TypeVar("T")

_CONTROLS = dict.fromkeys([*range(32), 127], "_")
"""Replacements of control characters, by their numbers."""


def pass_through(word: str) -> Rule:
    """Make the rule that copies a source word to the target."""
    return Rule("X", [word], [word], [(0, 0)])


GLUE = (
    Rule("S", [Gap("X", 1)], [Gap("X", 1)]),
    Rule("S", [Gap("S", 1), Gap("X", 2)], [Gap("S", 1), Gap("X", 2)]),
)
"""The two glue rules, S -> X and S -> S X, which concatenate phrases."""


def features(templates: Sequence[str], rule: Rule) -> list[tuple[str, float]]:
    """Features that ``rule`` fires, with their values. Raises UsageError for an unknown template."""
    return list(fired_by(_look_up(templates), rule).items())


def all_names(
    templates: Sequence[str], types: RuleTypes, categories: Sequence[str], words: Sequence[str]
) -> Iterator[str]:
    """Yield the names of all features that rules of these ``types`` fire, with repetitions, and those of glue rules.

    ``categories`` and ``words`` name the rules' symbols. Raises UsageError for an unknown template.
    """
    functions = _look_up(templates)
    # Without templates, no rule need be spelled out.
    for rule in chain(_all_as_symbols(types, categories, words), GLUE) if functions else ():
        yield from fired_by(functions, rule)


def fired_by_types(
    templates: Sequence[str], types: RuleTypes, numbers: np.ndarray, categories: Sequence[str], words: Sequence[str]
) -> Iterator[dict[str, float]]:
    """Yield the features that each of the ``types`` with these ``numbers`` fires, with their values."""
    functions = _look_up(templates)
    chosen = types._replace(
        side=types.side[numbers], target_side=types.target_side[numbers], alignment=types.alignment[numbers]
    )
    for rule in _all_as_symbols(chosen, categories, words):
        yield fired_by(functions, rule)


def as_symbols(types: RuleTypes, rule_type: int, categories: Sequence[str], words: Sequence[str]) -> Rule:
    """Spell out ``rule_type``, a number in ``types``; ``categories`` and ``words`` name the symbols."""
    side, target_side = types.side[rule_type], types.target_side[rule_type]
    alignment = types.alignment[rule_type]
    source = types.source[types.source_ptr[side] : types.source_ptr[side + 1]].tolist()
    target = types.target[types.target_ptr[target_side] : types.target_ptr[target_side + 1]].tolist()
    links = types.align[types.align_ptr[alignment] : types.align_ptr[alignment + 1]].ravel().tolist()
    return _make_rule(int(types.lhs[side]), _source_side(source, categories, words), target, links, categories, words)


def _all_as_symbols(types: RuleTypes, categories: Sequence[str], words: Sequence[str]) -> Iterable[Rule]:
    sources = iter_rows(*select_rows(types.source_ptr, types.source, types.side))
    targets = iter_rows(*select_rows(types.target_ptr, types.target, types.target_side))
    links = iter_rows(*select_rows(2 * types.align_ptr, types.align.ravel(), types.alignment))
    before: list[int] = []
    side: tuple[Sequence[str | Gap], Sequence[Gap]] = (), ()
    for lhs, source, target, flat in zip(types.lhs[types.side].tolist(), sources, targets, links, strict=True):
        if source != before:  # most types have the source side of the one before
            before, side = source, _source_side(source, categories, words)
        yield _make_rule(lhs, side, target, flat, categories, words)


def _source_side(
    source: list[int], categories: Sequence[str], words: Sequence[str]
) -> tuple[Sequence[str | Gap], Sequence[Gap]]:
    """The symbols of a source side, and its gaps."""
    gaps = [Gap(categories[-1 - gap], n) for n, gap in enumerate((s for s in source if s < 0), start=1)]
    following = iter(gaps)
    return [words[symbol] if symbol >= 0 else next(following) for symbol in source], gaps


def _make_rule(
    lhs: int,
    side: tuple[Sequence[str | Gap], Sequence[Gap]],
    target: list[int],
    links: list[int],
    categories: Sequence[str],
    words: Sequence[str],
) -> Rule:
    """Spell out a rule; ``side``: of `_source_side`; ``links``: source position, target position of each, flattened."""
    source, gaps = side
    target_side = [words[symbol] if symbol >= 0 else gaps[-1 - symbol] for symbol in target]
    return Rule(categories[lhs], source, target_side, list(zip(links[::2], links[1::2], strict=True)))


def checked(templates: Sequence[str]) -> Sequence[str]:
    """``templates``, if they are all templates of rules; else raises UsageError."""
    for template in templates:
        if template not in (known := template_names(of_lists=False)):
            raise UsageError(f"unknown feature template {template!r}, expected any of {', '.join(known)}")
    return templates


def that_may_fire(names: Sequence[str], templates: Sequence[str]) -> list[str]:
    """The ``templates`` with whose prefix one of the ``names`` begins. Raises UsageError for an unknown template."""
    return [each for each in checked(templates) if any(name.startswith(TEMPLATES[each].prefix) for name in names)]


def _look_up(templates: Sequence[str]) -> list[OfRule]:
    return [TEMPLATES[template].fire for template in checked(templates)]


def fired_by(templates: Sequence[Callable[[T], Iterable[Fired]]], of: T) -> dict[str, float]:
    """The features of a rule, or of an entry of a list: of each name the sum of its values."""
    total: dict[str, float] = {}
    for template in templates:
        for each in template(of):
            name, value = (each, 1.0) if isinstance(each, str) else each
            name = without_separators(name)
            total[name] = total.get(name, 0.0) + value
    return total


def without_separators(text: str) -> str:
    """``text`` as part of a name: ``=`` and ``;``, which end a name in files, and control characters become _."""
    text = text.replace("=", "_").replace(";", "_")
    return text if text.isprintable() else text.translate(_CONTROLS)
