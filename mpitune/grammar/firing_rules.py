"""The rules of a grammar that fire given features, such as those with a weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mpitune.array_files.number_table import DistinctNumbers, NumberTable, place_of
from mpitune.corpus.hashing import hashed
from mpitune.grammar.fired import Speller, Spelling, Workspace, fire, most_fired, new_workspace
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.templates import GLUE, features, pass_through, that_may_fire
from mpitune.jit import kernel

_PIECE = 1 << 20
"""Rules looked at, and hits collected, at a time."""


def rules_that_fire(
    templates: Sequence[str],
    types: RuleTypes,
    categories: Sequence[str],
    words: Sequence[str],
    names: Sequence[str],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rule types (int64 [n], ascending) and the places (int64 [n]) in ``names``, distinct, of what they fire; in
    parts of at most a million.

    ``categories`` and ``words`` name the rules' symbols. Raises UsageError for an unknown template.
    """
    wanted, templates = DistinctNumbers(), that_may_fire(names, templates)
    wanted.add(hashed(names).hash)
    for begin in range(0, len(types.side) if templates else 0, _PIECE):
        first, end = begin, min(begin + _PIECE, len(types.side))
        # A new speller for each piece: what templates without a kernel fire on all rules may not fit into memory.
        spelling = Speller(templates, types, categories, words).of(np.arange(first, end, dtype=np.int32))
        space = new_workspace(_most_fired(spelling, types, first, end))
        while first < end:
            rules, places = (np.empty(_PIECE + len(space.hash), dtype=np.int64) for _ in range(2))
            first, hits = _find_rules(spelling, types, first, end, wanted.table, space, rules, places)
            yield rules[:hits], places[:hits]


def names_fired(
    templates: Sequence[str], types: RuleTypes, categories: Sequence[str], words: Sequence[str], names: Sequence[str]
) -> set[str]:
    """The ``names`` that some rule of ``types``, a glue rule, or the pass-through rule of a word fires.

    ``categories`` and ``words`` name the rules' symbols. Raises UsageError for an unknown template.
    """
    distinct = list(dict.fromkeys(names))
    found = np.zeros(len(distinct), dtype=np.bool_)
    for _, hits in rules_that_fire(templates, types, categories, words, distinct):
        found[hits] = True
    templates = that_may_fire(distinct, templates)
    fired = {name for rule in (*GLUE, *map(pass_through, words)) for name, _ in features(templates, rule)}
    return {name for name, is_found in zip(distinct, found.tolist(), strict=True) if is_found or name in fired}


@kernel
def _most_fired(spelling: Spelling, types: RuleTypes, first: int, end: int) -> int:
    """The largest `most_fired` of the rule types from ``first`` to ``end``, exclusive."""
    most = 0
    for type_ in range(first, end):
        most = max(most, most_fired(spelling, types, type_))
    return most


@kernel
def _find_rules(
    spelling: Spelling,
    types: RuleTypes,
    first: int,
    end: int,
    wanted: NumberTable,
    space: Workspace,
    rules: np.ndarray,
    places: np.ndarray,
) -> tuple[int, int]:
    """Write hits of the rule types from ``first`` to ``end``, exclusive, until `_PIECE` are found.

    Returns the next rule type and their number.
    """
    hits = 0
    while first < end and hits < _PIECE:
        for k in range(fire(spelling, types, first, space)):
            place = place_of(wanted, space.hash[k])
            if place >= 0:
                rules[hits] = first
                places[hits] = place
                hits += 1
        first += 1
    return first, hits
