"""Kernel that splits blocks of entries into words and features; `mpitune.decoder.lists.compiled_reader` calls it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.corpus.tokens import is_separator, next_token, parse_decimal, whole_number
from mpitune.corpus.word_table import WordTable, word_number
from mpitune.decoder.lists.formats import MOST_DIGITS
from mpitune.jit import inlined, kernel

# Return codes of the kernel: end of the block; a line for `ListReader`; a line with words or names without numbers.
DONE, NOT_ACCEPTED, UNNUMBERED = range(3)

NEW_WORD, NEW_NAME = range(2)
"""Number of what has none: a word of a hypothesis, the name of a feature."""

# Indices in `Block.state`. Of all blocks: lines begun, each as often as it was. Of the block: begin of the next line,
# lines parsed; values that need `float`. Of the line: end without line end, begin and end of the current token, ends of
# the rows in `Block`; words and names without numbers.
BEGUN, POSITION, LINES, INEXACT, _STOP, _BEGIN, _END, _WORD, _FEATURE, NEW = range(10)

UNKNOWN = -1
"""The number of a word, or of a name, that has not been met as such."""

_NEWLINE, _EQUALS = map(ord, "\n=")


MEANING = np.dtype([("word", "<i4"), ("feature", "<i4"), ("values", "<i4"), ("begun", "<i8")])
"""A word: its number in hypotheses; as a name, the number of its first feature, the number of its values (0 if only
`ListReader` reads that name), and the number of lines begun when it was last read."""


class Words(NamedTuple):
    """The words and names known so far."""

    table: WordTable
    meaning: np.ndarray
    """MEANING [words or more]"""


class Entries(NamedTuple):
    """Entries as arrays."""

    sentence: np.ndarray
    """int32 [entries]: number of the list."""
    word_ptr: np.ndarray
    """int64 [entries + 1]: rows of the words (CSR)."""
    word: np.ndarray
    """int32: numbers of words."""
    feature_ptr: np.ndarray
    """int64 [entries + 1]: rows of the features (CSR)."""
    feature: np.ndarray
    """int32: numbers of features."""
    value: np.ndarray
    """float64"""


class Block(NamedTuple):
    """A block of lines, and space for their entries."""

    text: np.ndarray
    """uint8"""
    state: np.ndarray
    """int64, indexed by `BEGUN` to `NEW`."""
    space: Entries
    inexact: np.ndarray
    """int64 [values, 3]: place, begin and end of the values that need `float`."""
    new: np.ndarray
    """int64 [tokens, 4]: what has no number in the line, its begin and end, and the number of values of a name."""

    def entries(self) -> Entries:
        """Copies of the entries of the lines parsed."""
        lines = int(self.state[LINES])
        space = self.space
        words, values = space.word_ptr[lines], space.feature_ptr[lines]
        return Entries(
            space.sentence[:lines].copy(),
            space.word_ptr[: lines + 1].copy(),
            space.word[:words].copy(),
            space.feature_ptr[: lines + 1].copy(),
            space.feature[:values].copy(),
            space.value[:values].copy(),
        )


def new_block(size: int) -> Block:
    """Arrays for the entries in ``size`` bytes."""
    ints, ptr = (np.empty(size, dtype=np.int32) for _ in range(3)), np.zeros((2, size + 1), dtype=np.int64)
    return Block(
        text=np.zeros(0, dtype=np.uint8),
        state=np.zeros(NEW + 1, dtype=np.int64),
        space=Entries(next(ints), ptr[0], next(ints), ptr[1], next(ints), np.empty(size, dtype=np.float64)),
        inexact=np.empty((size, 3), dtype=np.int64),
        new=np.empty((size // 2 + 1, 4), dtype=np.int64),
    )


@kernel
def parse_entries(block: Block, words: Words, moses: bool, field: int, sentences: int) -> int:
    """Parse lines up to the end of the block, or to one that is not accepted or has `Block.new`; returns a return code.

    The latter is parsed again, once all of these have numbers. ``moses``: names end with ``=``, values stand after
    them; else features are ``name=value``. ``field``: that of the features, from 0. Numbers of lists are below
    ``sentences``.
    """
    text, state = block.text, block.state
    while state[POSITION] < len(text):
        end = state[POSITION]
        while text[end] != _NEWLINE:
            end += 1
        state[_STOP] = end
        state[BEGUN] += 1
        state[NEW] = 0
        inexact = state[INEXACT]
        code = _parse_entry(block, words, moses, field, sentences)
        if code != DONE:
            state[INEXACT] = inexact
            return code
        state[POSITION] = end + 1
        state[LINES] += 1
    return DONE


@inlined
def _parse_entry(block: Block, words: Words, moses: bool, field: int, sentences: int) -> int:
    text, state, line = block.text, block.state, block.state[LINES]
    state[_END] = state[POSITION]
    state[_WORD], state[_FEATURE] = block.space.word_ptr[line], block.space.feature_ptr[line]
    if not _next_token(block):
        return NOT_ACCEPTED
    digits = state[_END] - state[_BEGIN]
    number, number_end = whole_number(text, state[_BEGIN], state[_END], sentences)
    if number_end < state[_END] or digits > MOST_DIGITS or number >= sentences:
        return NOT_ACCEPTED
    if not _next_token(block) or not _is_separator(block):
        return NOT_ACCEPTED
    block.space.sentence[line] = number
    while True:
        if not _next_token(block):
            return NOT_ACCEPTED
        if _is_separator(block):
            break
        word = word_number(words.table, block.text, state[_BEGIN], state[_END])
        if word < 0 or words.meaning[word]["word"] == UNKNOWN:
            _add_new(block, NEW_WORD, state[_BEGIN], state[_END], 0)
        else:
            block.space.word[state[_WORD]] = words.meaning[word]["word"]
        state[_WORD] += 1
    for _ in range(2, field):
        while True:
            if not _next_token(block):
                return NOT_ACCEPTED
            if _is_separator(block):
                break
    while _next_token(block) and not _is_separator(block):
        if not _add_features(block, words, moses):
            return NOT_ACCEPTED
    if state[NEW] > 0:
        return UNNUMBERED
    block.space.word_ptr[line + 1], block.space.feature_ptr[line + 1] = state[_WORD], state[_FEATURE]
    return DONE


@inlined
def _next_token(block: Block) -> bool:
    """Find what is between the next blanks or tabs of the line; False at its end."""
    state = block.state
    state[_BEGIN], state[_END] = next_token(block.text, state[_END], state[_STOP])
    return bool(state[_BEGIN] < state[_END])


@inlined
def _is_separator(block: Block) -> bool:
    return is_separator(block.text, block.state[_BEGIN], block.state[_END])


@inlined
def _add_features(block: Block, words: Words, moses: bool) -> bool:
    """Add the features of the current token, which is ``name=value``, or of Moses ``name=`` with values after it.

    False if they are not accepted.
    """
    text, state = block.text, block.state
    first, values = state[_FEATURE], 0
    name, equals = state[_BEGIN], state[_END] - 1
    while equals > name and text[equals] != _EQUALS:
        equals -= 1
    if equals == name or (moses and equals < state[_END] - 1):
        return False
    end = state[_END]
    if moses:
        while _next_token(block) and text[state[_END] - 1] != _EQUALS and not _is_separator(block):
            if not _add_value(block, first + values, state[_BEGIN], state[_END]):
                return False
            values += 1
            end = state[_END]
    elif _add_value(block, first, equals + 1, end):
        values = 1
    if values == 0:
        return False
    word = word_number(words.table, text, name, equals)
    if word < 0 or words.meaning[word]["feature"] == UNKNOWN:
        _add_new(block, NEW_NAME, name, equals, values)
    else:
        meaning = words.meaning[word]
        if meaning["values"] != values or meaning["begun"] == state[BEGUN]:
            return False
        meaning["begun"] = state[BEGUN]
        for i in range(values):
            block.space.feature[first + i] = meaning["feature"] + i
    state[_END], state[_FEATURE] = end, first + values
    return True


@inlined
def _add_new(block: Block, what: int, begin: int, end: int, values: int) -> None:
    """Note a word, or a name with so many values, that has no number."""
    new = block.state[NEW]
    block.new[new, 0], block.new[new, 1], block.new[new, 2], block.new[new, 3] = what, begin, end, values
    block.state[NEW] += 1


@inlined
def _add_value(block: Block, place: int, begin: int, end: int) -> bool:
    """Parse a value; False if it is no number that the kernel accepts."""
    accepted, value = parse_decimal(block.text, begin, end)
    block.space.value[place] = value
    if np.isnan(value):
        inexact = block.state[INEXACT]
        block.inexact[inexact, 0], block.inexact[inexact, 1], block.inexact[inexact, 2] = place, begin, end
        block.state[INEXACT] += 1
    return accepted
