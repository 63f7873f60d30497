"""The rules of a grammar that fire given features, such as those with a weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mpitune.array_files.number_table import DistinctNumbers, NumberTable, place_of
from mpitune.corpus.hashing import hashed
from mpitune.grammar.fired import Spelling, Workspace, fire, most_fired, new_workspace, spelling
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.templates import GLUE, features, pass_through
from mpitune.jit import kernel

_PIECE = 1 << 20
"""Hits collected at a time."""


def rules_that_fire(
    spelling: Spelling, types: RuleTypes, wanted: DistinctNumbers
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rule types (int64 [n], ascending) and the places (int64 [n]) in ``wanted``, hashes of names, of what they
    fire; in parts of a million.
    """
    first, end, space = 0, len(types.side), new_workspace(_most_fired(spelling, types))
    while first < end:
        rules, places = np.empty(_PIECE + len(space.hash), dtype=np.int64), np.empty(_PIECE + len(space.hash), np.int64)
        first, hits = _find_rules(spelling, types, first, wanted.table, space, rules, places)
        yield rules[:hits], places[:hits]


def names_fired(
    templates: Sequence[str], types: RuleTypes, categories: Sequence[str], words: Sequence[str], names: Sequence[str]
) -> set[str]:
    """The ``names`` that some rule of ``types``, a glue rule, or the pass-through rule of a word fires.

    ``categories`` and ``words`` name the rules' symbols. Raises UsageError for an unknown template.
    """
    wanted = DistinctNumbers()
    places = wanted.add(hashed(names).hash)
    found = np.zeros(len(wanted), dtype=np.bool_)
    for _, hits in rules_that_fire(spelling(templates, types, categories, words), types, wanted):
        found[hits] = True
    fired = {name for rule in (*GLUE, *map(pass_through, words)) for name, _ in features(templates, rule)}
    return {name for name, place in zip(names, places.tolist(), strict=True) if found[place] or name in fired}


@kernel
def _most_fired(spelling: Spelling, types: RuleTypes) -> int:
    """The largest `most_fired` of all rule types."""
    most = 0
    for type_ in range(len(types.side)):
        most = max(most, most_fired(spelling, types, type_))
    return most


@kernel
def _find_rules(
    spelling: Spelling,
    types: RuleTypes,
    first: int,
    wanted: NumberTable,
    space: Workspace,
    rules: np.ndarray,
    places: np.ndarray,
) -> tuple[int, int]:
    """Write hits from rule type ``first`` on until `_PIECE` are found; returns the next rule type and their number."""
    hits = 0
    while first < len(types.side) and hits < _PIECE:
        for k in range(fire(spelling, types, first, space)):
            place = place_of(wanted, space.hash[k])
            if place >= 0:
                rules[hits] = first
                places[hits] = place
                hits += 1
        first += 1
    return first, hits
