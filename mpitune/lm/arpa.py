"""Read n-gram language models in ARPA format into the hash table of `ngram_table`, in one pass.

The compiled parser `arpa_lines` reads the n-gram lines from blocks of bytes; this module reads the header lines.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import numpy as np

from mpitune.array_files.row_table import RowTable, fill_slots, row_slot
from mpitune.corpus.lines import BYTE_ORDER_MARK, GZIP_ERRORS, kilobytes, open_bytes
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import split_words
from mpitune.corpus.wording import counted
from mpitune.errors import DataError
from mpitune.lm.arpa_lines import (
    BAD_BACKOFF,
    BAD_FIELD,
    BAD_FIELD_COUNT,
    BAD_PROBABILITY,
    BLOCK_DONE,
    DONE,
    DUPLICATE,
    LAST_BACKOFF,
    LINES,
    NO_NGRAM,
    POSITION,
    REMAINING,
    TABLE_FULL,
    UNKNOWN_WORD,
    WORDS,
    Parser,
    new_parser,
    read_ngrams,
    read_unigrams,
)
from mpitune.lm.kenlm import MAGIC, refuse_other_kinds
from mpitune.lm.ngram_adding import LOAD, slots_for
from mpitune.lm.ngram_table import MAX_NODES, NODE, UNKNOWN, LanguageModel, first_slot

UNKNOWN_PROBABILITY = -100.0
"""log10 probability of ``<unk>`` in models without an entry for it, as in KenLM."""

_BLOCK = 1 << 22
"""Bytes of a block of the file."""
_BYTES_PER_WORD = 24
"""Bytes of a word in `RowTable`, about: a third of them text."""
_GZIPPED = 1032
"""Bytes that a byte of a gzipped file stands for, at most."""
_MAX_LOAD = 0.9
"""Load factor that blank n-grams may raise it to."""


def read_arpa(path: Path) -> dict[str, np.ndarray]:
    """Read an ARPA file of any order, plain or gzipped, into the arrays that `ngram_table.language_model` takes.

    Returns ``node`` (NODE, see `ngram_table.LanguageModel`); ``word_text`` (uint8), ``word_ptr`` (int64) and
    ``word_slot`` (int32), see `mpitune.array_files.row_table.RowTable`; ``order_bos_eos`` (int64 [3]). Raises DataError
    with the line number if the file is not a valid ARPA file.
    """
    scale = 1
    while (arrays := _read_once(path, scale)) is None:
        scale *= 2
    return arrays


def ngram_counts(path: Path) -> list[int]:
    """The numbers of 1-grams, 2-grams and so on that the header states. Raises DataError if it is malformed."""
    with open_bytes(path) as file:
        return _read_counts(_BlockReader(path, file))


def stored_bytes(counts: Sequence[int]) -> int:
    """About the size of the arrays of `read_arpa` for a file with these `ngram_counts`."""
    return NODE.itemsize * (counts[0] + int(sum(counts[1:]) / LOAD)) + _BYTES_PER_WORD * counts[0]


def _read_once(path: Path, scale: int) -> dict[str, np.ndarray] | None:
    """Read the file with a table of ``scale`` times the usual size; None if blank n-grams overfill that table."""
    with open_bytes(path) as file, ExitStack() as stack:
        source = _BlockReader(path, file)
        counts = _read_counts(source)
        source.progress = stack.enter_context(Progress("n-grams read", sum(counts)))
        order = len(counts)
        parser = new_parser(source.text, source.state, order)
        slots = scale * slots_for(sum(counts[1:]), order)
        if first_slot(counts[0] + 1) + slots > MAX_NODES:
            source.refuse(f"{sum(counts)} n-grams announced", f"what a table of {MAX_NODES} n-grams can hold")
        unigrams, table = _read_unigrams(source, counts, parser)
        words = len(unigrams)
        node = np.zeros(first_slot(words) + slots, dtype=NODE)
        node[:words] = unigrams
        bos, eos = _required_word(source, table, "<s>"), _required_word(source, table, "</s>")
        lm = LanguageModel(node, order, words, bos, eos)
        max_used = int(_MAX_LOAD * slots)
        for n in range(2, order + 1):
            _expect_header(source, n - 1, counts, f"\\{n}-grams:")
            source.state[REMAINING] = counts[n - 1]
            while (code := read_ngrams(parser, source.filled, n, table, lm, max_used)) != DONE:
                if code == TABLE_FULL:
                    return None
                _continue(source, parser, code, n, counts)
        source.progress.reach(sum(counts))
        _expect_header(source, order, counts, "\\end\\")
        while (line := source.line()) is not None:
            if line:
                source.refuse(repr(line[:60]), "nothing after \\end\\")
    arrays = {"node": node, "word_text": table.flat, "word_ptr": table.ptr, "word_slot": table.slot}
    return arrays | {"order_bos_eos": np.array([order, lm.bos, lm.eos], dtype=np.int64)}


def _read_counts(source: _BlockReader) -> list[int]:
    """Read the header up to ``\\1-grams:``; returns the number of n-grams of each length that it states."""
    source.fill()
    if source.buffer.startswith(MAGIC):
        refuse_other_kinds(source.path, bytes(source.buffer[: source.filled]))
        expected = "it unpacked: it is mapped into memory"
        raise DataError.at(source.path, None, found="a gzipped KenLM binary", expected=expected)
    if source.buffer.startswith(BYTE_ORDER_MARK):
        source.state[POSITION] = len(BYTE_ORDER_MARK)
    while (line := source.next_line("\\data\\")).startswith("#"):
        pass  # a comment, as in KenLM
    if line != "\\data\\":
        source.refuse(repr(line[:60]), "\\data\\, where an ARPA language model begins")
    counts: list[int] = []
    while (line := source.next_line("\\1-grams:")) != "\\1-grams:" or not counts:
        match = re.fullmatch(r"ngram[ \t]+(\d{1,9})[ \t]*=[ \t]*(\d{1,18})", line, re.ASCII)
        if match is None or int(match[1]) != len(counts) + 1:
            expected = f"ngram {len(counts) + 1}=COUNT (at most 18 digits)"
            source.refuse(repr(line[:60]), expected + (" or \\1-grams:" if counts else ""))
        counts.append(int(match[2]))
        # Of one letter each, a probability and n words take 2 n + 2 bytes with what separates them.
        if sum(2 * (n + 1) * count for n, count in enumerate(counts, start=1)) > 1024 * source.most_kilobytes:
            source.refuse(repr(line[:60]), f"no more n-grams than {source.most_kilobytes} kB of text can hold")
    return counts


def _read_unigrams(source: _BlockReader, counts: list[int], parser: Parser) -> tuple[np.ndarray, RowTable]:
    """Read the unigrams; returns their nodes and their words: ``<unk>``, then the others in the order of the file."""
    unknown = np.frombuffer(bytearray(b"<unk>"), dtype=np.uint8)
    unigrams = np.zeros(counts[0] + 1, dtype=NODE)
    unigrams["prob"] = np.nan
    ptr, slot = np.zeros(counts[0] + 2, dtype=np.int64), np.zeros(2 * counts[0] + 3, dtype=np.int32)
    ptr[1] = len(unknown)
    table = RowTable(unknown, ptr, slot)
    fill_slots(table, 1)
    source.state[WORDS] = 1
    source.state[REMAINING] = counts[0]
    code = BLOCK_DONE
    while code != DONE:
        used = int(ptr[source.state[WORDS]])
        if used + _BLOCK > len(table.flat):
            # Make space for all words of a block. Doubling the text bounds the number of copies.
            table = table._replace(flat=np.concatenate([table.flat[:used], np.zeros(used + _BLOCK, dtype=np.uint8)]))
        begin, lines = int(source.state[POSITION]), int(source.state[LINES])
        code = read_unigrams(parser, source.filled, len(counts), table, unigrams)
        source.decode(begin, lines)  # checks UTF-8; the words of longer n-grams must equal these byte by byte
        if code != DONE:
            _continue(source, parser, code, 1, counts)
    words = int(source.state[WORDS])
    table = RowTable(table.flat[: ptr[words]].copy(), ptr[: words + 1], slot)
    if np.isnan(unigrams[UNKNOWN]["prob"]):
        unigrams[UNKNOWN]["prob"] = UNKNOWN_PROBABILITY
    return unigrams[:words], table


def _required_word(source: _BlockReader, table: RowTable, word: str) -> int:
    """Return the number of ``word``; raises DataError if the model lacks it."""
    text = np.frombuffer(word.encode(), dtype=np.uint8)
    number = int(table.slot[row_slot(table, text, 0, len(text))]) - 1
    if number < 0:
        source.refuse(f"no {word} among the 1-grams", "a model of sentences between <s> and </s>")
    return number


def _expect_header(source: _BlockReader, n: int, counts: list[int], header: str) -> None:
    """Read the line after the section of n-grams, which must be ``header``."""
    line = source.next_line(header)
    if line != header:
        more = re.match(r"[-+.\d]", line)
        found = f"more {n}-grams than the {counts[n - 1]} announced" if more else repr(line[:60])
        source.refuse(found, header)


def _continue(source: _BlockReader, parser: Parser, code: int, n: int, counts: list[int]) -> None:
    """Read the next block if the parser stopped for that, else raise DataError for the line that it stopped at."""
    read = counts[n - 1] - int(source.state[REMAINING])
    announced = f"{counts[n - 1]} {n}-grams, as announced"
    if code == BLOCK_DONE:
        source.progress.reach(sum(counts[: n - 1]) + read)
        if not source.fill():
            source.refuse(f"the end of the file after {read} {n}-grams", announced)
        return
    first, last = (1, n) if code == DUPLICATE else (source.state[BAD_FIELD], source.state[BAD_FIELD])
    field = source.buffer[parser.field[first, 0] : parser.field[last, 1]].decode(errors="replace")
    line = source.line() or ""
    if code == NO_NGRAM:
        source.refuse(f"{line[:60]!r} after {read} {n}-grams", announced)
    if code == BAD_FIELD_COUNT:
        backoff = " and perhaps a backoff" if n < len(counts) else ""
        source.refuse(counted(len(split_words(line)), "field"), f"a log10 probability, {n} word{'s'[: n - 1]}{backoff}")
    if code == BAD_PROBABILITY:
        source.refuse(repr(field), "a log10 probability: a finite number, not above 0")
    if code == BAD_BACKOFF:
        source.refuse(repr(field), "a log10 backoff: a finite number")
    if code == LAST_BACKOFF:
        source.refuse(f"the backoff {field!r}", f"none other than 0, as no n-grams are longer than {n} words")
    if code == UNKNOWN_WORD:
        source.refuse(f"{field!r} in a {n}-gram", "a word that is among the 1-grams")
    source.refuse(f"the {n}-gram {field!r} a second time", "every n-gram once")


class _BlockReader:
    """Reads a file into a block of bytes for the compiled parser, and single lines out of that block.

    The parser stops after the last complete line of a block; `fill` moves the rest to the front.
    """

    def __init__(self, path: Path, file: io.BufferedReader) -> None:
        self.path = path
        self.most_kilobytes = kilobytes([path]) * (_GZIPPED if isinstance(file.raw, gzip.GzipFile) else 1)
        """Of the text, at most."""
        self.buffer = bytearray(_BLOCK)
        self.text = np.frombuffer(self.buffer, dtype=np.uint8)
        self.filled = 0
        self.state = np.zeros(7, dtype=np.int64)
        """See `arpa_lines.Parser`."""
        self.progress: Progress
        """Of the n-grams."""
        self._file = file

    def fill(self) -> bool:
        """Move the unread bytes to the front of the block and read more after them; False at the end of the file."""
        rest = int(self.filled - self.state[POSITION])
        if rest >= _BLOCK - 1:
            self.refuse(f"a line of more than {rest} bytes", "an n-gram")
        self.buffer[:rest] = self.buffer[self.state[POSITION] : self.filled]
        try:
            more = self._file.readinto(memoryview(self.buffer)[rest : _BLOCK - 1])
        except GZIP_ERRORS as error:
            self.refuse(f"damaged gzip data ({error})", "a whole gzip file")
        if not more and rest > 0 and self.buffer[rest - 1] != ord("\n"):
            self.buffer[rest], more = ord("\n"), 1
        self.state[POSITION] = 0
        self.filled = rest + more
        return more > 0

    def line(self) -> str | None:
        """Read the next line, stripped of surrounding blanks; None at the end of the file."""
        while (end := self.buffer.find(b"\n", self.state[POSITION], self.filled)) < 0:
            if not self.fill():
                return None
        begin, lines = int(self.state[POSITION]), int(self.state[LINES])
        self.state[POSITION] = end + 1
        self.state[LINES] += 1
        return self.decode(begin, lines).strip(" \t\r\n")

    def next_line(self, expected: str) -> str:
        """Read the next line that is not empty."""
        while (line := self.line()) is not None:
            if line:
                return line
        self.refuse("the end of the file", expected)

    def decode(self, begin: int, lines: int) -> str:
        """Decode the bytes of the block from ``begin`` to the read position; ``lines`` lines came before ``begin``."""
        text = self.buffer[begin : self.state[POSITION]]
        bad, found, expected = text.find(b"\0"), "a NUL character", "text without any"
        try:
            decoded = text.decode()
        except UnicodeDecodeError as error:
            bad, found, expected = error.start, f"bytes that are not UTF-8 ({error.reason})", "UTF-8"
        if bad >= 0:
            self.state[LINES] = lines + 1 + text.count(b"\n", 0, bad)
            self.refuse(found, expected)
        return decoded

    def refuse(self, found: str, expected: str) -> NoReturn:
        """Raise DataError for the line that was read last."""
        raise DataError.at(self.path, max(1, int(self.state[LINES])), found=found, expected=expected)
