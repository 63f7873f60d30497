"""Compiled parser of the n-gram lines of an ARPA file; it reads them from blocks of bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.row_table import RowTable, row_or_new, row_slot
from mpitune.corpus.tokens import parse_float32
from mpitune.jit import at, inlined, int64, kernel
from mpitune.lm.ngram_adding import Chain, add_child, add_ngram, expect, follow, mark_suffixes
from mpitune.lm.ngram_table import EXTENDS_RIGHT, LanguageModel

# Return codes of the kernels: end of the section, end of the block, hash table full; then errors in the current line.
DONE, BLOCK_DONE, TABLE_FULL = range(3)
NO_NGRAM, BAD_FIELD_COUNT, BAD_PROBABILITY, BAD_BACKOFF, LAST_BACKOFF, UNKNOWN_WORD, DUPLICATE = range(3, 10)

AHEAD = 16
"""Lines that are read before the first of them is added to the table."""

# Indices in `Parser.state`: n-grams left in this section; lines read; begin and end of the next line in the block;
# the invalid field; words numbered; table slots in use.
REMAINING, LINES, POSITION, LINE_END, BAD_FIELD, WORDS, USED = range(7)

_NEWLINE, _RETURN, _BLANK, _TAB, _BACKSLASH = 10, 13, 32, 9, 92
_BIG_E, _SMALL_E = 69, 101
_UNKNOWN_IN_CAPITALS = tuple(b"<UNK>")


class Waiting(NamedTuple):
    """N-grams whose place in the table is on its way from the memory, while further lines are read."""

    word: np.ndarray
    """int64 [`AHEAD`, order]"""
    node: np.ndarray
    """int64 [`AHEAD`, 2]: the suffix, and the context without its first word, as `add_child` takes them; the first is
    -1 if the table lacks one of them."""
    value: np.ndarray
    """float64 [`AHEAD`, 2]: probability and backoff."""
    end: np.ndarray
    """int64 [`AHEAD`]: where the next line begins in the block."""


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
    before: np.ndarray
    """int64 [order, 2]: begin and end of each word of the line before."""
    chain: Chain
    """That of the n-gram of the current line."""
    waiting: Waiting
    """N-grams that have been read, but are not yet in the table."""


def new_parser(text: np.ndarray, state: np.ndarray, order: int) -> Parser:
    """A parser of the block ``text`` for a model of this ``order``."""
    word, pair = np.zeros(order, dtype=np.int64), np.zeros((AHEAD, 2), dtype=np.int64)
    waiting = Waiting(np.zeros((AHEAD, order), dtype=np.int64), pair, np.zeros((AHEAD, 2)), pair[:, 0].copy())
    field, before = np.zeros((order + 3, 2), dtype=np.int64), np.zeros((order, 2), dtype=np.int64)
    return Parser(text, state, field, np.zeros(2), word, before, Chain(word.copy(), word.copy()), waiting)


@kernel
def read_unigrams(parser: Parser, filled: int, order: int, table: RowTable, unigrams: np.ndarray) -> int:
    """Read 1-grams up to the end of the section or of the block; returns a return code.

    Numbers the words, adds them to ``table`` and fills their nodes in ``unigrams`` (NODE), whose probabilities are NaN.
    """
    state, field = parser.state, parser.field
    while state[REMAINING] > 0:
        fields = _split(parser, state[POSITION], filled)
        code = _check_fields(parser, fields, 1)
        if code == DONE:
            code = _parse_numbers(parser, fields, 1, order)
        if code != DONE:
            return code
        word = row_or_new(table, state[WORDS], parser.text, field[1, 0], field[1, 1])
        state[WORDS] = max(state[WORDS], word + 1)
        node = unigrams[word]
        if not np.isnan(node["prob"]):
            return DUPLICATE
        node["prob"] = parser.value[0]
        node["backoff"] = parser.value[1]
        node["key"] = EXTENDS_RIGHT if node["backoff"] != 0 else 0
        _next_line(state, state[LINE_END] + 1)
    return DONE


@kernel
def read_ngrams(parser: Parser, filled: int, n: int, table: RowTable, lm: LanguageModel, max_used: int) -> int:
    """Read n-grams into ``lm`` up to the end of the section or of the block; returns a return code.

    ``max_used``: the largest number of table slots in use.
    """
    state = parser.state
    # The line before is no longer in the block.
    parser.before[:] = 0
    changed = n
    while state[REMAINING] > 0:
        count, changed, code = _read_ahead(parser, filled, n, changed, table, lm)
        for i in range(count):
            if state[USED] + n * n > max_used:
                return TABLE_FULL
            used = _add(parser.waiting, i, n, lm)
            if used == 0:
                _split(parser, state[POSITION], filled)
                return DUPLICATE
            state[USED] += used
            _next_line(state, parser.waiting.end[i])
        if code != DONE:
            return code
    return DONE


@inlined
def _read_ahead(
    parser: Parser, filled: int, n: int, changed: int, table: RowTable, lm: LanguageModel
) -> tuple[int, int, int]:
    """Read lines that wait for the memory; returns their number, how many words of the last one `follow` has not seen,
    and a return code for the next line.
    """
    state, word, chain, waiting = parser.state, parser.word, parser.chain, parser.waiting
    position = int64(state[POSITION])
    for i in range(min(len(waiting.end), state[REMAINING])):
        fields = _split(parser, position, filled)
        code = _check_fields(parser, fields, n)
        if code != DONE:
            return i, changed, code
        different = _number_words(parser, n, table)
        changed = max(changed, different)
        expect(lm, word, n, changed, chain)
        code = _parse_numbers(parser, fields, n, lm.order)
        if code != DONE:
            return i, changed, code
        if different < 0:
            state[BAD_FIELD] = -different
            return i, changed, UNKNOWN_WORD
        waiting.node[i, 0] = waiting.node[i, 1] = -1
        if follow(lm, word, n, changed, chain):
            changed = 0
            waiting.node[i, 0] = chain.suffix[1]
            if n > 2:
                waiting.node[i, 1] = chain.context[1]
            if np.float32(parser.value[1]) != 0:
                mark_suffixes(lm, n, chain)
        else:
            changed = n
        for k in range(n):
            waiting.word[i, k] = word[k]
        waiting.value[i, 0], waiting.value[i, 1] = parser.value[0], parser.value[1]
        position = waiting.end[i] = state[LINE_END] + 1
    return min(len(waiting.end), state[REMAINING]), changed, DONE


@inlined
def _add(waiting: Waiting, i: int, n: int, lm: LanguageModel) -> int:
    """Add an n-gram that was waiting; returns as `add_ngram` does."""
    word, prob, backoff = waiting.word[i], waiting.value[i, 0], waiting.value[i, 1]
    added = -1
    if waiting.node[i, 0] >= 0:
        added = add_child(lm, word[0], waiting.node[i, 0], waiting.node[i, 1], prob, backoff)
    return add_ngram(lm, word, n, prob, backoff) if added < 0 else added


@inlined
def _number_words(parser: Parser, n: int, table: RowTable) -> int:
    """Number the words of the line; returns how many of them, from the first on, may differ from the line before.

    -k if field k is no word of the table.
    """
    text, before, changed = parser.text, parser.before, 0
    for k in range(n):
        begin, end = parser.field[k + 1, 0], parser.field[k + 1, 1]
        length, i = end - begin, 0
        if before[k, 1] - before[k, 0] == length:
            while i < length and text[at(begin + i)] == text[at(before[k, 0] + i)]:
                i += 1
        if i < length:
            number = int64(table.slot[row_slot(table, text, begin, end)])
            if number == 0:
                return -k - 1
            parser.word[k] = number - 1
            changed = k + 1
        before[k, 0], before[k, 1] = begin, end
    return changed


@inlined
def _next_line(state: np.ndarray, position: int) -> None:
    state[POSITION] = position
    state[LINES] += 1
    state[REMAINING] -= 1


@kernel
def _check_fields(parser: Parser, fields: int, n: int) -> int:
    """DONE if a line of so many ``fields``, -1 if it does not end in the block, may be that of an n-gram; or a code."""
    if fields < 0:
        return BLOCK_DONE
    if fields == 0 or parser.text[parser.field[0, 0]] == _BACKSLASH:
        return NO_NGRAM
    return DONE if fields == n + 1 or fields == n + 2 else BAD_FIELD_COUNT


@kernel
def _parse_numbers(parser: Parser, fields: int, n: int, order: int) -> int:
    """Parse the numbers of a line of so many ``fields``; returns DONE or an error code."""
    field = parser.field
    parser.value[0] = parse_float32(parser.text, field[0, 0], field[0, 1])
    parser.value[1] = 0.0 if fields == n + 1 else parse_float32(parser.text, field[n + 1, 0], field[n + 1, 1])
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
def _split(parser: Parser, position: int, filled: int) -> int:
    """Find the fields of the line at ``position``; returns their number, -1 if the line extends past ``filled``."""
    text, field = parser.text, parser.field
    fields, i = 0, position
    while i < filled:
        byte = text[at(i)]
        if byte == _NEWLINE:
            parser.state[LINE_END] = i
            return fields
        if _is_blank(byte):
            i += 1
            continue
        # Surplus fields overwrite the last entry.
        fields = min(fields + 1, len(field))
        field[fields - 1, 0] = i
        while i < filled and text[at(i)] != _NEWLINE and not _is_blank(text[at(i)]):
            i += 1
        field[fields - 1, 1] = i
        _rename_unknown(text, field[fields - 1, 0], i)
    return -1


@inlined
def _is_blank(byte: int) -> bool:
    """True for what separates fields."""
    return bool(byte <= _BLANK and byte in (_BLANK, _TAB, _RETURN))


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
