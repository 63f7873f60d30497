"""Kernel that splits blocks of grammar lines into words and numbers; `mpitune.grammar.compiled_parser` calls it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.corpus.tokens import is_separator, next_token, parse_decimal, whole_number
from mpitune.corpus.word_table import WordTable, word_number
from mpitune.grammar.line_parser import MAX_GAPS, MAX_SYMBOLS
from mpitune.jit import inlined, kernel

# Return codes of the kernels: end of the block; a line for `LineParser`; then the role in which a word is new.
DONE, NOT_ACCEPTED, AS_LHS, AS_SOURCE, _AS_TARGET, AS_LABEL = range(6)

MEANING = np.dtype(
    [("lhs", "<i4"), ("source", "<i4"), ("gap", "<i4"), ("target", "<i4"), ("category", "<i4"), ("label", "<i4")]
)
"""A word in each role: category as left-hand side; symbol on the source side as in `Rules`, and number of the gap or
0 if it has none; symbol on the target side, and category of the gap or -1 if it has none; label of a score."""
NEW = np.iinfo(np.int32).min
"""The word has not been parsed in this role."""
INVALID = -1
"""No left-hand side, no label."""
WRONG_GAP = MAX_GAPS + 1
"""Number of all gaps that no line may have."""

# Indices in `Block.state`. Of the block: begin of the next line, lines parsed. Of the line: end without line end,
# begin and end of the current word, of the left-hand side; number of gaps, bit set of those used on the target side,
# categories of the gaps; ends of the rows in `Block`.
POSITION, LINES, _STOP, BEGIN, END, _LHS_BEGIN, _LHS_END, _GAPS, _USED, _CATEGORY = range(10)
_SOURCE, _TARGET, _ALIGN, SCORE = range(_CATEGORY + MAX_GAPS, _CATEGORY + MAX_GAPS + 4)

_NEWLINE, _EQUALS, _MINUS = map(ord, "\n=-")


class Words(NamedTuple):
    """The words known so far."""

    table: WordTable
    meaning: np.ndarray
    """MEANING [words or more]"""


class Block(NamedTuple):
    """A block of lines, and the arrays of `ParsedLines` with space for all its lines."""

    text: np.ndarray
    """uint8"""
    state: np.ndarray
    """int64, indexed by `POSITION` to `SCORE`."""
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


def new_block(size: int) -> Block:
    """Arrays for the lines in ``size`` bytes."""
    numbers, ptr = (np.empty(size, dtype=np.int32) for _ in range(5)), np.zeros((4, size + 1), dtype=np.int64)
    return Block(
        text=np.zeros(0, dtype=np.uint8),
        state=np.zeros(SCORE + 1, dtype=np.int64),
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


@kernel
def parse_lines(block: Block, words: Words) -> int:
    """Parse lines up to the end of the block, to one that is not accepted or to a new word; returns a return code.

    The line is then parsed again from its beginning.
    """
    text, state = block.text, block.state
    while state[POSITION] < len(text):
        end = state[POSITION]
        while text[end] != _NEWLINE:
            end += 1
        state[_STOP] = end
        code = _parse_line(block, words)
        if code != DONE:
            return code
        state[POSITION] = end + 1
        state[LINES] += 1
    return DONE


@inlined
def _parse_line(block: Block, words: Words) -> int:
    state, line = block.state, block.state[LINES]
    state[END] = state[POSITION]
    state[_LHS_END] = state[_GAPS] = state[_USED] = 0
    state[_SOURCE], state[_TARGET] = block.source_ptr[line], block.target_ptr[line]
    state[_ALIGN], state[SCORE] = block.align_ptr[line], block.score_ptr[line]
    field = 0
    code = DONE
    while code == DONE and _next_word(block):
        if _is_separator(block):
            field += 1
        elif field == 0:
            code = NOT_ACCEPTED if state[_LHS_END] > 0 else DONE
            state[_LHS_BEGIN], state[_LHS_END] = state[BEGIN], state[END]
        elif field == 1:
            code = _add_source_symbol(block, words)
        elif field == 2:
            code = _add_target_symbol(block, words)
        elif field == 3:
            code = _add_score(block, words)
        else:
            code = _add_link(block)
    if code == DONE and (field < 2 or field > 4):
        code = NOT_ACCEPTED
    return _end_line(block, words) if code == DONE else code


@inlined
def _end_line(block: Block, words: Words) -> int:
    """Check what concerns the whole line, and add its left-hand side and the ends of its rows."""
    state, line = block.state, block.state[LINES]
    sources, targets = state[_SOURCE] - block.source_ptr[line], state[_TARGET] - block.target_ptr[line]
    all_used = state[_USED] == (1 << state[_GAPS]) - 1
    if sources == 0 or max(sources, targets) > MAX_SYMBOLS or not all_used or state[_LHS_END] == 0:
        return NOT_ACCEPTED
    state[BEGIN], state[END] = state[_LHS_BEGIN], state[_LHS_END]
    word = _current_word(block, words)
    if word < 0 or words.meaning[word]["lhs"] == NEW:
        return AS_LHS
    block.lhs[line] = words.meaning[word]["lhs"]
    block.source_ptr[line + 1], block.target_ptr[line + 1] = state[_SOURCE], state[_TARGET]
    block.align_ptr[line + 1], block.score_ptr[line + 1] = state[_ALIGN], state[SCORE]
    return NOT_ACCEPTED if block.lhs[line] == INVALID else DONE


@inlined
def _next_word(block: Block) -> bool:
    """Find the next word of the line; False at its end."""
    state = block.state
    state[BEGIN], state[END] = next_token(block.text, state[END], state[_STOP])
    return bool(state[BEGIN] < state[END])


@inlined
def _is_separator(block: Block) -> bool:
    return is_separator(block.text, block.state[BEGIN], block.state[END])


@inlined
def _current_word(block: Block, words: Words) -> int:
    """The number of the current word, or -1 if it is new."""
    return word_number(words.table, block.text, block.state[BEGIN], block.state[END])


@inlined
def _add_source_symbol(block: Block, words: Words) -> int:
    state, word = block.state, _current_word(block, words)
    if word < 0 or words.meaning[word]["source"] == NEW:
        return AS_SOURCE
    symbol = words.meaning[word]["source"]
    if symbol < 0:
        gap, number = state[_GAPS], words.meaning[word]["gap"]
        if gap == MAX_GAPS or (number != 0 and number != gap + 1):
            return NOT_ACCEPTED
        state[_CATEGORY + gap] = -1 - symbol
        state[_GAPS] += 1
    block.source[state[_SOURCE]] = symbol
    state[_SOURCE] += 1
    return DONE


@inlined
def _add_target_symbol(block: Block, words: Words) -> int:
    state, word = block.state, _current_word(block, words)
    if word < 0 or words.meaning[word]["target"] == NEW:
        return _AS_TARGET
    symbol = words.meaning[word]["target"]
    if symbol < 0:
        gap, category = -1 - symbol, words.meaning[word]["category"]
        if gap >= state[_GAPS] or state[_USED] & 1 << gap != 0:
            return NOT_ACCEPTED
        if category >= 0 and category != state[_CATEGORY + gap]:
            return NOT_ACCEPTED
        state[_USED] |= 1 << gap
    block.target[state[_TARGET]] = symbol
    state[_TARGET] += 1
    return DONE


@inlined
def _add_link(block: Block) -> int:
    state, line = block.state, block.state[LINES]
    i, middle = whole_number(block.text, state[BEGIN], state[END], MAX_SYMBOLS)
    j, end = whole_number(block.text, middle + 1, state[END], MAX_SYMBOLS)
    if middle >= state[END] or block.text[middle] != _MINUS or middle == state[BEGIN] or end == middle + 1:
        return NOT_ACCEPTED
    sources, targets = state[_SOURCE] - block.source_ptr[line], state[_TARGET] - block.target_ptr[line]
    if end < state[END] or i >= sources or j >= targets:
        return NOT_ACCEPTED
    block.align[state[_ALIGN]] = i | j << 16
    state[_ALIGN] += 1
    return DONE


@inlined
def _add_score(block: Block, words: Words) -> int:
    """Add ``name=number`` or ``number``."""
    text, state = block.text, block.state
    begin, end, place = state[BEGIN], state[END], state[SCORE]
    first = end
    while first > begin and text[first - 1] != _EQUALS:
        first -= 1
    block.label[place] = 0
    if first > begin:
        state[END] = first
        word = _current_word(block, words)
        if word < 0 or words.meaning[word]["label"] == NEW:
            return AS_LABEL
        block.label[place] = words.meaning[word]["label"]
        state[END] = end
    accepted, value = parse_decimal(text, first, end)
    if block.label[place] == INVALID or not accepted:
        return NOT_ACCEPTED
    block.score[place] = value
    block.number[place, 0], block.number[place, 1] = first, end
    state[SCORE] += 1
    return DONE
