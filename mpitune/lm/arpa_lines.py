"""The n-gram lines of an ARPA file, read by a compiled parser out of blocks of bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.jit import kernel
from mpitune.lm.ngram_table import EXTENDS_RIGHT, UNKNOWN, LanguageModel, WordTable, add_ngram, word_slot

# Why a kernel comes back; from NO_NGRAM on, errors of the line at hand.
DONE, BLOCK_DONE, TABLE_FULL, NO_NGRAM, FIELDS, PROBABILITY, BACKOFF, UNKNOWN_WORD, DUPLICATE = range(9)

# Places in `Parser.at`: n-grams of this section still to come; lines read; where in the block the next line begins, and
# where it ends; which of its fields is wrong; words numbered; slots of the table in use.
TO_COME, LINES, POSITION, LINE_END, WRONG, WORDS, USED = range(7)

_NEWLINE, _RETURN, _BLANK, _TAB, _BACKSLASH = 10, 13, 32, 9, 92
_PLUS, _MINUS, _POINT, _ZERO, _BIG_E, _SMALL_E = 43, 45, 46, 48, 69, 101
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class Parser(NamedTuple):
    """What the kernels read, and how far they are."""

    text: np.ndarray
    """uint8: a block of the file."""
    at: np.ndarray
    """int64 [7], by the names above."""
    field: np.ndarray
    """int64 [order + 3, 2]: the fields of the line at hand, from and to."""
    value: np.ndarray
    """float64 [2]: its probability and backoff."""
    word: np.ndarray
    """int64 [order]: its words."""


@kernel
def read_unigrams(parser: Parser, filled: int, order: int, table: WordTable, unigrams: np.ndarray) -> int:
    """Read 1-grams up to the end of the section or of the block; returns why it stops.

    The words are numbered and put into ``table``, their nodes into ``unigrams`` (NODE).
    """
    at, field = parser.at, parser.field
    while at[TO_COME] > 0:
        code = _read_line(parser, filled, 1, order)
        if code != DONE:
            return code
        begin, end = field[1, 0], field[1, 1]
        place = word_slot(table, parser.text, begin, end)
        if table.slot[place] != 0:
            return DUPLICATE
        word = _new_word(parser, table, begin, end)
        table.slot[place] = word + 1
        node = unigrams[word]
        node["prob"] = parser.value[0]
        node["backoff"] = parser.value[1]
        node["key"] = EXTENDS_RIGHT if node["backoff"] != 0 else 0
        _next_line(at)
    return DONE


@kernel
def _new_word(parser: Parser, table: WordTable, begin: int, end: int) -> int:
    """The number of a word that was not met before: `UNKNOWN`, which has its text already, or the next one."""
    length = table.ptr[1]
    k = 0
    if end - begin == length:
        while k < length and parser.text[begin + k] == table.text[k]:
            k += 1
    if k == length:
        return UNKNOWN
    word: int = parser.at[WORDS]
    start = table.ptr[word]
    for k in range(end - begin):
        table.text[start + k] = parser.text[begin + k]
    table.ptr[word + 1] = start + end - begin
    parser.at[WORDS] += 1
    return word


@kernel
def read_ngrams(parser: Parser, filled: int, n: int, table: WordTable, lm: LanguageModel, limit: int) -> int:
    """Read n-grams into ``lm`` up to the end of the section or of the block; returns why it stops.

    ``limit``: how many slots of the table may be in use.
    """
    at, field, word = parser.at, parser.field, parser.word
    while at[TO_COME] > 0:
        code = _read_line(parser, filled, n, lm.order)
        if code != DONE:
            return code
        for k in range(n):
            number = table.slot[word_slot(table, parser.text, field[k + 1, 0], field[k + 1, 1])]
            if number == 0:
                at[WRONG] = k + 1
                return UNKNOWN_WORD
            word[k] = number - 1
        if at[USED] + n * n > limit:
            return TABLE_FULL
        used = add_ngram(lm, word, n, parser.value[0], parser.value[1])
        if used == 0:
            return DUPLICATE
        at[USED] += used
        _next_line(at)
    return DONE


@kernel
def _next_line(at: np.ndarray) -> None:
    at[POSITION] = at[LINE_END] + 1
    at[LINES] += 1
    at[TO_COME] -= 1


@kernel
def _read_line(parser: Parser, filled: int, n: int, order: int) -> int:
    """Split the line of an n-gram into fields and read its numbers; returns DONE or why not."""
    field = parser.field
    fields = _split(parser, filled)
    if fields < 0:
        return BLOCK_DONE
    if fields == 0 or parser.text[field[0, 0]] == _BACKSLASH:
        return NO_NGRAM
    if fields != n + 1 and (fields != n + 2 or n == order):
        return FIELDS
    parser.value[0] = _number(parser.text, field[0, 0], field[0, 1])
    parser.value[1] = 0.0 if fields == n + 1 else _number(parser.text, field[n + 1, 0], field[n + 1, 1])
    if not parser.value[0] <= 0.0:
        parser.at[WRONG] = 0
        return PROBABILITY
    if np.isnan(parser.value[1]):
        parser.at[WRONG] = n + 1
        return BACKOFF
    return DONE


@kernel
def _split(parser: Parser, filled: int) -> int:
    """Find the fields of the next line; returns how many there are, -1 if the line goes on past ``filled``."""
    text, field = parser.text, parser.field
    fields = 0
    inside = False
    for i in range(parser.at[POSITION], filled):
        byte = text[i]
        if byte in (_BLANK, _TAB, _RETURN, _NEWLINE):
            if inside:
                field[fields - 1, 1] = i
                inside = False
            if byte == _NEWLINE:
                parser.at[LINE_END] = i
                return fields
        elif not inside:
            inside = True
            # Fields beyond those that any line has share the last place.
            fields = min(fields + 1, len(field))
            field[fields - 1, 0] = i
    return -1


@kernel
def _number(text: np.ndarray, begin: int, end: int) -> float:
    """The decimal number that is all of ``text[begin:end]``, nan if that is none or too large for a float32."""
    i = begin
    negative = text[i] == _MINUS
    if text[i] == _MINUS or text[i] == _PLUS:
        i += 1
    digits, mantissa, scale, past_point = 0, 0, 0, False
    while i < end:
        digit = int(text[i]) - _ZERO
        if 0 <= digit <= 9:
            digits += 1
            # 18 digits fit an int64; a float32 cannot tell what further ones are.
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
        small = i < end and text[i] == _MINUS
        if i < end and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        if i == end:
            return np.nan
        exponent = 0
        while i < end and 0 <= int(text[i]) - _ZERO <= 9:
            exponent = min(exponent * 10 + int(text[i]) - _ZERO, 9999)
            i += 1
        scale += -exponent if small else exponent
    if i < end:
        return np.nan
    # A power of ten up to 22 is exact, so that the usual single step is rounded once.
    value = float(mantissa)
    while scale < 0 and value > 0.0:
        step = min(-scale, 22)
        value /= 10.0**step
        scale += step
    while scale > 0 and 0.0 < value <= _FLOAT32_MAX:
        step = min(scale, 22)
        value *= 10.0**step
        scale -= step
    if value > _FLOAT32_MAX:
        return np.nan
    return -value if negative else value
