"""The sentences of texts as numbers of their words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from mpitune.corpus.lines import line_blocks
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import split_words
from mpitune.corpus.tokens import next_token
from mpitune.corpus.vocabulary import Names
from mpitune.corpus.word_table import GrowingWordTable, WordTable, word_or_new
from mpitune.errors import DataError
from mpitune.jit import at, kernel

MARKERS = ("<unk>", "<s>", "</s>")
"""Words 0, 1 and 2, which the model adds."""
UNKNOWN, START, END = range(3)
_RESERVED = (*MARKERS, "<UNK>")
"""Words that a text must not have: readers take ``<UNK>`` for ``<unk>``, as KenLM does."""
MAX_PLACES = 2**31 - 2
"""Counts, and places of n-grams, must fit an int32."""

_NEWLINE = ord("\n")


class NumberedText:
    """Reads texts, and numbers their words in the order in which they first occur."""

    def __init__(self, allowed: Collection[str] | None = None) -> None:
        """``allowed``: the words that are not read as ``<unk>``; None: all."""
        self.sentences = 0
        self.words = 0
        """Words read; their ends do not count."""
        self.unknown = 0
        """Words read that the vocabulary does not allow."""
        self.vocabulary = list(MARKERS)
        """The text of each word, by its number."""
        self._allowed = allowed
        self._table = GrowingWordTable()
        for word in _RESERVED:
            self._table.add(word.encode())
        self._number = np.array([UNKNOWN, START, END, UNKNOWN], dtype=np.int32)
        """Of each word in the table."""

    def read(self, texts: Sequence[Path], starts: int, progress: Progress) -> Iterator[np.ndarray]:
        """Blocks of sentences (int32): ``starts`` times ``<s>``, the words, ``</s>``.

        Raises DataError for texts without lines or with more words than `MAX_PLACES`, and for a line that `line_blocks`
        refuses or that has a marker.
        """
        tokens = 0
        for path in texts:
            before = self.sentences
            for block in line_blocks(path, progress):
                numbers = self._numbers(path, self.sentences - before, block, starts)
                tokens += len(numbers)
                if tokens > MAX_PLACES:
                    line = self.sentences - before
                    raise DataError.at(path, line, found=f"more than {MAX_PLACES} words", expected="a smaller text")
                yield numbers
        if self.sentences == 0:
            raise DataError.at(texts[0], None, found="no lines", expected="sentences, one a line")

    def _numbers(self, path: Path, lines_before: int, block: bytearray, starts: int) -> np.ndarray:
        known = len(self._table)
        # A word takes two bytes, with what separates it from the next one.
        most, lines = len(block) // 2 + 1, block.count(b"\n")
        numbers = np.empty(most + lines * (starts + 1), dtype=np.int32)
        text = np.frombuffer(block, dtype=np.uint8)
        table = self._table.with_room(most, len(block))
        end, words, bad = _number_words(text, table, known, starts, numbers)
        if bad >= 0:
            line = block[block.rfind(b"\n", 0, bad) + 1 : block.find(b"\n", bad)].decode()
            marker = next(word for word in split_words(line) if word in _RESERVED)
            expected = f"a sentence without {', '.join(_RESERVED)}, which the model has itself: remove or rename them"
            number = lines_before + block.count(b"\n", 0, bad) + 1
            raise DataError.at(path, number, found=f"the word {marker}", expected=expected)
        self._table.took(words)
        self._number_new(known)
        self.sentences += lines
        self.words += end - lines * (starts + 1)
        numbers = self._number[numbers[:end]]
        if self._allowed is not None:
            self.unknown += int(np.count_nonzero(numbers == UNKNOWN))
        return numbers

    def _number_new(self, known: int) -> None:
        """Number the words of the table from ``known`` on."""
        text, ptr = self._table.table.text, self._table.table.ptr[known : len(self._table) + 1]
        new = Names(text[ptr[0] : ptr[-1]], ptr - ptr[0]).all()
        is_allowed = [self._allowed is None or word in self._allowed for word in new]
        numbers = np.where(is_allowed, len(self.vocabulary) - 1 + np.cumsum(is_allowed), UNKNOWN)
        self._number = np.concatenate([self._number, numbers.astype(np.int32)])
        self.vocabulary += [word for word, allowed in zip(new, is_allowed, strict=True) if allowed]


@kernel
def _number_words(
    text: np.ndarray, table: WordTable, words: int, starts: int, numbers: np.ndarray
) -> tuple[int, int, int]:
    """Write ``starts`` times `START`, the numbers of words and `END` for each line of ``text`` to ``numbers``.

    ``table``: of so many ``words``, the first of which are reserved; it has room for all of the text. Returns the end
    in ``numbers``, the number of words in the table, and the place of a reserved word in the text, or -1.
    """
    line, end, used = 0, 0, 0
    while line < len(text):
        for _ in range(starts):
            numbers[at(used)] = START
            used += 1
        line_end = line
        while text[at(line_end)] != _NEWLINE:
            line_end += 1
        begin, end = next_token(text, line, line_end)
        while begin < line_end:
            word = word_or_new(table, words, text, begin, end)
            if word < len(_RESERVED):
                return used, words, begin
            words = max(words, word + 1)
            numbers[at(used)] = word
            used += 1
            begin, end = next_token(text, end, line_end)
        numbers[at(used)] = END
        used += 1
        line = line_end + 1
    return used, words, -1
