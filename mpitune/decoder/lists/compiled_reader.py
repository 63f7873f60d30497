"""Compiled reader of well-formed lines of Moses and cdec, which reads them from blocks of bytes.

The kernel splits lines into words and features. A word, or a name, that it meets for the first time is numbered in
Python, once. A line that the kernel does not accept goes to `ListReader`, which defines the formats and their errors.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.array_files.row_table import enlarged
from mpitune.corpus.feature_table import FEATURE_NAME, is_feature_name
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.word_table import GrowingWordTable
from mpitune.decoder.lists.formats import Entry, Layout, ListReader, laid_out
from mpitune.decoder.lists.line_kernel import (
    INEXACT,
    LINES,
    MEANING,
    NEW,
    NEW_WORD,
    POSITION,
    UNKNOWN,
    UNNUMBERED,
    Entries,
    Words,
    new_block,
    parse_entries,
)
from mpitune.errors import DataError


class FeatureNumbers(dict[str, int]):
    """Features by name; a new name gets the next number. Raises ValueError for one that weights files cannot hold."""

    def __missing__(self, name: str) -> int:
        if not is_feature_name(name):
            raise ValueError(name)
        number = self[name] = len(self)
        return number


class CompiledReader:
    """Reads files of entries into arrays. In all files of a reader, a name of Moses has the same number of values."""

    def __init__(self, words: Vocabulary, features: FeatureNumbers) -> None:
        """``words``, ``features``: get the words and features of all entries."""
        self._words = words
        self._features = features
        self._reader = ListReader()
        self._table = GrowingWordTable()
        self._meaning = np.zeros(0, dtype=MEANING)
        self._block = new_block(0)

    def read(
        self, path: Path, sentences: int, accept: Callable[[Entry], bool], *, plain: bool = True
    ) -> Iterator[Entries]:
        """The entries of a file, plain or gzipped, in its order. Raises DataError for a malformed line.

        ``accept`` gets some of the entries, among them all of lists from ``sentences`` on; of those that are not
        ``plain``, it gets all. It may change their features, and returns False for an entry to leave out.
        """
        number = 1
        layout = Layout()

        def entries_of(lines: bytearray) -> Entries:
            """The entries of ``lines``, the first of which has the ``number``."""
            found: list[Entry] = []
            for n, line in enumerate(lines.decode().split("\n")[:-1], start=number):
                try:
                    entry = self._reader.entry(path, n, line, layout)
                except DataError:
                    # A line before this one may have a feature that has no number: it is the first malformed one.
                    self._encoded(path, found)
                    raise
                if accept(entry):
                    found.append(entry)
            return self._encoded(path, found)

        for text, layout in laid_out(path):
            if not plain or layout.format == "json":
                yield entries_of(text)
                number += text.count(b"\n")
                continue
            begin = 0
            while begin < len(text):
                entries, begin = self._compiled(text, begin, layout, sentences)
                yield entries
                number += len(entries.sentence)
                if begin < len(text):
                    end = text.index(b"\n", begin) + 1
                    yield entries_of(text[begin:end])
                    number, begin = number + 1, end

    def _encoded(self, path: Path, entries: Sequence[Entry]) -> Entries:
        """``entries`` as arrays. Raises DataError for the name of a feature that weights files cannot hold."""
        word, feature, value = array("i"), array("i"), array("d")
        for entry in entries:
            # From a list: three times as fast as from an iterator.
            word.fromlist(self._words.numbers(entry.words))
            try:
                feature.fromlist(list(map(self._features.__getitem__, entry.features)))
            except ValueError as error:
                found = f"feature name {str(error)!r}"
                raise DataError.at(path, entry.line, found=found, expected=FEATURE_NAME) from None
            value.fromlist(list(entry.features.values()))
        return Entries(
            np.array([entry.sentence for entry in entries], dtype=np.int32),
            row_ends([len(entry.words) for entry in entries]),
            np.array(word),
            row_ends([len(entry.features) for entry in entries]),
            np.array(feature),
            np.array(value),
        )

    def _compiled(self, text: bytearray, begin: int, layout: Layout, sentences: int) -> tuple[Entries, int]:
        """The entries from ``begin`` on, up to a line that the kernel does not accept, and the begin of that line."""
        if len(self._block.space.sentence) < len(text):
            self._block = new_block(len(text))._replace(state=self._block.state)
        block = self._block._replace(text=np.frombuffer(text, dtype=np.uint8))
        state = block.state
        state[POSITION], state[LINES], state[INEXACT] = begin, 0, 0
        moses = layout.format == "moses"
        while parse_entries(block, self._known(), moses, layout.field, sentences) == UNNUMBERED:
            for code, first, end, values in block.new[: state[NEW]].tolist():
                self._number(code, bytes(text[first:end]), values, moses)
        for place, first, end in block.inexact[: state[INEXACT]].tolist():
            block.space.value[place] = float(text[first:end])
        return block.entries(), int(state[POSITION])

    def _known(self) -> Words:
        """The words and names that have numbers."""
        return Words(self._table.table, self._meaning)

    def _number(self, code: int, text: bytes, values: int, moses: bool) -> None:
        """Number a new word of hypotheses, or a new name of features, which has so many ``values``."""
        number, word = self._table.add(text), text.decode()
        known = len(self._meaning)
        if number >= known:
            self._meaning = enlarged(self._meaning, number + 1)
            self._meaning[known:] = np.array((UNKNOWN, UNKNOWN, 0, 0), dtype=MEANING)
        meaning = self._meaning[number]
        if code == NEW_WORD:
            meaning["word"] = self._words.add(word)
            return
        meaning["feature"] = 0
        names = self._reader.features_of(word, values) if moses else (word,)
        # Where this does not succeed, `ListReader` reads every line that has the name, and tells what is wrong with it.
        with suppress(ValueError):
            numbers = [self._features[name] for name in names]
            is_range = numbers == list(range(numbers[0], numbers[0] + values))
            if is_range and not (moses and self._reader.shares_features(word)):
                meaning["feature"], meaning["values"] = numbers[0], values
