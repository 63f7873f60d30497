"""Features of rules by templates without a kernel, which are functions in Python: each rule type is asked for once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.array_files.number_table import DistinctNumbers, NumberTable
from mpitune.array_files.row_table import enlarged
from mpitune.corpus.hashing import hashed
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.templates import fired_by_types

_AT_ONCE = 1 << 16
"""Rule types whose features are in memory as text."""


class Listed(NamedTuple):
    """The features of those rule types that have been met."""

    types: NumberTable
    """The rule types: that of place p fires the features ``ptr[p]`` to ``ptr[p + 1]``."""
    ptr: np.ndarray
    """int64"""
    hash: np.ndarray
    """uint64: hashes of names."""
    value: np.ndarray
    """float64"""


class ListedFeatures:
    """Lists what ``templates`` fire, for the rule types of the grammars that are opened.

    A store has many more: most source sides have more translations than a grammar keeps, and another rank has other
    sentences.
    """

    def __init__(
        self, templates: Sequence[str], types: RuleTypes, categories: Sequence[str], words: Sequence[str]
    ) -> None:
        """``categories`` and ``words`` name the symbols of ``types``."""
        self._templates, self._types, self._categories, self._words = templates, types, categories, words
        self._met = DistinctNumbers()
        self._ptr = np.zeros(1, dtype=np.int64)
        self._hash, self._value = np.zeros(0, dtype=np.uint64), np.zeros(0)

    def of(self, types: np.ndarray) -> Listed:
        """The features of ``types`` (int32 [n]), and of all those of earlier calls."""
        if self._templates:
            new = np.unique(types[self._met.find(types.astype(np.uint64)) < 0])
            for first in range(0, len(new), _AT_ONCE):
                self._append(new[first : first + _AT_ONCE])
        return Listed(self._met.table, self._ptr, self._hash, self._value)

    def _append(self, types: np.ndarray) -> None:
        """List the features of ``types`` (int32 [n]), which are distinct and new."""
        place = len(self._met)
        listed = list(fired_by_types(self._templates, self._types, types, self._categories, self._words))
        begin = int(self._ptr[place])
        ends = begin + np.cumsum([len(of_type) for of_type in listed])
        self._ptr = enlarged(self._ptr, place + len(types) + 1)
        self._ptr[place + 1 : place + len(types) + 1] = ends
        self._hash, self._value = enlarged(self._hash, int(ends[-1])), enlarged(self._value, int(ends[-1]))
        self._hash[begin : ends[-1]] = hashed(name for of_type in listed for name in of_type).hash
        self._value[begin : ends[-1]] = [value for of_type in listed for value in of_type.values()]
        self._met.add(types.astype(np.uint64))
