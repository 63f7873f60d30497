"""Formatting of extracted rules as the lines of a grammar file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.corpus.vocabulary import Names
from mpitune.grammar.extracted import FEATURES
from mpitune.grammar.formats import in_brackets
from mpitune.grammar.rules import Rules, RuleTypes
from mpitune.jit import kernel

_START = np.frombuffer(b"[X] ||| ", dtype=np.uint8)
_SEPARATOR = np.frombuffer(b" ||| ", dtype=np.uint8)
_GAPS = Names.of(["[X,1]", "[X,2]"])


class _Pieces(NamedTuple):
    """The strings that lines consist of, as UTF-8 (uint8); string i of ``x`` is ``x[x_ptr[i]:x_ptr[i + 1]]``."""

    word: np.ndarray
    """uint8"""
    word_ptr: np.ndarray
    """int64 [words + 1]"""
    gap: np.ndarray
    gap_ptr: np.ndarray
    score: np.ndarray
    """uint8: ``name=value`` for each value that a feature has."""
    score_ptr: np.ndarray
    start: np.ndarray
    separator: np.ndarray


def readable_types(types: RuleTypes, words: Names) -> np.ndarray:
    """bool [types]: False for types with a word such as ``[1]``, which a grammar file cannot tell from a gap."""
    gaps = [number for number, word in enumerate(words.all()) if in_brackets(word, 3)]
    source = np.diff(row_ends(np.isin(types.source, gaps))[types.source_ptr])
    target = np.diff(row_ends(np.isin(types.target, gaps))[types.target_ptr])
    readable: np.ndarray = (source[types.side] == 0) & (target[types.target_side] == 0)
    return readable


def rule_lines(rules: Rules, words: Names) -> bytes:
    """A line for each rule: ``[X] ||| source ||| target ||| name=value ... ||| alignment``; 12 digits."""
    texts: list[str] = []
    which = np.empty((len(rules.type), len(FEATURES)), dtype=np.int32)
    row = np.repeat(np.arange(len(rules.score_ptr) - 1), np.diff(rules.score_ptr))
    for k, name in enumerate(FEATURES):
        value, chosen = np.zeros(len(rules.score_ptr) - 1), rules.score_index == k
        value[row[chosen]] = rules.score_value[chosen]
        # There are few distinct values: each is formatted once.
        values, inverse = np.unique(value[rules.score_row], return_inverse=True)
        which[:, k] = inverse + len(texts)
        texts += [f"{name}={value:.12g}" for value in values.tolist()]
    scores = Names.of(texts)
    pieces = _Pieces(words.text, words.ptr, _GAPS.text, _GAPS.ptr, scores.text, scores.ptr, _START, _SEPARATOR)
    lines = np.empty(_lines(rules, which, pieces, np.empty(0, dtype=np.uint8)), dtype=np.uint8)
    _lines(rules, which, pieces, lines)
    return lines.tobytes()


@kernel
def _lines(rules: Rules, which: np.ndarray, pieces: _Pieces, lines: np.ndarray) -> int:
    """Write all lines to ``lines`` (uint8), or nothing if it is empty; returns their length in bytes.

    ``which``: int32 [rules, features], the string in ``pieces.score`` of each score.
    """
    end, types = 0, rules.types
    for r in range(len(which)):
        type_ = rules.type[r]
        side, target, alignment = types.side[type_], types.target_side[type_], types.alignment[type_]
        end = _put(pieces.start, 0, len(pieces.start), lines, end)
        end = _side(types.source, types.source_ptr[side], types.source_ptr[side + 1], True, pieces, lines, end)
        end = _put(pieces.separator, 0, len(pieces.separator), lines, end)
        end = _side(types.target, types.target_ptr[target], types.target_ptr[target + 1], False, pieces, lines, end)
        end = _put(pieces.separator, 0, len(pieces.separator), lines, end)
        for k in range(which.shape[1]):
            if k > 0:
                end = _byte(lines, end, 32)
            piece = which[r, k]
            end = _put(pieces.score, pieces.score_ptr[piece], pieces.score_ptr[piece + 1], lines, end)
        end = _put(pieces.separator, 0, len(pieces.separator), lines, end)
        for k in range(types.align_ptr[alignment], types.align_ptr[alignment + 1]):
            if k > types.align_ptr[alignment]:
                end = _byte(lines, end, 32)
            end = _number(types.align[k, 0], lines, end)
            end = _byte(lines, end, 45)  # -
            end = _number(types.align[k, 1], lines, end)
        end = _byte(lines, end, 10)
    return end


@kernel
def _side(
    symbols: np.ndarray, begin: int, last: int, is_source: bool, pieces: _Pieces, lines: np.ndarray, end: int
) -> int:
    """Write a side; the gaps of a source side are numbered in their order."""
    gaps = 0
    for k in range(begin, last):
        if k > begin:
            end = _byte(lines, end, 32)
        symbol = symbols[k]
        if symbol >= 0:
            end = _put(pieces.word, pieces.word_ptr[symbol], pieces.word_ptr[symbol + 1], lines, end)
        else:
            gap = gaps if is_source else -1 - symbol
            end = _put(pieces.gap, pieces.gap_ptr[gap], pieces.gap_ptr[gap + 1], lines, end)
            gaps += 1
    return end


@kernel
def _put(text: np.ndarray, begin: int, last: int, lines: np.ndarray, end: int) -> int:
    if len(lines) > 0:
        for k in range(begin, last):
            lines[end + k - begin] = text[k]
    return end + last - begin


@kernel
def _byte(lines: np.ndarray, end: int, byte: int) -> int:
    if len(lines) > 0:
        lines[end] = byte
    return end + 1


@kernel
def _number(number: int, lines: np.ndarray, end: int) -> int:
    """Write a position of one or two digits."""
    if number >= 10:
        end = _byte(lines, end, 48 + number // 10)
    return _byte(lines, end, 48 + number % 10)
