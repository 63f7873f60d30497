"""Compiled parser of the n-gram lines of an ARPA file; it reads them from blocks of bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.corpus.word_table import WordTable, word_slot
from mpitune.jit import inlined, kernel
from mpitune.lm.ngram_table import EXTENDS_RIGHT, UNKNOWN, LanguageModel, add_ngram
from mpitune.portable_math import whole_power

# Return codes of the kernels: end of the section, end of the block, hash table full; then errors in the current line.
DONE, BLOCK_DONE, TABLE_FULL = range(3)
NO_NGRAM, BAD_FIELD_COUNT, BAD_PROBABILITY, BAD_BACKOFF, LAST_BACKOFF, UNKNOWN_WORD, DUPLICATE = range(3, 10)

# Indices in `Parser.state`: n-grams left in this section; lines read; begin and end of the next line in the block;
# the invalid field; words numbered; table slots in use.
REMAINING, LINES, POSITION, LINE_END, BAD_FIELD, WORDS, USED = range(7)

_NEWLINE, _RETURN, _BLANK, _TAB, _BACKSLASH = 10, 13, 32, 9, 92
_PLUS, _MINUS, _POINT, _ZERO, _BIG_E, _SMALL_E = 43, 45, 46, 48, 69, 101
_UNKNOWN_IN_CAPITALS = tuple(b"<UNK>")
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class Parser(NamedTuple):
    """The block being parsed, the position in it, and the current line."""

    text: np.ndarray
    """uint8: a block of the file."""
    state: np.ndarray
    """int64 [7], indexed by `REMAINING` to `USED`."""
    field: np.ndarray
    """int64 [order + 3, 2]: begin and end of each field of the current line."""
    value: np.ndarray
    """float64 [2]: probability and backoff of the current line."""
    word: np.ndarray
    """int64 [order]: word numbers of the current line."""


@kernel
def read_unigrams(parser: Parser, filled: int, order: int, table: WordTable, unigrams: np.ndarray) -> int:
    """Read 1-grams up to the end of the section or of the block; returns a return code.

    Numbers the words, adds them to ``table`` and fills their nodes in ``unigrams`` (NODE).
    """
    state, field = parser.state, parser.field
    while state[REMAINING] > 0:
        code = _read_line(parser, filled, 1, order)
        if code != DONE:
            return code
        begin, end = field[1, 0], field[1, 1]
        slot = word_slot(table, parser.text, begin, end)
        if table.slot[slot] != 0:
            return DUPLICATE
        word = _add_word(parser, table, begin, end)
        table.slot[slot] = word + 1
        node = unigrams[word]
        node["prob"] = parser.value[0]
        node["backoff"] = parser.value[1]
        node["key"] = EXTENDS_RIGHT if node["backoff"] != 0 else 0
        _next_line(state)
    return DONE


@kernel
def _add_word(parser: Parser, table: WordTable, begin: int, end: int) -> int:
    """Number a new word: `UNKNOWN` for ``<unk>``, whose text is in ``table`` already, else the next free number."""
    length = table.ptr[1]
    k = 0
    if end - begin == length:
        while k < length and parser.text[begin + k] == table.text[k]:
            k += 1
    if k == length:
        return UNKNOWN
    word: int = parser.state[WORDS]
    start = table.ptr[word]
    for k in range(end - begin):
        table.text[start + k] = parser.text[begin + k]
    table.ptr[word + 1] = start + end - begin
    parser.state[WORDS] += 1
    return word


@kernel
def read_ngrams(parser: Parser, filled: int, n: int, table: WordTable, lm: LanguageModel, max_used: int) -> int:
    """Read n-grams into ``lm`` up to the end of the section or of the block; returns a return code.

    ``max_used``: the largest number of table slots in use.
    """
    state, field, word = parser.state, parser.field, parser.word
    while state[REMAINING] > 0:
        code = _read_line(parser, filled, n, lm.order)
        if code != DONE:
            return code
        for k in range(n):
            number = table.slot[word_slot(table, parser.text, field[k + 1, 0], field[k + 1, 1])]
            if number == 0:
                state[BAD_FIELD] = k + 1
                return UNKNOWN_WORD
            word[k] = number - 1
        if state[USED] + n * n > max_used:
            return TABLE_FULL
        used = add_ngram(lm, word, n, parser.value[0], parser.value[1])
        if used == 0:
            return DUPLICATE
        state[USED] += used
        _next_line(state)
    return DONE


@kernel
def _next_line(state: np.ndarray) -> None:
    state[POSITION] = state[LINE_END] + 1
    state[LINES] += 1
    state[REMAINING] -= 1


@kernel
def _read_line(parser: Parser, filled: int, n: int, order: int) -> int:
    """Split the line of an n-gram into fields and parse its numbers; returns DONE or an error code."""
    field = parser.field
    fields = _split(parser, filled)
    if fields < 0:
        return BLOCK_DONE
    if fields == 0 or parser.text[field[0, 0]] == _BACKSLASH:
        return NO_NGRAM
    if fields != n + 1 and fields != n + 2:
        return BAD_FIELD_COUNT
    parser.value[0] = _parse_number(parser.text, field[0, 0], field[0, 1])
    parser.value[1] = 0.0 if fields == n + 1 else _parse_number(parser.text, field[n + 1, 0], field[n + 1, 1])
    if n == order and parser.value[1] != 0.0:
        # No n-gram is longer: a backoff of 0, which some programs write, says no more. What is no number is a word.
        parser.state[BAD_FIELD] = n + 1
        return BAD_FIELD_COUNT if np.isnan(parser.value[1]) else LAST_BACKOFF
    if not parser.value[0] <= 0.0:
        parser.state[BAD_FIELD] = 0
        return BAD_PROBABILITY
    if np.isnan(parser.value[1]):
        parser.state[BAD_FIELD] = n + 1
        return BAD_BACKOFF
    return DONE


@kernel
def _split(parser: Parser, filled: int) -> int:
    """Find the fields of the next line; returns their number, -1 if the line extends past ``filled``."""
    text, field = parser.text, parser.field
    fields = 0
    inside = False
    for i in range(parser.state[POSITION], filled):
        byte = text[i]
        if byte in (_BLANK, _TAB, _RETURN, _NEWLINE):
            if inside:
                field[fields - 1, 1] = i
                _rename_unknown(text, field[fields - 1, 0], i)
                inside = False
            if byte == _NEWLINE:
                parser.state[LINE_END] = i
                return fields
        elif not inside:
            inside = True
            # Surplus fields overwrite the last entry.
            fields = min(fields + 1, len(field))
            field[fields - 1, 0] = i
    return -1


@inlined
def _rename_unknown(text: np.ndarray, begin: int, end: int) -> None:
    """Write the name ``<UNK>`` of some files in small letters; it means the same, as in KenLM."""
    if end - begin != len(_UNKNOWN_IN_CAPITALS):
        return
    for k in range(end - begin):
        if text[begin + k] != _UNKNOWN_IN_CAPITALS[k]:
            return
    for k in range(1, end - begin - 1):
        text[begin + k] += _SMALL_E - _BIG_E


@kernel
def _parse_number(text: np.ndarray, begin: int, end: int) -> float:
    """Parse ``text[begin:end]`` as a decimal number; nan if it is not one or too large for a float32."""
    i = begin
    negative = text[i] == _MINUS
    if text[i] == _MINUS or text[i] == _PLUS:
        i += 1
    digits, mantissa, scale, past_point = 0, 0, 0, False
    while i < end:
        digit = int(text[i]) - _ZERO
        if 0 <= digit <= 9:
            digits += 1
            # 18 digits fit an int64; further ones do not change a float32.
            if mantissa < 10**17:
                mantissa = mantissa * 10 + digit
                scale -= 1 if past_point else 0
            else:
                scale += 0 if past_point else 1
        elif text[i] == _POINT and not past_point:
            past_point = True
        else:
            break
        i += 1
    if digits == 0:
        return np.nan
    if i < end and (text[i] == _SMALL_E or text[i] == _BIG_E):
        i += 1
        negative_exponent = i < end and text[i] == _MINUS
        if i < end and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        if i == end:
            return np.nan
        exponent = 0
        while i < end and 0 <= int(text[i]) - _ZERO <= 9:
            exponent = min(exponent * 10 + int(text[i]) - _ZERO, 9999)
            i += 1
        scale += -exponent if negative_exponent else exponent
    if i < end:
        return np.nan
    # Powers of ten up to 10**22 are exact, so a single step, the usual case, rounds once.
    value = float(mantissa)
    while scale < 0 and value > 0.0:
        step = min(-scale, 22)
        value /= whole_power(10.0, step)
        scale += step
    while scale > 0 and 0.0 < value <= _FLOAT32_MAX:
        step = min(scale, 22)
        value *= whole_power(10.0, step)
        scale -= step
    if value > _FLOAT32_MAX:
        return np.nan
    return -value if negative else value
