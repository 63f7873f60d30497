"""Compiled parser of well-formed lines in the formats of cdec and Joshua, which reads them from blocks of bytes.

The kernel splits lines into words and looks each one up. A word that it meets for the first time in a role (side of a
rule, left-hand side, name of a score) is parsed in Python, once. A line that the kernel does not accept goes to
`LineParser`, which defines the notation and its errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mpitune.array_files.row_table import enlarged
from mpitune.corpus.word_table import GrowingWordTable, WordTable, word_slot
from mpitune.grammar.formats import LHS, CdecFormat
from mpitune.grammar.line_parser import (
    MAX_GAPS,
    MAX_SYMBOLS,
    SOURCE_GAP,
    TARGET_GAP,
    LineParser,
    ParsedLines,
    Vocabularies,
)
from mpitune.jit import inlined, int64, kernel

# Return codes of the kernels: end of the block; a line for `LineParser`; then the role in which a word is new.
_DONE, _NOT_ACCEPTED, _AS_LHS, _AS_SOURCE, _AS_TARGET, _AS_LABEL = range(6)

_MEANING = np.dtype(
    [("lhs", "<i4"), ("source", "<i4"), ("gap", "<i4"), ("target", "<i4"), ("category", "<i4"), ("label", "<i4")]
)
"""A word in each role: category as left-hand side; symbol on the source side as in `Rules`, and number of the gap or
0 if it has none; symbol on the target side, and category of the gap or -1 if it has none; label of a score."""
_NEW = np.iinfo(np.int32).min
"""The word has not been parsed in this role."""
_INVALID = -1
"""No left-hand side, no label."""
_WRONG_GAP = MAX_GAPS + 1
"""Number of all gaps that no line may have."""

# Indices in `_Block.state`. Of the block: begin of the next line, lines parsed. Of the line: end without line end,
# begin and end of the current word, of the left-hand side; number of gaps, bit set of those used on the target side,
# categories of the gaps; ends of the rows in `_Block`.
_POSITION, _LINES, _STOP, _BEGIN, _END, _LHS_BEGIN, _LHS_END, _GAPS, _USED, _CATEGORY = range(10)
_SOURCE, _TARGET, _ALIGN, _SCORE = range(_CATEGORY + MAX_GAPS, _CATEGORY + MAX_GAPS + 4)

_NEWLINE, _RETURN, _BLANK, _TAB, _BAR, _EQUALS = map(ord, "\n\r \t|=")
_PLUS, _MINUS, _POINT, _ZERO, _BIG_E, _SMALL_E = map(ord, "+-.0Ee")

_EXACT_MANTISSA = 2**53
_POWERS = np.array([float(f"1e{k}") for k in range(23)])
"""The powers of ten that a float64 holds exactly: one product or quotient with them is rounded correctly."""
_MAX_SCALE = 13
"""Exponent of ten up to which 17 digits make a number below `MAX_SCORE`."""


class _Words(NamedTuple):
    table: WordTable
    meaning: np.ndarray
    """_MEANING [words or more]"""


class _Block(NamedTuple):
    """A block of lines, and the arrays of `ParsedLines` with space for all its lines."""

    text: np.ndarray
    """uint8"""
    state: np.ndarray
    """int64, indexed by `_POSITION` to `_SCORE`."""
    number: np.ndarray
    """int64 [scores, 2]: begin and end of each score; those that need `float` are nan in ``score``."""
    lhs: np.ndarray
    source_ptr: np.ndarray
    source: np.ndarray
    target_ptr: np.ndarray
    target: np.ndarray
    align_ptr: np.ndarray
    align: np.ndarray
    score_ptr: np.ndarray
    label: np.ndarray
    score: np.ndarray


class CompiledParser:
    """Parses blocks of lines; results and errors are those of `LineParser`."""

    def __init__(self, table_format: CdecFormat, vocabularies: Vocabularies) -> None:
        """``vocabularies``: new names are added to them."""
        self.format = table_format
        self._vocabularies = vocabularies
        self._line_parser = LineParser(table_format, vocabularies)
        self._words = GrowingWordTable()
        self._meaning = np.zeros(0, dtype=_MEANING)
        self._space = _space(0)

    def parse(self, text: bytearray) -> Iterator[ParsedLines]:
        """Parse whole lines. Raises MalformedLine, after the lines before the malformed one."""
        if len(self._space.source) < len(text):
            self._space = _space(len(text))
        block = self._space._replace(text=np.frombuffer(text, dtype=np.uint8))
        state = block.state
        state[_POSITION] = 0
        while state[_POSITION] < len(text):
            state[_LINES] = 0
            code = _parse_lines(block, _Words(self._words.table, self._meaning))
            while code not in (_DONE, _NOT_ACCEPTED):
                self._parse_word(code, bytes(text[state[_BEGIN] : state[_END]]))
                code = _parse_lines(block, _Words(self._words.table, self._meaning))
            yield self._parsed(block)
            if code == _NOT_ACCEPTED:
                begin = int(state[_POSITION])
                end = text.index(b"\n", begin) + 1
                yield from self._line_parser.parse(text[begin:end])
                state[_POSITION] = end

    def _parsed(self, block: _Block) -> ParsedLines:
        """Copies of the lines in ``block``; parses the scores that the kernel did not."""
        lines = int(block.state[_LINES])
        scores = int(block.score_ptr[lines])
        score, label = block.score[:scores].copy(), block.label[:scores].copy()
        for n in np.flatnonzero(np.isnan(score)).tolist():
            score[n] = float(block.text[slice(*block.number[n])].tobytes())
        score[label == 0] *= self.format.unnamed_sign
        return ParsedLines(
            block.lhs[:lines].copy(),
            *_rows(block.source_ptr, block.source, lines),
            *_rows(block.target_ptr, block.target, lines),
            *_rows(block.align_ptr, block.align, lines),
            block.score_ptr[: lines + 1].copy(),
            label,
            score,
        )

    def _parse_word(self, role: int, text: bytes) -> None:
        """Enter the meaning of a word in a role."""
        number, word = self._words.add(text), text.decode()
        known = len(self._meaning)
        if number >= known:
            self._meaning = enlarged(self._meaning, number + 1)
            self._meaning[known:] = _NEW
        meaning = self._meaning[number]
        words, categories, labels = self._vocabularies
        if role == _AS_LHS:
            lhs = LHS.fullmatch(word)
            meaning["lhs"] = categories.add(lhs[1]) if lhs else _INVALID
        elif role == _AS_LABEL:
            # `LineParser` also splits scores at characters that are no blanks here.
            meaning["label"] = labels.add(word) if [word] == word.split() else _INVALID
        elif role == _AS_SOURCE:
            gap = SOURCE_GAP.fullmatch(word)
            if not self.format.is_source_symbol(word):
                meaning["source"], meaning["gap"] = -1, _WRONG_GAP
            elif gap is None:
                meaning["source"] = words.add(word)
            else:
                meaning["source"] = -1 - categories.add(gap[1])
                meaning["gap"] = _gap_number(gap[2]) if gap[2] else 0
        else:
            gap = TARGET_GAP.fullmatch(word)
            if not self.format.is_target_symbol(word):
                meaning["target"] = -_WRONG_GAP
            elif gap is None:
                meaning["target"] = words.add(word)
            else:
                meaning["target"] = -_gap_number(gap[2])
                meaning["category"] = categories.add(gap[1]) if gap[1] else -1


def _gap_number(digits: str) -> int:
    number = int(digits)
    return number if 1 <= number <= MAX_GAPS else _WRONG_GAP


def _space(size: int) -> _Block:
    """Arrays for the lines in ``size`` bytes."""
    numbers, ptr = (np.empty(size, dtype=np.int32) for _ in range(5)), np.zeros((4, size + 1), dtype=np.int64)
    return _Block(
        text=np.zeros(0, dtype=np.uint8),
        state=np.zeros(_SCORE + 1, dtype=np.int64),
        number=np.empty((size, 2), dtype=np.int64),
        lhs=next(numbers),
        source_ptr=ptr[0],
        source=next(numbers),
        target_ptr=ptr[1],
        target=next(numbers),
        align_ptr=ptr[2],
        align=next(numbers),
        score_ptr=ptr[3],
        label=next(numbers),
        score=np.empty(size, dtype=np.float64),
    )


def _rows(ptr: np.ndarray, flat: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    return ptr[: rows + 1].copy(), flat[: ptr[rows]].copy()


@kernel
def _parse_lines(block: _Block, words: _Words) -> int:
    """Parse lines up to the end of the block, to one that is not accepted or to a new word; returns a return code.

    The line is then parsed again from its beginning.
    """
    text, state = block.text, block.state
    while state[_POSITION] < len(text):
        end = state[_POSITION]
        while text[end] != _NEWLINE:
            end += 1
        stop = end
        while stop > state[_POSITION] and text[stop - 1] == _RETURN:
            stop -= 1
        state[_STOP] = stop
        code = _parse_line(block, words)
        if code != _DONE:
            return code
        state[_POSITION] = end + 1
        state[_LINES] += 1
    return _DONE


@inlined
def _parse_line(block: _Block, words: _Words) -> int:
    state, line = block.state, block.state[_LINES]
    state[_END] = state[_POSITION]
    state[_LHS_END] = state[_GAPS] = state[_USED] = 0
    state[_SOURCE], state[_TARGET] = block.source_ptr[line], block.target_ptr[line]
    state[_ALIGN], state[_SCORE] = block.align_ptr[line], block.score_ptr[line]
    field = 0
    code = _DONE
    while code == _DONE and _next_word(block):
        if _is_separator(block):
            field += 1
        elif field == 0:
            code = _NOT_ACCEPTED if state[_LHS_END] > 0 else _DONE
            state[_LHS_BEGIN], state[_LHS_END] = state[_BEGIN], state[_END]
        elif field == 1:
            code = _add_source_symbol(block, words)
        elif field == 2:
            code = _add_target_symbol(block, words)
        elif field == 3:
            code = _add_score(block, words)
        else:
            code = _add_link(block)
    if code == _DONE and (field < 2 or field > 4):
        code = _NOT_ACCEPTED
    return _end_line(block, words) if code == _DONE else code


@inlined
def _end_line(block: _Block, words: _Words) -> int:
    """Check what concerns the whole line, and add its left-hand side and the ends of its rows."""
    state, line = block.state, block.state[_LINES]
    sources, targets = state[_SOURCE] - block.source_ptr[line], state[_TARGET] - block.target_ptr[line]
    all_used = state[_USED] == (1 << state[_GAPS]) - 1
    if sources == 0 or max(sources, targets) > MAX_SYMBOLS or not all_used or state[_LHS_END] == 0:
        return _NOT_ACCEPTED
    state[_BEGIN], state[_END] = state[_LHS_BEGIN], state[_LHS_END]
    word = _current_word(block, words)
    if word < 0 or words.meaning[word]["lhs"] == _NEW:
        return _AS_LHS
    block.lhs[line] = words.meaning[word]["lhs"]
    block.source_ptr[line + 1], block.target_ptr[line + 1] = state[_SOURCE], state[_TARGET]
    block.align_ptr[line + 1], block.score_ptr[line + 1] = state[_ALIGN], state[_SCORE]
    return _NOT_ACCEPTED if block.lhs[line] == _INVALID else _DONE


@inlined
def _next_word(block: _Block) -> bool:
    """Find the next word of the line; False at its end."""
    text, stop, begin = block.text, block.state[_STOP], block.state[_END]
    while begin < stop and (text[begin] == _BLANK or text[begin] == _TAB):
        begin += 1
    end = begin
    while end < stop and text[end] != _BLANK and text[end] != _TAB:
        end += 1
    block.state[_BEGIN], block.state[_END] = begin, end
    return bool(begin < end)


@inlined
def _is_separator(block: _Block) -> bool:
    text, begin = block.text, block.state[_BEGIN]
    three = block.state[_END] - begin == 3
    return bool(three and text[begin] == _BAR and text[begin + 1] == _BAR and text[begin + 2] == _BAR)


@inlined
def _current_word(block: _Block, words: _Words) -> int:
    """The number of the current word, or -1 if it is new."""
    slot = word_slot(words.table, block.text, block.state[_BEGIN], block.state[_END])
    return int64(words.table.slot[slot]) - 1


@inlined
def _add_source_symbol(block: _Block, words: _Words) -> int:
    state, word = block.state, _current_word(block, words)
    if word < 0 or words.meaning[word]["source"] == _NEW:
        return _AS_SOURCE
    symbol = words.meaning[word]["source"]
    if symbol < 0:
        gap, number = state[_GAPS], words.meaning[word]["gap"]
        if gap == MAX_GAPS or (number != 0 and number != gap + 1):
            return _NOT_ACCEPTED
        state[_CATEGORY + gap] = -1 - symbol
        state[_GAPS] += 1
    block.source[state[_SOURCE]] = symbol
    state[_SOURCE] += 1
    return _DONE


@inlined
def _add_target_symbol(block: _Block, words: _Words) -> int:
    state, word = block.state, _current_word(block, words)
    if word < 0 or words.meaning[word]["target"] == _NEW:
        return _AS_TARGET
    symbol = words.meaning[word]["target"]
    if symbol < 0:
        gap, category = -1 - symbol, words.meaning[word]["category"]
        if gap >= state[_GAPS] or state[_USED] & 1 << gap != 0:
            return _NOT_ACCEPTED
        if category >= 0 and category != state[_CATEGORY + gap]:
            return _NOT_ACCEPTED
        state[_USED] |= 1 << gap
    block.target[state[_TARGET]] = symbol
    state[_TARGET] += 1
    return _DONE


@inlined
def _add_link(block: _Block) -> int:
    state, line = block.state, block.state[_LINES]
    i, middle = _whole_number(block.text, state[_BEGIN], state[_END])
    j, end = _whole_number(block.text, middle + 1, state[_END])
    if middle >= state[_END] or block.text[middle] != _MINUS or middle == state[_BEGIN] or end == middle + 1:
        return _NOT_ACCEPTED
    sources, targets = state[_SOURCE] - block.source_ptr[line], state[_TARGET] - block.target_ptr[line]
    if end < state[_END] or i >= sources or j >= targets:
        return _NOT_ACCEPTED
    block.align[state[_ALIGN]] = i | j << 16
    state[_ALIGN] += 1
    return _DONE


@inlined
def _whole_number(text: np.ndarray, begin: int, end: int) -> tuple[int, int]:
    """The number that the digits from ``begin`` make, at most `MAX_SYMBOLS`, and their end."""
    number, k = 0, begin
    while k < end and _ZERO <= text[k] < _ZERO + 10:
        number = min(10 * number + int(text[k]) - _ZERO, MAX_SYMBOLS)
        k += 1
    return number, k


@inlined
def _add_score(block: _Block, words: _Words) -> int:
    """Add ``name=number`` or ``number``."""
    text, state = block.text, block.state
    begin, end, place = state[_BEGIN], state[_END], state[_SCORE]
    first = end
    while first > begin and text[first - 1] != _EQUALS:
        first -= 1
    block.label[place] = 0
    if first > begin:
        state[_END] = first
        word = _current_word(block, words)
        if word < 0 or words.meaning[word]["label"] == _NEW:
            return _AS_LABEL
        block.label[place] = words.meaning[word]["label"]
        state[_END] = end
    if block.label[place] == _INVALID or not _parse_number(block, first, end):
        return _NOT_ACCEPTED
    state[_SCORE] += 1
    return _DONE


@inlined
def _parse_number(block: _Block, begin: int, end: int) -> bool:
    """Parse ``text[begin:end]`` into the next score; False if it is no decimal number, or perhaps too large."""
    text, place = block.text, block.state[_SCORE]
    i = begin
    negative = i < end and text[i] == _MINUS
    if i < end and (text[i] == _MINUS or text[i] == _PLUS):
        i += 1
    digits, mantissa, scale, past_point = 0, 0, 0, False
    while i < end and (_ZERO <= text[i] < _ZERO + 10 or (text[i] == _POINT and not past_point)):
        if text[i] == _POINT:
            past_point = True
        else:
            digits += 1
            if mantissa <= _EXACT_MANTISSA:
                mantissa = 10 * mantissa + int(text[i]) - _ZERO
                scale -= 1 if past_point else 0
            else:
                scale += 0 if past_point else 1
        i += 1
    if digits == 0:
        return False
    if i < end and (text[i] == _SMALL_E or text[i] == _BIG_E):
        i += 1
        minus = i < end and text[i] == _MINUS
        if i < end and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        exponent, exponent_end = _whole_number(text, i, end)
        if exponent_end == i:
            return False
        i = exponent_end
        scale += -exponent if minus else exponent
    if i < end or scale > _MAX_SCALE:
        return False
    block.number[place, 0], block.number[place, 1] = begin, end
    block.score[place] = np.nan
    if mantissa <= _EXACT_MANTISSA and abs(scale) < len(_POWERS):
        value = mantissa / _POWERS[-scale] if scale < 0 else mantissa * _POWERS[scale]
        block.score[place] = -value if negative else value
    return True
