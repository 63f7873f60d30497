"""The sentences of texts as numbers of their words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from mpitune.corpus.lines import line_blocks
from mpitune.corpus.progress import Progress
from mpitune.corpus.tokens import WORDS, LineSplitter, row_of
from mpitune.corpus.vocabulary import Names
from mpitune.errors import DataError

MARKERS = ("<unk>", "<s>", "</s>")
"""Words 0, 1 and 2, which the model adds."""
UNKNOWN, START, END = range(3)
_RESERVED = (*MARKERS, "<UNK>")
"""Words that a text must not have: readers take ``<UNK>`` for ``<unk>``, as KenLM does."""
MAX_PLACES = 2**31 - 2
"""Counts, and places of n-grams, must fit an int32."""


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
        self._splitter = LineSplitter()
        reserved = Names.of(_RESERVED)
        self._splitter.words.add(reserved.ptr, reserved.text)
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
        lines = self._splitter.split(block, [WORDS])
        ptr, words = lines.row(0)
        reserved = np.flatnonzero(words < len(_RESERVED))
        if len(reserved):
            line = int(row_of(ptr, reserved[:1])[0])
            expected = f"a sentence without {', '.join(_RESERVED)}, which the model has itself: remove or rename them"
            found = f"the word {_RESERVED[words[reserved[0]]]}"
            raise DataError.at(path, lines_before + line + 1, found=found, expected=expected)
        self._number_new()
        begins = ptr + (starts + 1) * np.arange(len(ptr))
        numbers = np.full(begins[-1], START, dtype=np.int32)
        is_word = np.ones(len(numbers), dtype=np.bool_)
        is_word[begins[:-1, None] + np.arange(-1, starts)] = False
        numbers[is_word] = self._number[words]
        numbers[begins[1:] - 1] = END
        self.sentences += len(begins) - 1
        self.words += len(words)
        if self._allowed is not None:
            self.unknown += int(np.count_nonzero(numbers == UNKNOWN))
        return numbers

    def _number_new(self) -> None:
        """Number the words that the table has got since the last time."""
        new = self._splitter.words.texts(np.arange(len(self._number), len(self._splitter.words)))
        is_allowed = [self._allowed is None or word in self._allowed for word in new]
        numbers = np.where(is_allowed, len(self.vocabulary) - 1 + np.cumsum(is_allowed), UNKNOWN)
        self._number = np.concatenate([self._number, numbers.astype(np.int32)])
        self.vocabulary += [word for word, allowed in zip(new, is_allowed, strict=True) if allowed]
