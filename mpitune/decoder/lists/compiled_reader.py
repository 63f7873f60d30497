"""Reader of well-formed lines: array code on what `corpus.tokens` makes of blocks of their fields.

A word, or a name, that is met for the first time is numbered, once. A line that is not accepted goes to its
`LineFormat`, which defines the errors; so do all entries of formats of other kinds.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.corpus.feature_table import FEATURE_NAME, is_feature_name
from mpitune.corpus.tokens import NEW, SCORES, SKIPPED, WORDS, Lines, LineSplitter, rows, runs
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.lists.formats import Entry, ListReader
from mpitune.decoder.lists.formats.line_format import Layout, LineFormat
from mpitune.decoder.lists.formats.values import is_list_number
from mpitune.decoder.lists.notation import AS_FOUND, Notation
from mpitune.errors import DataError

_MEANING = np.dtype([(name, "<i4") for name in ("list", "word", "feature", "values")])
"""A word as number of a list, -1 if it is none; its number in hypotheses; of a name, the number of its first feature,
-1 if only `LineFormat` reads that name, and the number of its values."""
_UNKNOWN = np.array((NEW, NEW, NEW, 0), dtype=_MEANING)
_BATCH = 10_000
"""Number of entries that become arrays together."""
_MOST_LIST = np.iinfo(np.int32).max
"""A larger number of a list counts as this one."""


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

    def between(self, first: int, last: int) -> Entries:
        """The entries from ``first`` to before ``last``."""
        return Entries(
            self.sentence[first:last],
            *rows(self.word_ptr, self.word, first, last),
            *rows(self.feature_ptr, self.feature, first, last),
            rows(self.feature_ptr, self.value, first, last)[1],
        )


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
        self._splitter = LineSplitter()
        self._meaning = np.zeros(0, dtype=_MEANING)

    def read(
        self,
        path: Path,
        sentences: int,
        accept: Callable[[Entry], bool],
        *,
        plain: bool = True,
        notation: Notation = AS_FOUND,
    ) -> Iterator[Entries]:
        """The entries of a file, plain or gzipped, in its order. Raises DataError for a malformed line.

        ``accept`` gets some of the entries, among them all of lists from ``sentences`` on; of those that are not
        ``plain``, it gets all. It may change their features, and returns False for an entry to leave out.
        """
        format_, blocks = self._reader.open(path, notation)
        if not (plain and isinstance(format_, LineFormat)):
            yield from self._batches(path, format_.read(path, blocks, notation), accept)
            return
        for block in format_.blocks(path, blocks, notation):
            layout = block.layout
            lines = self._splitter.split(block.text, (WORDS, WORDS, *[SKIPPED] * (layout.field - 2), SCORES))
            sentence = self._sentences(lines, layout.field)
            for begin, end, are_known in runs((sentence >= 0) & (sentence < sentences)):
                accepted, entries = np.zeros(end - begin, dtype=np.bool_), None
                if are_known:
                    accepted, entries = self._compiled(lines, sentence, begin, end, layout, format_)
                for first, last, are_accepted in runs(accepted):
                    if are_accepted and entries is not None:
                        yield entries.between(first, last)
                    else:
                        rows = block.rows()[begin + first : begin + last]
                        yield from self._batches(path, (format_.entry(path, row, layout) for row in rows), accept)

    def _batches(self, path: Path, entries: Iterator[Entry], accept: Callable[[Entry], bool]) -> Iterator[Entries]:
        """The ``entries`` that are accepted, as arrays."""
        more = True
        while more:
            found, error, more = list[Entry](), None, False
            try:
                for entry in entries:
                    if accept(entry):
                        found.append(entry)
                    if len(found) == _BATCH:
                        more = True
                        break
            except DataError as fault:
                error = fault
            # A line before a malformed one may have a feature that has no number: it is then the first one.
            encoded = self._encoded(path, found)
            if error is not None:
                raise error
            yield encoded

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

    def _sentences(self, lines: Lines, field: int) -> np.ndarray:
        """int32 [lines]: the numbers of the lists; -1 without one, or without the ``field`` of the features."""
        ptr, token = lines.row(0)
        meaning = self._meaning = self._splitter.with_new(self._meaning, _UNKNOWN)
        for _, _, number, word in self._splitter.new_words([(ptr, token, meaning["list"])]):
            meaning["list"][number] = min(int(word), _MOST_LIST) if is_list_number(word) else -1
        sentence = np.full(len(lines.fields), -1, dtype=np.int32)
        is_one = (np.diff(ptr) == 1) & (lines.fields > field)
        sentence[is_one] = meaning["list"][token[ptr[:-1][is_one]]]
        return sentence

    def _compiled(
        self, lines: Lines, sentence: np.ndarray, first: int, last: int, layout: Layout, format_: LineFormat
    ) -> tuple[np.ndarray, Entries]:
        """Which lines from ``first`` to before ``last`` are accepted (bool), and their entries as if all were."""
        moses, scores = layout.features == "moses", slice(*lines.ptr[layout.field, [first, last]].tolist())
        word_ptr, word = rows(*lines.row(1), first, last)
        ptr, name = rows(*lines.row(layout.field), first, last)
        value, line = lines.value[scores].copy(), np.repeat(np.arange(last - first), np.diff(ptr))
        is_name, is_value, values = name >= 0, ~np.isnan(value), np.ones(len(name), dtype=np.int64)
        bad = ~(is_name & is_value)
        if moses:
            bad = is_name & is_value
            is_name &= np.equal(*lines.span[scores].T)
            name[~is_name] = -1
            begins = ptr[:-1][np.diff(ptr) > 0]
            bad |= is_name == is_value
            bad[begins] |= is_value[begins]
            # Up to the next name, or the end of the line.
            ends = np.append(np.flatnonzero(is_name), len(name))
            values[is_name] = np.minimum(ends[1:], ptr[line[is_name] + 1]) - ends[:-1] - 1
        self._number(word_ptr, word, ptr, name, values, format_ if moses else None)
        meaning, words = self._meaning[name], len(self._meaning)
        feature = meaning["feature"]
        bad |= is_name & ((feature < 0) | (meaning["values"] != values))
        accepted = np.ones(last - first, dtype=np.bool_)
        accepted[line[bad]] = False
        names = np.sort((line * words + name)[is_name])
        accepted[names[1:][names[1:] == names[:-1]] // words] = False
        if moses:
            place = np.arange(len(name))
            of_name = np.maximum.accumulate(np.where(is_name, place, 0))
            feature = (feature[of_name] + place - of_name - 1)[is_value].astype(np.int32)
            ptr, value = row_ends(is_value)[ptr], value[is_value]
        return accepted, Entries(sentence[first:last], word_ptr, self._meaning["word"][word], ptr, feature, value)

    def _number(
        self,
        word_ptr: np.ndarray,
        word: np.ndarray,
        ptr: np.ndarray,
        name: np.ndarray,
        values: np.ndarray,
        moses: LineFormat | None,
    ) -> None:
        """Number the new words of hypotheses, and the new names of features, which have so many ``values``.

        ``moses``: the format that knows the names, if they are Moses'.
        """
        words, features = self._meaning["word"], self._meaning["feature"]
        for is_name, place, number, text in self._splitter.new_words([(word_ptr, word, words), (ptr, name, features)]):
            if not is_name:
                words[number] = self._words.add(text)
                continue
            features[number], count, text = -1, int(values[place]), text[:-1]
            # Where this does not succeed, `LineFormat` reads every line that has the name, and tells what is wrong.
            with suppress(ValueError):
                names = (text,) if moses is None else moses.features_of(text, count) if count else ()
                numbers = [self._features[each] for each in names]
                is_range = numbers == list(range(numbers[0], numbers[0] + count)) if numbers else False
                if is_range and not (moses is not None and moses.shares_features(text)):
                    features[number], self._meaning["values"][number] = numbers[0], count
