"""Formatting of extracted rules as the lines of a grammar file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.corpus.vocabulary import Names
from mpitune.extraction.extracted import FEATURES, Extracted
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


def rule_lines(extracted: Extracted, words: Names) -> bytes:
    """A line for each rule: ``[X] ||| source ||| target ||| name=value ... ||| alignment``; 12 digits."""
    texts: list[str] = []
    which = np.empty(extracted.score.shape, dtype=np.int32)
    for k, name in enumerate(FEATURES):
        # There are few distinct values: each is formatted once.
        values, inverse = np.unique(extracted.score[:, k], return_inverse=True)
        which[:, k] = inverse + len(texts)
        texts += [f"{name}={value:.12g}" for value in values.tolist()]
    scores = Names.of(texts)
    pieces = _Pieces(words.text, words.ptr, _GAPS.text, _GAPS.ptr, scores.text, scores.ptr, _START, _SEPARATOR)
    lines = np.empty(_lines(extracted, which, pieces, np.empty(0, dtype=np.uint8)), dtype=np.uint8)
    _lines(extracted, which, pieces, lines)
    return lines.tobytes()


@kernel
def _lines(extracted: Extracted, which: np.ndarray, pieces: _Pieces, lines: np.ndarray) -> int:
    """Write all lines to ``lines`` (uint8), or nothing if it is empty; returns their length in bytes.

    ``which``: int32 [rules, features], the string in ``pieces.score`` of each score.
    """
    end = 0
    for r in range(len(which)):
        end = _put(pieces.start, 0, len(pieces.start), lines, end)
        end = _side(extracted.source, extracted.source_ptr[r], extracted.source_ptr[r + 1], pieces, lines, end)
        end = _put(pieces.separator, 0, len(pieces.separator), lines, end)
        end = _side(extracted.target, extracted.target_ptr[r], extracted.target_ptr[r + 1], pieces, lines, end)
        end = _put(pieces.separator, 0, len(pieces.separator), lines, end)
        for k in range(which.shape[1]):
            if k > 0:
                end = _byte(lines, end, 32)
            piece = which[r, k]
            end = _put(pieces.score, pieces.score_ptr[piece], pieces.score_ptr[piece + 1], lines, end)
        end = _put(pieces.separator, 0, len(pieces.separator), lines, end)
        for k in range(extracted.align_ptr[r], extracted.align_ptr[r + 1]):
            if k > extracted.align_ptr[r]:
                end = _byte(lines, end, 32)
            end = _number(extracted.align[k, 0], lines, end)
            end = _byte(lines, end, 45)  # -
            end = _number(extracted.align[k, 1], lines, end)
        end = _byte(lines, end, 10)
    return end


@kernel
def _side(symbols: np.ndarray, begin: int, last: int, pieces: _Pieces, lines: np.ndarray, end: int) -> int:
    for k in range(begin, last):
        if k > begin:
            end = _byte(lines, end, 32)
        symbol = symbols[k]
        if symbol >= 0:
            end = _put(pieces.word, pieces.word_ptr[symbol], pieces.word_ptr[symbol + 1], lines, end)
        else:
            end = _put(pieces.gap, pieces.gap_ptr[-1 - symbol], pieces.gap_ptr[-symbol], lines, end)
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
