"""Extracted grammars of many sentences as the arrays of a store: each rule type once, rules sorted for the decoder.

Ranks collect the grammars of their sentences; what they have collected is merged in the order of the sentences, so that
nothing in it tells how many ranks there were.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from mpitune.grammar.extract import Extracted
from mpitune.grammar.phrase_pairs import SYMBOLS
from mpitune.grammar.rules import PHRASE, Rules

_GAP = -1 - PHRASE
"""A gap of category X on the source side of a stored rule."""
_Type = tuple[bytes, bytes, bytes]
"""The source side, the target side and the alignment of a rule type."""


class Part(NamedTuple):
    """The grammars of some sentences; types and scores as in `Rules`."""

    number: np.ndarray
    """int64 [sentences]: which they are."""
    grammar_ptr: np.ndarray
    """int64 [sentences + 1]"""
    type: np.ndarray
    """int32 [rules]"""
    score_ptr: np.ndarray
    """int64 [rules + 1]"""
    score_index: np.ndarray
    """int32"""
    score_value: np.ndarray
    """float64"""
    source_ptr: np.ndarray
    """int64 [types + 1]"""
    source: np.ndarray
    """int32"""
    target_ptr: np.ndarray
    """int64 [types + 1]"""
    target: np.ndarray
    """int32"""
    align_ptr: np.ndarray
    """int64 [types + 1]"""
    align: np.ndarray
    """int16 [links, 2]"""


class Collector:
    """Collects grammars, one sentence after the other."""

    def __init__(self) -> None:
        self._types: dict[_Type, int] = {}
        self._numbers: list[int] = []
        self._rules: list[np.ndarray] = []
        self._scored: list[np.ndarray] = []
        self._index: list[np.ndarray] = []
        self._value: list[np.ndarray] = []

    def add(self, number: int, found: Extracted) -> None:
        """Add the grammar of sentence ``number``."""
        source = np.where(found.source < 0, np.int32(_GAP), found.source).astype(np.int32)
        sides = [
            _slices(source, found.source_ptr),
            _slices(found.target, found.target_ptr),
            _slices(found.align, found.align_ptr),
        ]
        types = self._types
        type_ = np.array([types.setdefault(key, len(types)) for key in zip(*sides, strict=True)], dtype=np.int32)
        order = _by_source(source, found.source_ptr)
        scores = found.score[order]
        row, index = np.nonzero(scores)
        self._numbers.append(number)
        self._rules.append(type_[order])
        self._scored.append(np.bincount(row, minlength=len(scores)))
        self._index.append(index.astype(np.int32))
        self._value.append(scores[row, index])

    def part(self) -> Part:
        """All that was collected."""
        none = [np.zeros(0, dtype=np.int64)]
        return Part(
            number=np.array(self._numbers, dtype=np.int64),
            grammar_ptr=_ends([len(rules) for rules in self._rules]),
            type=np.concatenate([*none, *self._rules]).astype(np.int32),
            score_ptr=_ends(np.concatenate([*none, *self._scored])),
            score_index=np.concatenate([*none, *self._index]).astype(np.int32),
            score_value=np.concatenate([*none, *self._value]).astype(np.float64),
            **_type_arrays(self._types),
        )


def merged(parts: Sequence[Part]) -> Rules:
    """The grammars of all ``parts``, which together have sentence 0, 1, ...; types are numbered as they come up."""
    places = sorted((int(number), p, k) for p, part in enumerate(parts) for k, number in enumerate(part.number))
    keys = [list(zip(*_sides(part), strict=True)) for part in parts]
    global_type = [np.full(len(of_part), -1, dtype=np.int32) for of_part in keys]
    types: dict[_Type, int] = {}
    rules, scored, index, value = [], [], [], []
    for _, p, k in places:
        part = parts[p]
        first, last = part.grammar_ptr[k : k + 2].tolist()
        local = part.type[first:last]
        for new in dict.fromkeys(local[global_type[p][local] < 0].tolist()):
            global_type[p][new] = types.setdefault(keys[p][new], len(types))
        rules.append(global_type[p][local])
        scored.append(np.diff(part.score_ptr[first : last + 1]))
        begin, end = part.score_ptr[[first, last]].tolist()
        index.append(part.score_index[begin:end])
        value.append(part.score_value[begin:end])
    none = [np.zeros(0, dtype=np.int64)]
    return Rules(
        lhs=np.full(len(types), PHRASE, dtype=np.int32),
        type=np.concatenate([*none, *rules]).astype(np.int32),
        score_ptr=_ends(np.concatenate([*none, *scored])),
        score_index=np.concatenate([*none, *index]).astype(np.int32),
        score_value=np.concatenate([*none, *value]).astype(np.float64),
        grammar_ptr=_ends([len(of_sentence) for of_sentence in rules]),
        **_type_arrays(types),
    )


def _type_arrays(types: Collection[_Type]) -> dict[str, np.ndarray]:
    source, target, align = zip(*types, strict=True) if types else ((), (), ())
    return {
        "source_ptr": _ends([len(text) // 4 for text in source]),
        "source": np.frombuffer(b"".join(source), dtype=np.int32),
        "target_ptr": _ends([len(text) // 4 for text in target]),
        "target": np.frombuffer(b"".join(target), dtype=np.int32),
        "align_ptr": _ends([len(text) // 4 for text in align]),
        "align": np.frombuffer(b"".join(align), dtype=np.int16).reshape(-1, 2),
    }


def _sides(part: Part) -> list[list[bytes]]:
    return [
        _slices(part.source, part.source_ptr),
        _slices(part.target, part.target_ptr),
        _slices(part.align, part.align_ptr),
    ]


def _slices(array: np.ndarray, ptr: np.ndarray) -> list[bytes]:
    """The bytes of each row; an element, or row of two int16, has four."""
    text, ends = array.tobytes(), (4 * ptr).tolist()
    return [text[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _by_source(source: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """The order of `Rules`: by source side, symbol by symbol, shorter ones first; equal ones as they were."""
    length = np.diff(ptr)
    symbols = np.full((len(length), SYMBOLS), np.iinfo(np.int32).min, dtype=np.int32)
    row = np.repeat(np.arange(len(length)), length)
    symbols[row, np.arange(len(source)) - ptr[row]] = source
    return np.lexsort(symbols.T[::-1])


def _ends(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
