"""Further features of the entries of lists: files with one number a line, a line for each entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mpitune.corpus.lines import lines
from mpitune.corpus.text import IN_RANGE, parse_number
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Entry
from mpitune.errors import DataError


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
            number = next(numbers, None)
            if number is None:
                found, expected = counted(self._entries - 1, "line"), f"{self._entries} or more, one for each entry"
                raise DataError.at(self._files[name], None, found=found, expected=expected)
            entry.features[name] = number

    def check_ends(self) -> None:
        """Raise DataError if a file has further lines."""
        for name, numbers in self._numbers.items():
            if next(numbers, None) is not None:
                expected = f"{self._entries}, one for each entry"
                raise DataError.at(self._files[name], None, found="further lines", expected=expected)


def _numbers(path: Path) -> Iterator[float]:
    for line, text in lines(path):
        try:
            yield parse_number(text)
        except ValueError:
            raise DataError.at(path, line, found=repr(text[:60]), expected=IN_RANGE) from None
