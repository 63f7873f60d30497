"""Features of the entries of lists: numbers in further files, and features of the text of an entry.

A file has a line with one number for each entry, after the entry's key if Kaldi wrote it. A text has features of its
length, its n-grams, and pairs of words that a lexicon knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mpitune.corpus.lines import lines
from mpitune.corpus.text import IN_RANGE, parse_number, split_words
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Entry
from mpitune.errors import DataError
from mpitune.grammar.sparse import TEMPLATES, Hypothesis
from mpitune.grammar.templates import fired_by


class TextFeatures:
    """The features that ``templates`` fire on an entry; an n-gram, or a pair, counts as often as it occurs."""

    def __init__(self, templates: Sequence[str], lexicon: Path | None) -> None:
        """``lexicon``: for `lexicon-pair`, a source and a target word a line; further fields are not read.

        Raises DataError for a line without two words.
        """
        self._lexicon = _read_lexicon(lexicon) if lexicon is not None else {}
        self._templates = [of.fire for name, of in TEMPLATES.items() if name in templates and of.of_lists]

    def add_to(self, entry: Entry, origin: Path, source: Sequence[str]) -> None:
        """Add the features of ``entry``, read from the file ``origin``, a translation of the words ``source``.

        Raises DataError for a feature that the entry has itself.
        """
        fired = fired_by(self._templates, Hypothesis(source, entry.words, entry.features, self._lexicon))
        if twice := fired.keys() & entry.features.keys():
            expected = "another name: features.templates has one of this name"
            raise DataError.at(origin, entry.line, found=f"feature {min(twice)}", expected=expected)
        entry.features.update(fired)


def _read_lexicon(path: Path) -> dict[str, set[str]]:
    """The target words of each source word."""
    found: dict[str, set[str]] = defaultdict(set)
    for number, line in lines(path):
        words = split_words(line)
        if len(words) < 2:
            expected = "a source and a target word"
            raise DataError.at(path, number, found=counted(len(words), "field"), expected=expected)
        found[words[0]].add(words[1])
    return dict(found)


class ScoreFiles:
    """The next numbers of several files, for the entries in the order of the files of lists."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """``files``: by the name of the feature."""
        self._files = files
        self._numbers = {name: _numbers(path) for name, path in files.items()}
        self._entries = 0

    def add_to(self, entry: Entry, origin: Path) -> None:
        """Add the next numbers to the features of ``entry``, which was read from the file ``origin``.

        Raises DataError for a line without a number, a file that has ended, or a feature that the entry has itself.
        """
        self._entries += 1
        for name, numbers in self._numbers.items():
            if name in entry.features:
                expected = f"none, as {self._files[name]} has its values"
                raise DataError.at(origin, entry.line, found=f"feature {name}", expected=expected)
            key, number = next(numbers, ("", None))
            if number is None:
                found, expected = counted(self._entries - 1, "line"), f"{self._entries} or more, one for each entry"
                raise DataError.at(self._files[name], None, found=found, expected=expected)
            if key and [key] != entry.text.split(maxsplit=1)[:1]:
                expected = f"a number alone, or after the first word of line {entry.line} of {origin}"
                raise DataError.at(self._files[name], self._entries, found=repr(key[:60]), expected=expected)
            entry.features[name] = number

    def check_ends(self) -> None:
        """Raise DataError if a file has further lines."""
        for name, numbers in self._numbers.items():
            if next(numbers, None) is not None:
                expected = f"{self._entries}, one for each entry"
                raise DataError.at(self._files[name], None, found="further lines", expected=expected)


def _numbers(path: Path) -> Iterator[tuple[str, float]]:
    """The numbers in a file, each with what stands before it: Kaldi writes the key of the entry."""
    for line, text in lines(path):
        key, _, number = text.strip(" \t").rpartition(" ")
        try:
            yield key, parse_number(number)
        except ValueError:
            raise DataError.at(path, line, found=repr(text[:60]), expected=IN_RANGE) from None
