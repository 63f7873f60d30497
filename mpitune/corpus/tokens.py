"""Lines of text as arrays of numbers, which the readers of grammars, n-best lists and texts share.

A kernel splits blocks of lines into fields and tokens, and numbers the distinct ones, so that a reader interprets each
once. The rest is its array code. A line that this does not accept goes to the reader of single lines, which defines
the notation, and tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from mpitune.array_files.row_table import DistinctRows, RowTable, enlarged, row_or_new
from mpitune.corpus.text import parse_number
from mpitune.jit import at, inlined, int64, kernel, uint64

SKIPPED, WORDS, SCORES, LINKS = range(4)
"""Kinds of fields: not read; words; numbers, ``name=number`` or ``name=``; pairs of whole numbers ``i-j``."""

NEW = np.iinfo(np.int32).min
"""The meaning of a word in a role in which no token has been interpreted."""

_MOST_LINKED = 32767
"""Largest number in a link."""
_NEWLINE, _BLANK, _TAB, _BAR, _EQUALS = map(ord, "\n \t|=")


class Lines(NamedTuple):
    """The tokens of lines, field by field; the arrays of tokens are longer than used."""

    start: np.ndarray
    """int64 [lines + 1]: where each line begins."""
    fields: np.ndarray
    """int32 [lines]: number of fields of each line."""
    ptr: np.ndarray
    """int64 [kinds, lines + 1]: rows of the tokens of each field (CSR)."""
    token: np.ndarray
    """int32 [kinds, tokens]: number of a word, or of ``name=`` (-1: no name); of a link i + j * 2^16 (-1: none)."""
    value: np.ndarray
    """float64 [tokens]: those of `SCORES`; NaN without a number from -1e30 to 1e30."""
    span: np.ndarray
    """int32 [tokens, 2]: begin and end of the text of each value."""

    def row(self, field: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a field: ``ptr`` (int64 [lines + 1]) and ``token`` (int32)."""
        ptr = self.ptr[field]
        return ptr, self.token[field, : ptr[-1]]


class LineSplitter:
    """Splits blocks of lines; a token has the same number in all of them."""

    def __init__(self) -> None:
        self.words = DistinctRows(np.uint8)
        self._space = _space(0, 0)

    def split(self, block: bytearray, kinds: Sequence[int]) -> Lines:
        """The tokens of the fields of ``block``, whole lines; those beyond ``kinds`` are counted.

        ``|||`` between blanks or tabs separates fields, unless there is one kind. The arrays are used again for the
        next block.
        """
        if len(self._space.token) != len(kinds) or len(self._space.value) <= len(block) // 2:
            self._space = _space(len(kinds), len(block))
        count, line = block.count(b"\n"), 0
        lines = self._space._replace(
            start=np.zeros(count + 1, dtype=np.int64),
            fields=np.empty(count, dtype=np.int32),
            ptr=np.zeros((len(kinds), count + 1), dtype=np.int64),
        )
        text, kind = np.frombuffer(block, dtype=np.uint8), np.array(kinds, dtype=np.int64)
        while line < count:
            # One line at least: a larger table would be slower.
            begin = int(lines.start[line])
            size = block.index(b"\n", begin) - begin
            table = self.words.with_room(size // 2 + 1, size)
            line, words = _split_lines(text, line, kind, table, len(self.words), lines)
            self.words.took(words)
        if SCORES in kinds:
            _read_numbers(block, lines, int(lines.ptr[kinds.index(SCORES), -1]))
        return lines

    def with_new(self, meaning: np.ndarray, new: np.ndarray) -> np.ndarray:
        """``meaning`` with a row for each word, and more; further ones are ``new``."""
        known = len(meaning)
        if len(self.words) >= known:
            meaning = enlarged(meaning, len(self.words) + 1)
            meaning[known:] = new
        return meaning

    def new_words(self, roles: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> list[tuple[int, int, int, str]]:
        """Role, place in the row, number and text of each word new in a role, in the order of lines, then roles.

        ``roles``: ``ptr`` and ``token`` of a field, and the meanings of words, of which `NEW` ones are not known.
        """
        new = list[tuple[int, int, int, int, str]]()
        for role, (ptr, token, meaning) in enumerate(roles):
            places = np.flatnonzero((token >= 0) & (meaning[token] == NEW))
            if len(places):
                words, firsts = np.unique(token[places], return_index=True)
                place, line = places[firsts], row_of(ptr, places[firsts])
                texts = self.words.texts(words)
                new += zip(line.tolist(), [role] * len(words), place.tolist(), words.tolist(), texts, strict=True)
        return [(role, place, word, text) for _, role, place, word, text in sorted(new)]


def _space(kinds: int, size: int) -> Lines:
    """Arrays for the tokens in ``size`` bytes."""
    none, most = np.zeros(0, dtype=np.int64), size // 2 + 1
    token, span = np.empty((kinds, most), dtype=np.int32), np.empty((most, 2), dtype=np.int32)
    return Lines(none, none, none, token, np.empty(most, dtype=np.float64), span)


def _read_numbers(block: bytearray, lines: Lines, count: int) -> None:
    """Read the numbers that the kernel did not."""
    begin, end = lines.span[:count].T
    for place in np.flatnonzero(np.isnan(lines.value[:count]) & (begin < end)).tolist():
        with suppress(ValueError):
            lines.value[place] = parse_number(block[slice(*lines.span[place].tolist())].decode())


def row_of(ptr: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The row of ``ptr`` that each ``place`` is in (int64 each)."""
    row: np.ndarray = np.searchsorted(ptr, place, side="right") - 1
    return row


def runs(ok: np.ndarray) -> Iterator[tuple[int, int, bool]]:
    """Begin, end and value of each run of equal values in ``ok`` (bool)."""
    ends = [*(np.flatnonzero(ok[1:] != ok[:-1]) + 1).tolist(), len(ok)] if len(ok) else []
    for begin, end in zip([0, *ends], ends, strict=False):
        yield begin, end, bool(ok[begin])


def rows(ptr: np.ndarray, flat: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``first`` to before ``last`` of the CSR arrays ``ptr`` and ``flat``."""
    return ptr[first : last + 1] - ptr[first], flat[ptr[first] : ptr[last]]


@kernel
def _split_lines(
    text: np.ndarray, line: int, kinds: np.ndarray, table: RowTable, words: int, lines: Lines
) -> tuple[int, int]:
    """Split from ``line`` on, while ``table``, of so many ``words``, has room for those of a line.

    Returns the next line and the number of words.
    """
    token, ptr, several = lines.token, lines.ptr, len(kinds) > 1
    while line < len(lines.fields):
        position = stop = lines.start[at(line)]
        while text[at(stop)] != _NEWLINE:
            stop += 1
        most = words + (stop - position) // 2 + 1
        if 2 * most > len(table.slot) or most >= len(table.ptr) or table.ptr[words] + stop - position > len(table.flat):
            break
        for field in range(len(kinds)):
            ptr[at(field), at(line + 1)] = ptr[at(field), at(line)]
        field, kind = 0, kinds[0]
        begin, end = _next_token(text, position, stop)
        while begin < end:
            if several and _is_separator(text, begin, end):
                field += 1
                kind = kinds[at(field)] if field < len(kinds) else SKIPPED
            elif kind != SKIPPED:
                place = ptr[at(field), at(line + 1)]
                ptr[at(field), at(line + 1)] = place + 1
                number = int64(-1)
                if kind == LINKS:
                    number = _link(text, begin, end)
                else:
                    last = end
                    if kind == SCORES:
                        while last > begin and text[at(last - 1)] != _EQUALS:
                            last -= 1
                        lines.value[at(place)] = parse_decimal(text, last, end)
                        lines.span[at(place), 0], lines.span[at(place), 1] = last, end
                    if last > begin:
                        number = row_or_new(table, words, text, begin, last)
                        words = max(words, number + 1)
                token[at(field), at(place)] = number
            begin, end = _next_token(text, end, stop)
        lines.fields[at(line)] = field + 1
        line += 1
        lines.start[at(line)] = stop + 1
    return line, words


@inlined
def _next_token(text: np.ndarray, begin: int, stop: int) -> tuple[int, int]:
    """Begin and end of the first token of ``text[begin:stop]`` (uint8); both are ``stop`` if there is none."""
    while begin < stop and (text[at(begin)] == _BLANK or text[at(begin)] == _TAB):
        begin += 1
    end = begin
    while end < stop and text[at(end)] != _BLANK and text[at(end)] != _TAB:
        end += 1
    return begin, end


@inlined
def _is_separator(text: np.ndarray, begin: int, end: int) -> bool:
    three = end - begin == 3
    return bool(three and text[begin] == _BAR and text[begin + 1] == _BAR and text[begin + 2] == _BAR)


@inlined
def _link(text: np.ndarray, begin: int, end: int) -> int:
    """``i-j`` as i + j * 2^16; -1 for something else, and for larger numbers than `_MOST_LINKED`."""
    i, middle = _whole_number(text, begin, end, _MOST_LINKED + 1)
    j, last = _whole_number(text, middle + 1, end, _MOST_LINKED + 1)
    if middle == begin or middle >= end or text[middle] != _MINUS or last == middle + 1 or last < end:
        return -1
    return i | j << 16 if max(i, j) <= _MOST_LINKED else -1


MOST_SCALE = 12
"""Largest exponent of ten that is parsed: numbers of 18 digits are then below 1e30."""
_MOST_EXPONENT = 9999
"""A larger exponent counts as this one: it is too large, or too small, for any mantissa."""

_SHORTENED = 10**17
"""A mantissa below it has room for another digit."""
_POWERS = np.array([float(f"1e{k}") for k in range(23)])
"""The powers of ten that a float64 holds exactly."""
_SPLITTER = float(2**27 + 1)
_ERROR = 2.0**-48
"""Bound on the relative error of the correction in `_rounded`."""
_FLOAT32_MAX = float(np.finfo(np.float32).max)

_POINT, _PLUS, _MINUS, _ZERO, _BIG_E, _SMALL_E = map(ord, ".+-0Ee")


@inlined
def parse_decimal(text: np.ndarray, begin: int, end: int) -> float:
    """The number ``text[begin:end]`` (uint8), correctly rounded.

    NaN for what is none, for what only `float` can round, and for what may be above 1e30.
    """
    is_number, mantissa, scale, whole = _decimal(text, begin, end)
    value = np.nan
    if is_number and whole and -len(_POWERS) < scale <= MOST_SCALE:
        value = _rounded(mantissa, scale)
        if text[begin] == _MINUS:
            value = -value
    return value


@kernel
def parse_float32(text: np.ndarray, begin: int, end: int) -> float:
    """The number ``text[begin:end]`` (uint8), rounded for a float32; NaN for what is none, or too large for that."""
    is_number, mantissa, scale, _ = _decimal(text, begin, end)
    value = float(mantissa) if is_number else np.nan
    # A single step, the usual case, rounds once.
    while scale < 0 and value > 0.0:
        step = min(-scale, len(_POWERS) - 1)
        value /= _POWERS[at(step)]
        scale += step
    while scale > 0 and 0.0 < value <= _FLOAT32_MAX:
        step = min(scale, len(_POWERS) - 1)
        value *= _POWERS[at(step)]
        scale -= step
    if value > _FLOAT32_MAX:
        return np.nan
    return -value if text[begin] == _MINUS else value


@inlined
def _decimal(text: np.ndarray, begin: int, end: int) -> tuple[bool, int, int, bool]:
    """If it is a decimal number; its mantissa without sign, its exponent of ten, and if the mantissa has all digits.

    18 digits fit an int64; further ones are left out.
    """
    i = begin
    if i < end and (text[i] == _MINUS or text[i] == _PLUS):
        i += 1
    digits, mantissa, scale, past_point, whole = 0, 0, 0, False, True
    while i < end:
        # Of what is less than 0, unsigned numbers make large ones.
        digit = uint64(text[at(i)]) - uint64(_ZERO)
        if digit <= 9:
            digits += 1
            if mantissa < _SHORTENED:
                mantissa = 10 * mantissa + int64(digit)
                scale -= 1 if past_point else 0
            else:
                scale += 0 if past_point else 1
                whole = whole and digit == 0
        elif text[at(i)] == _POINT and not past_point:
            past_point = True
        else:
            break
        i += 1
    is_number = digits > 0
    if is_number and i < end and (text[i] == _SMALL_E or text[i] == _BIG_E):
        i += 1
        minus = i < end and text[i] == _MINUS
        if i < end and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        exponent, exponent_end = _whole_number(text, i, end, _MOST_EXPONENT)
        is_number = exponent_end > i
        i = exponent_end
        scale += -exponent if minus else exponent
    return is_number and i == end, mantissa, scale, whole


@inlined
def _whole_number(text: np.ndarray, begin: int, end: int, most: int) -> tuple[int, int]:
    """The number that the digits from ``begin`` make, at most ``most``, and their end."""
    number, k = 0, begin
    while k < end and _ZERO <= text[k] < _ZERO + 10:
        number = min(10 * number + int(text[k]) - _ZERO, most)
        k += 1
    return number, k


@inlined
def _rounded(mantissa: int, scale: int) -> float:
    """``mantissa`` (below 10^18) times 10^``scale`` (-22 to 22), correctly rounded, or NaN.

    The sum of a rounded result and a correction, which is computed from exact remainders (Dekker, *A floating-point
    technique for extending the available precision*, 1971). It is NaN if an error of the correction might change it.
    """
    high = float(mantissa)
    low = float(mantissa - int(high))
    power = _POWERS[abs(scale)]
    first = high / power if scale < 0 else high * power
    # The exact product of one factor and the power is product + rest.
    factor = first if scale < 0 else high
    product = factor * power
    a, b = _upper_half(factor), _upper_half(power)
    rest = ((a * b - product) + a * (power - b) + (factor - a) * b) + (factor - a) * (power - b)
    correction = (((high - product) - rest) + low) / power if scale < 0 else rest + low * power
    below, above = first + correction * (1.0 - _ERROR), first + correction * (1.0 + _ERROR)
    return below if below == above else np.nan


@inlined
def _upper_half(number: float) -> float:
    """The upper 26 bits of ``number``."""
    shifted = _SPLITTER * number
    return shifted - (shifted - number)
