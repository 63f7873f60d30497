"""Reading n-gram language models in ARPA format into the table of `lm`, in one pass.

A compiled parser reads the n-grams out of blocks of bytes; the few lines between them are read in Python.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn, cast

import numpy as np

from mpitune.corpus.text import split_words
from mpitune.errors import DataError
from mpitune.grammar.lm import (
    EXTENDS_RIGHT,
    MAX_NODES,
    NODE,
    UNKNOWN,
    LanguageModel,
    WordTable,
    add_ngram,
    first_slot,
    word_slot,
)
from mpitune.kernel import kernel

UNKNOWN_PROBABILITY = -100.0
"""log10 probability of ``<unk>`` where a model has none, as in KenLM."""

_KENLM_BINARY = b"mmap lm http://kheafield.com/code"
_BLOCK = 1 << 22
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_LOAD = 0.6  # how full the table of n-grams is to be
_MAX_LOAD = 0.9  # how full blank n-grams may make it

# Why a kernel comes back; from NO_NGRAM on, errors of the line at hand.
DONE, BLOCK_DONE, TABLE_FULL, NO_NGRAM, FIELDS, PROBABILITY, BACKOFF, UNKNOWN_WORD, DUPLICATE = range(9)

# Places in `Parser.at`: n-grams of this section still to come; lines read; where in the block the next line begins, and
# where it ends; which of its fields is wrong; words numbered; slots of the table in use.
TO_COME, LINES, POSITION, LINE_END, WRONG, WORDS, USED = range(7)

_NEWLINE, _RETURN, _BLANK, _TAB, _BACKSLASH = 10, 13, 32, 9, 92
_PLUS, _MINUS, _POINT, _ZERO, _BIG_E, _SMALL_E = 43, 45, 46, 48, 69, 101


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


def read_arpa(path: Path) -> dict[str, np.ndarray]:
    """Read an ARPA file, plain or gzipped, of any order; `lm.language_model` makes a model of the result.

    Returns ``node`` (NODE, see `lm.LanguageModel`); ``word_text`` (uint8), ``word_ptr`` (int64) and ``word_slot``
    (int32), see `lm.WordTable`; ``order_bos_eos`` (int64 [3]). Raises DataError, with the line, for anything that is
    not such a file.
    """
    room = 1
    while (arrays := _read(path, room)) is None:
        room *= 2
    return arrays


def _read(path: Path, room: int) -> dict[str, np.ndarray] | None:
    """What `read_arpa` returns, or None if blank n-grams need a table of more than ``room`` times the usual size."""
    with _open(path) as file:
        source = _Source(path, file)
        counts = _counts(source)
        order = len(counts)
        field, word = np.zeros((order + 3, 2), dtype=np.int64), np.zeros(order, dtype=np.int64)
        parser = Parser(source.text, source.at, field, np.zeros(2), word)
        slots = 4 * room * (int(sum(counts[1:]) / (4 * _LOAD)) + order * order)
        if first_slot(counts[0] + 1) + slots > MAX_NODES:
            source.refuse(f"{sum(counts)} n-grams announced", f"what a table of {MAX_NODES} n-grams can hold")
        unigrams, table = _unigrams(source, counts, parser)
        words = len(unigrams)
        node = np.zeros(first_slot(words) + slots, dtype=NODE)
        node[:words] = unigrams
        lm = LanguageModel(node, order, words, _required(source, table, "<s>"), _required(source, table, "</s>"))
        limit = int(_MAX_LOAD * slots)
        for n in range(2, order + 1):
            _between(source, n - 1, counts, f"\\{n}-grams:")
            source.at[TO_COME] = counts[n - 1]
            while (code := _read_ngrams(parser, source.filled, n, table, lm, limit)) != DONE:
                if code == TABLE_FULL:
                    return None
                _go_on(source, parser, code, n, counts)
        _between(source, order, counts, "\\end\\")
        while (line := source.line()) is not None:
            if line:
                source.refuse(repr(line[:60]), "nothing after \\end\\")
    arrays = {"node": node, "word_text": table.text, "word_ptr": table.ptr, "word_slot": table.slot}
    return arrays | {"order_bos_eos": np.array([order, lm.bos, lm.eos], dtype=np.int64)}


def _counts(source: _Source) -> list[int]:
    """How many n-grams of each length are announced; reads on to ``\\1-grams:``."""
    source.fill()
    if source.buffer.startswith(_KENLM_BINARY):
        raise DataError.at(source.path, None, found="a KenLM binary", expected="the ARPA file that it was made from")
    if (line := source.next_line("\\data\\")) != "\\data\\":
        source.refuse(repr(line[:60]), "\\data\\, where an ARPA language model begins")
    counts: list[int] = []
    while (line := source.next_line("\\1-grams:")) != "\\1-grams:" or not counts:
        match = re.fullmatch(r"ngram[ \t]+(\d+)[ \t]*=[ \t]*(\d+)", line, re.ASCII)
        if match is None or int(match[1]) != len(counts) + 1:
            source.refuse(repr(line[:60]), f"ngram {len(counts) + 1}=COUNT" + (" or \\1-grams:" if counts else ""))
        counts.append(int(match[2]))
    return counts


def _unigrams(source: _Source, counts: list[int], parser: Parser) -> tuple[np.ndarray, WordTable]:
    """The nodes of the unigrams, and their words: ``<unk>``, then the others in the order of the file."""
    unknown = np.frombuffer(b"<unk>", dtype=np.uint8)
    unigrams = np.zeros(counts[0] + 1, dtype=NODE)
    ptr, slot = np.zeros(counts[0] + 2, dtype=np.int64), np.zeros(2 * counts[0] + 3, dtype=np.int32)
    ptr[1] = len(unknown)
    table = WordTable(unknown, ptr, slot)
    source.at[WORDS] = 1
    source.at[TO_COME] = counts[0]
    code = BLOCK_DONE
    while code != DONE:
        used = int(ptr[source.at[WORDS]])
        if used + _BLOCK > len(table.text):
            # Room for all words of a block, and for as many again as there are, so that few are copied often.
            table = table._replace(text=np.concatenate([table.text[:used], np.zeros(used + _BLOCK, dtype=np.uint8)]))
        begin, lines = int(source.at[POSITION]), int(source.at[LINES])
        code = _read_unigrams(parser, source.filled, len(counts), table, unigrams)
        source.decode(begin, lines)  # all other words are compared with these, byte by byte
        if code != DONE:
            _go_on(source, parser, code, 1, counts)
    words = int(source.at[WORDS])
    table = WordTable(table.text[: ptr[words]].copy(), ptr[: words + 1], slot)
    place = word_slot(table, unknown, 0, len(unknown))
    if slot[place] == 0:
        slot[place] = UNKNOWN + 1
        unigrams[UNKNOWN]["prob"] = UNKNOWN_PROBABILITY
    return unigrams[:words], table


def _required(source: _Source, table: WordTable, word: str) -> int:
    """The number of ``word``, which no model can do without."""
    text = np.frombuffer(word.encode(), dtype=np.uint8)
    number = int(table.slot[word_slot(table, text, 0, len(text))]) - 1
    if number < 0:
        source.refuse(f"no {word} among the 1-grams", "a model of sentences between <s> and </s>")
    return number


def _between(source: _Source, n: int, counts: list[int], header: str) -> None:
    """Read on from the last of the n-grams to ``header``."""
    line = source.next_line(header)
    if line != header:
        more = re.match(r"[-+.\d]", line)
        found = f"more {n}-grams than the {counts[n - 1]} announced" if more else repr(line[:60])
        source.refuse(found, header)


def _go_on(source: _Source, parser: Parser, code: int, n: int, counts: list[int]) -> None:
    """Let the parser go on with the next block, or refuse the line that it stopped at."""
    read = counts[n - 1] - source.at[TO_COME]
    announced = f"{counts[n - 1]} {n}-grams, as announced"
    if code == BLOCK_DONE:
        if not source.fill():
            source.refuse(f"the end of the file after {read} {n}-grams", announced)
        return
    first, last = (1, n) if code == DUPLICATE else (source.at[WRONG], source.at[WRONG])
    field = source.buffer[parser.field[first, 0] : parser.field[last, 1]].decode(errors="replace")
    line = source.line() or ""
    if code == NO_NGRAM:
        source.refuse(f"{line[:60]!r} after {read} {n}-grams", announced)
    if code == FIELDS:
        backoff = " and perhaps a backoff" if n < len(counts) else ""
        source.refuse(f"{len(split_words(line))} fields", f"a log10 probability, {n} word{'s'[: n - 1]}{backoff}")
    if code == PROBABILITY:
        source.refuse(repr(field), "a log10 probability: a finite number, not above 0")
    if code == BACKOFF:
        source.refuse(repr(field), "a log10 backoff: a finite number")
    if code == UNKNOWN_WORD:
        source.refuse(f"{field!r} in a {n}-gram", "a word that is among the 1-grams")
    source.refuse(f"the {n}-gram {field!r} a second time", "every n-gram once")


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, gunzipped if they are gzip data."""
    try:
        with open(path, "rb") as raw:
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if zipped else raw
    except OSError as error:
        raise DataError.at(path, None, found=str(error.strerror).lower(), expected="a readable file") from None


class _Source:
    """A file in blocks for the compiled parser, which leaves off at the last whole line of each; and line by line."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.buffer = bytearray(_BLOCK)
        self.text = np.frombuffer(self.buffer, dtype=np.uint8)
        self.filled = 0
        self.at = np.zeros(7, dtype=np.int64)
        self._file = file

    def fill(self) -> bool:
        """Move what is unread to the front of the block and read more behind it; False at the end of the file."""
        rest = int(self.filled - self.at[POSITION])
        if rest >= _BLOCK - 1:
            self.refuse(f"a line of more than {rest} bytes", "an n-gram")
        self.buffer[:rest] = self.buffer[self.at[POSITION] : self.filled]
        try:
            more = self._file.read(_BLOCK - 1 - rest)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.refuse(f"damaged gzip data ({error})", "a whole gzip file")
        if not more and rest > 0 and self.buffer[rest - 1] != _NEWLINE:
            more = b"\n"
        self.buffer[rest : rest + len(more)] = more
        self.at[POSITION] = 0
        self.filled = rest + len(more)
        return len(more) > 0

    def line(self) -> str | None:
        """The next line without blanks around it, None at the end of the file."""
        while (end := self.buffer.find(b"\n", self.at[POSITION], self.filled)) < 0:
            if not self.fill():
                return None
        begin, lines = int(self.at[POSITION]), int(self.at[LINES])
        self.at[POSITION] = end + 1
        self.at[LINES] += 1
        return self.decode(begin, lines).strip(" \t\r\n")

    def next_line(self, expected: str) -> str:
        """The next line that is not empty."""
        while (line := self.line()) is not None:
            if line:
                return line
        self.refuse("the end of the file", expected)

    def decode(self, begin: int, lines: int) -> str:
        """What was read of the block from ``begin`` on, after ``lines`` lines of the file."""
        try:
            return self.buffer[begin : self.at[POSITION]].decode()
        except UnicodeDecodeError as error:
            self.at[LINES] = lines + 1 + self.buffer.count(b"\n", begin, begin + error.start)
            self.refuse(f"bytes that are not UTF-8 ({error.reason})", "UTF-8")

    def refuse(self, found: str, expected: str) -> NoReturn:
        """Raise the DataError of the line that was read last."""
        raise DataError.at(self.path, max(1, int(self.at[LINES])), found=found, expected=expected)


@kernel
def _read_unigrams(parser: Parser, filled: int, order: int, table: WordTable, unigrams: np.ndarray) -> int:
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
def _read_ngrams(parser: Parser, filled: int, n: int, table: WordTable, lm: LanguageModel, limit: int) -> int:
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
