"""Extracted grammars of many sentences as the arrays of a store, with distinct rule types and rows of scores.

Grammars of consecutive sentences are collected in a part. Parts are merged one after the other, in the order of the
sentences: the result does not depend on the division into parts, and memory holds distinct rows only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.arrays import Stored, add_prefix
from mpitune.array_files.csr import row_ends, select_rows
from mpitune.array_files.disk_array import DiskArray
from mpitune.array_files.row_table import DistinctRows
from mpitune.extraction.extracted import FEATURES, Extracted
from mpitune.extraction.phrase_pairs import SYMBOLS
from mpitune.grammar.rules import PHRASE, RuleTypes

_GAP = -1 - PHRASE
"""A gap of category X on the source side of a stored rule."""


class GrammarPart(NamedTuple):
    """The grammars of some sentences; types and rows of scores are numbered in the order of first occurrence."""

    grammar_ptr: np.ndarray
    """int64 [sentences + 1]"""
    type: np.ndarray
    """int32 [rules]: the type of each rule."""
    score_row: np.ndarray
    """int32 [rules]: the scores of each rule."""
    types: np.ndarray
    """int32 [types, 3]: the numbers of a type's source side, target side and alignment."""
    source_ptr: np.ndarray
    """int64 [source sides + 1]"""
    source: np.ndarray
    """int32, as in `RuleTypes`"""
    target_ptr: np.ndarray
    """int64 [target sides + 1]"""
    target: np.ndarray
    """int32, as in `RuleTypes`"""
    align_ptr: np.ndarray
    """int64 [alignments + 1]"""
    align: np.ndarray
    """int32: the two int16 of each link, side by side."""
    scores: np.ndarray
    """float64 [rows, 7]: `FEATURES`."""


class _Distinct:
    """Distinct rule types and rows of scores."""

    def __init__(self) -> None:
        self.source, self.target, self.align = DistinctRows(), DistinctRows(), DistinctRows()
        self._types = DistinctRows()
        self._scores = DistinctRows()

    def add_types(self, sides: Iterable[np.ndarray]) -> np.ndarray:
        """int32: numbers of types, from the numbers of their rows in `source`, `target` and `align`."""
        return self._types.add_matrix(np.stack(list(sides), axis=1))

    def add_scores(self, scores: np.ndarray) -> np.ndarray:
        """int32 [n]: numbers of the rows of ``scores`` (float64 [n, 7])."""
        return self._scores.add_matrix(np.ascontiguousarray(scores).view(np.int32))

    @property
    def types(self) -> np.ndarray:
        """int32 [types, 3]: as in `GrammarPart`"""
        return self._types.flat.reshape(-1, 3)

    @property
    def scores(self) -> np.ndarray:
        """float64 [rows, 7]"""
        return self._scores.flat.view(np.float64).reshape(-1, len(FEATURES))


class Collector:
    """Collects grammars, one sentence after the other."""

    def __init__(self) -> None:
        self._distinct = _Distinct()
        self._types: list[np.ndarray] = []
        self._score_rows: list[np.ndarray] = []
        self.rules = 0
        """Number of rules collected."""

    def add(self, found: Extracted) -> None:
        """Add the grammar of the next sentence."""
        distinct = self._distinct
        source = np.where(found.source < 0, np.int32(_GAP), found.source).astype(np.int32)
        order = _by_source(source, found.source_ptr)
        align = np.ascontiguousarray(found.align).view(np.int32).ravel()
        sides = (
            distinct.source.add(found.source_ptr, source),
            distinct.target.add(found.target_ptr, found.target),
            distinct.align.add(found.align_ptr, align),
        )
        self._types.append(distinct.add_types(side[order] for side in sides))
        self._score_rows.append(distinct.add_scores(found.score[order]))
        self.rules += len(order)

    def part(self) -> GrammarPart:
        """The grammars collected so far."""
        distinct = self._distinct
        none = [np.zeros(0, dtype=np.int32)]
        return GrammarPart(
            grammar_ptr=row_ends([len(of_sentence) for of_sentence in self._types]),
            type=np.concatenate([*none, *self._types]),
            score_row=np.concatenate([*none, *self._score_rows]),
            types=distinct.types,
            source_ptr=distinct.source.ptr,
            source=distinct.source.flat,
            target_ptr=distinct.target.ptr,
            target=distinct.target.flat,
            align_ptr=distinct.align.ptr,
            align=distinct.align.flat,
            scores=distinct.scores,
        )


def merged(parts: Iterable[GrammarPart], folder: Path) -> dict[str, Stored]:
    """The arrays of `ListedGrammars` for storage, with the grammars of all ``parts``, in their order.

    Types and rows of scores are numbered in the order of first occurrence. ``folder``: the folder of temporary files
    for the arrays with an element for each rule of each sentence.
    """
    distinct, type_, score_row, lengths = (
        _Distinct(),
        DiskArray(folder),
        DiskArray(folder),
        [np.zeros(0, dtype=np.int64)],
    )
    for part in parts:
        sides = (
            distinct.source.add(part.source_ptr, part.source),
            distinct.target.add(part.target_ptr, part.target),
            distinct.align.add(part.align_ptr, part.align),
        )
        types = distinct.add_types(side[part.types[:, n]] for n, side in enumerate(sides))
        type_.append(types[part.type])
        score_row.append(distinct.add_scores(part.scores)[part.score_row])
        lengths.append(np.diff(part.grammar_ptr))
    types, scores = distinct.types, distinct.scores
    side, target_side, alignment = np.ascontiguousarray(types.T)
    target_ptr, target = select_rows(distinct.target.ptr, distinct.target.flat, target_side)
    rule_types = RuleTypes(
        side=side,
        lhs=np.full(len(distinct.source), PHRASE, dtype=np.int32),
        source_ptr=distinct.source.ptr,
        source=distinct.source.flat,
        target_ptr=target_ptr,
        target=target,
        alignment=alignment,
        align_ptr=distinct.align.ptr,
        align=distinct.align.flat.view(np.int16).reshape(-1, 2),
    )
    kept = scores != 0.0
    rules: dict[str, Stored] = {
        "type": type_,
        "score_row": score_row,
        "score_ptr": row_ends(kept.sum(axis=1)),
        "score_index": np.broadcast_to(np.arange(len(FEATURES), dtype=np.int32), kept.shape)[kept],
        "score_value": scores[kept],
    }
    arrays = add_prefix("types", rule_types._asdict()) | add_prefix("rules", rules)
    return {**arrays, "grammar_ptr": row_ends(np.concatenate(lengths))}


def _by_source(source: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """The order of `Rules`: lexicographic by source side, prefixes first; stable."""
    length = np.diff(ptr)
    symbols = np.full((len(length), SYMBOLS), np.iinfo(np.int32).min, dtype=np.int32)
    row = np.repeat(np.arange(len(length)), length)
    symbols[row, np.arange(len(source)) - ptr[row]] = source
    return np.lexsort(symbols.T[::-1])
