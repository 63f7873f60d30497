"""Extracted grammars of many sentences as the arrays of a store: each rule type and each row of scores once.

Ranks collect the grammars of their sentences; what they have collected is merged in the order of the sentences, so that
nothing in it tells how many ranks there were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mpitune.corpus.distinct import DistinctRows
from mpitune.corpus.rows import chosen, ends
from mpitune.grammar.extract import FEATURES, Extracted
from mpitune.grammar.phrase_pairs import SYMBOLS
from mpitune.grammar.rules import PHRASE, Rules

_GAP = -1 - PHRASE
"""A gap of category X on the source side of a stored rule."""


class Part(NamedTuple):
    """The grammars of some sentences."""

    number: np.ndarray
    """int64 [sentences]: which they are."""
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
    """int32, as in `Rules`"""
    target_ptr: np.ndarray
    """int64 [target sides + 1]"""
    target: np.ndarray
    """int32, as in `Rules`"""
    align_ptr: np.ndarray
    """int64 [alignments + 1]"""
    align: np.ndarray
    """int32: the two int16 of each link, side by side."""
    scores: np.ndarray
    """float64 [rows, 7]: `FEATURES`."""


class _Rules:
    """Distinct rule types and rows of scores."""

    def __init__(self) -> None:
        self.sides = DistinctRows(), DistinctRows(), DistinctRows()
        self.types = DistinctRows()
        self.scores = DistinctRows()

    def add_scores(self, scores: np.ndarray) -> np.ndarray:
        """Numbers of rows, float64 [n, 7]."""
        return self.scores.add_matrix(np.ascontiguousarray(scores).view(np.int32))


class Collector:
    """Collects grammars, one sentence after the other."""

    def __init__(self) -> None:
        self._distinct = _Rules()
        self._numbers: list[int] = []
        self._types: list[np.ndarray] = []
        self._score_rows: list[np.ndarray] = []

    def add(self, number: int, found: Extracted) -> None:
        """Add the grammar of sentence ``number``."""
        source = np.where(found.source < 0, np.int32(_GAP), found.source).astype(np.int32)
        order = _by_source(source, found.source_ptr)
        align = np.ascontiguousarray(found.align).view(np.int32).ravel()
        given = (found.source_ptr, source), (found.target_ptr, found.target), (found.align_ptr, align)
        sides = [of_all.add(*of_sentence) for of_all, of_sentence in zip(self._distinct.sides, given, strict=True)]
        self._numbers.append(number)
        self._types.append(self._distinct.types.add_matrix(np.stack(sides, axis=1))[order])
        self._score_rows.append(self._distinct.add_scores(found.score)[order])

    def part(self) -> Part:
        """All that was collected."""
        distinct = self._distinct
        source, target, align = distinct.sides
        none = [np.zeros(0, dtype=np.int32)]
        return Part(
            number=np.array(self._numbers, dtype=np.int64),
            grammar_ptr=ends([len(of_sentence) for of_sentence in self._types]),
            type=np.concatenate([*none, *self._types]),
            score_row=np.concatenate([*none, *self._score_rows]),
            types=distinct.types.flat.reshape(-1, 3),
            source_ptr=source.ptr,
            source=source.flat,
            target_ptr=target.ptr,
            target=target.flat,
            align_ptr=align.ptr,
            align=align.flat,
            scores=distinct.scores.flat.view(np.float64).reshape(-1, len(FEATURES)),
        )


def merged(parts: Sequence[Part]) -> Rules:
    """The grammars of all ``parts``, which together have sentence 0, 1, ...

    Types and rows of scores are numbered as they come up.
    """
    places = sorted((int(number), p, k) for p, part in enumerate(parts) for k, number in enumerate(part.number))
    distinct = _Rules()
    types_of = [_renumbered_sides(part, distinct.sides) for part in parts]
    new_type, new_row = (
        [np.full(len(rows), -1, dtype=np.int32) for rows in of_parts]
        for of_parts in (types_of, [part.scores for part in parts])
    )
    type_ = np.empty(sum(len(part.type) for part in parts), dtype=np.int32)
    score_row, lengths, end = np.empty_like(type_), [], 0
    for _, p, k in places:
        part = parts[p]
        first, last = part.grammar_ptr[k : k + 2].tolist()
        here = slice(end, end := end + last - first)
        type_[here] = _renumbered(part.type[first:last], new_type[p], types_of[p], distinct.types.add_matrix)
        score_row[here] = _renumbered(part.score_row[first:last], new_row[p], part.scores, distinct.add_scores)
        lengths.append(last - first)
    types = distinct.types.flat.reshape(-1, 3)
    source, target, align = (chosen(side.ptr, side.flat, types[:, n]) for n, side in enumerate(distinct.sides))
    scores = distinct.scores.flat.view(np.float64).reshape(-1, len(FEATURES))
    row, index = np.nonzero(scores)
    return Rules(
        lhs=np.full(len(types), PHRASE, dtype=np.int32),
        source_ptr=source[0],
        source=source[1],
        target_ptr=target[0],
        target=target[1],
        align_ptr=align[0],
        align=align[1].view(np.int16).reshape(-1, 2),
        type=type_,
        score_row=score_row,
        score_ptr=ends(np.bincount(row, minlength=len(scores))),
        score_index=index.astype(np.int32),
        score_value=scores[row, index],
        grammar_ptr=ends(lengths),
    )


def _renumbered_sides(part: Part, sides: Sequence[DistinctRows]) -> np.ndarray:
    """``part.types`` with the numbers that ``sides`` give to source sides, target sides and alignments."""
    given = (part.source_ptr, part.source), (part.target_ptr, part.target), (part.align_ptr, part.align)
    numbers = [of_all.add(*of_part) for of_all, of_part in zip(sides, given, strict=True)]
    return np.stack([number[part.types[:, n]] for n, number in enumerate(numbers)], axis=1)


def _renumbered(
    old: np.ndarray, new: np.ndarray, rows: np.ndarray, add: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The ``new`` numbers (-1 where there is none yet) of the ``rows`` numbered ``old``; ``add`` gives out more."""
    lacking = old[new[old] < 0]
    new[lacking] = add(rows[lacking])
    renumbered: np.ndarray = new[old]
    return renumbered


def _by_source(source: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """The order of `Rules`: by source side, symbol by symbol, shorter ones first; equal ones as they were."""
    length = np.diff(ptr)
    symbols = np.full((len(length), SYMBOLS), np.iinfo(np.int32).min, dtype=np.int32)
    row = np.repeat(np.arange(len(length)), length)
    symbols[row, np.arange(len(source)) - ptr[row]] = source
    return np.lexsort(symbols.T[::-1])
