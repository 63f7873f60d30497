"""Reading n-gram language models in ARPA format into the table of `lm`, in one pass.

A compiled parser, `arpa_lines`, reads the n-grams out of blocks of bytes; the few lines between them are read here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from mpitune.corpus.text import BYTE_ORDER_MARK, GZIP_ERRORS, counted, open_bytes, split_words
from mpitune.errors import DataError
from mpitune.lm.arpa_lines import (
    BACKOFF,
    BLOCK_DONE,
    DONE,
    DUPLICATE,
    FIELDS,
    LINES,
    NO_NGRAM,
    POSITION,
    PROBABILITY,
    TABLE_FULL,
    TO_COME,
    UNKNOWN_WORD,
    WORDS,
    WRONG,
    Parser,
    read_ngrams,
    read_unigrams,
)
from mpitune.lm.kenlm import MAGIC, refuse_other_kinds
from mpitune.lm.ngram_table import MAX_NODES, NODE, UNKNOWN, LanguageModel, WordTable, first_slot, word_slot

UNKNOWN_PROBABILITY = -100.0
"""log10 probability of ``<unk>`` where a model has none, as in KenLM."""

_BLOCK = 1 << 22
_LOAD = 0.6  # how full the table of n-grams is to be
_MAX_LOAD = 0.9  # how full blank n-grams may make it


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
    with open_bytes(path) as file:
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
            while (code := read_ngrams(parser, source.filled, n, table, lm, limit)) != DONE:
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
    if source.buffer.startswith(MAGIC):
        refuse_other_kinds(source.path, bytes(source.buffer[: source.filled]))
        expected = "it unpacked: it is mapped into memory"
        raise DataError.at(source.path, None, found="a gzipped KenLM binary", expected=expected)
    if source.buffer.startswith(BYTE_ORDER_MARK):
        source.at[POSITION] = len(BYTE_ORDER_MARK)
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
        code = read_unigrams(parser, source.filled, len(counts), table, unigrams)
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
        source.refuse(counted(len(split_words(line)), "field"), f"a log10 probability, {n} word{'s'[: n - 1]}{backoff}")
    if code == PROBABILITY:
        source.refuse(repr(field), "a log10 probability: a finite number, not above 0")
    if code == BACKOFF:
        source.refuse(repr(field), "a log10 backoff: a finite number")
    if code == UNKNOWN_WORD:
        source.refuse(f"{field!r} in a {n}-gram", "a word that is among the 1-grams")
    source.refuse(f"the {n}-gram {field!r} a second time", "every n-gram once")


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
        except GZIP_ERRORS as error:
            self.refuse(f"damaged gzip data ({error})", "a whole gzip file")
        if not more and rest > 0 and self.buffer[rest - 1] != ord("\n"):
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
