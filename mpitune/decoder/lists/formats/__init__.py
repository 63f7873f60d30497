"""Formats of n-best lists: each turns the lines of a file into entries.

- `line_format`: what formats whose entries are lines have in common; their parser
- `values`: names and numbers of features, as several formats have them
- `json_values`: the same in objects of JSON

A format in another module of this package needs no more than itself: `FORMATS` finds it, and the job names it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from mpitune.corpus.lines import line_blocks
from mpitune.corpus.text import SentencePair
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.notation import AS_FOUND, FORMATS, Notation
from mpitune.errors import DataError

T = TypeVar("T")

_LOOKED_AT = 100
"""Number of lines that tell the format of a file, from the first."""


def as_object(entry: Entry, score: str) -> str:
    """``entry`` as a JSON line with a ``score``: for formats without a place for one."""
    metrics = {"metrics": entry.metrics} if entry.metrics else {}
    found = {"id": entry.sentence, "text": " ".join(entry.words), "features": entry.features, **metrics}
    return json.dumps({**found, "score": float(score)}, ensure_ascii=False)


class Entry(NamedTuple):
    """One hypothesis of a list."""

    line: int
    """Its line in the file, from 1."""
    sentence: int
    """The number of its list, from 0."""
    words: list[str]
    features: dict[str, float]
    metrics: dict[str, float]
    """Metrics of JSON lines; the other formats have none."""
    text: str
    """The line itself."""
    with_score: Callable[[Entry, str], str] = as_object
    """Makes a line of the entry, in its format, with another score."""


class Malformed(Exception):
    """A malformed line: what was found, and what was expected."""


class Lines:
    """The lines of a file, read once."""

    def __init__(self, blocks: Iterable[bytearray]) -> None:
        """``blocks``: as of `line_blocks`."""
        self._blocks = blocks
        self.number = 0
        """The number of the last line read, from 1."""
        self.lists = 0
        """Number of lists that have begun, if nothing but their order numbers them; else 0."""

    def __iter__(self) -> Iterator[str]:
        for block in self._blocks:
            for line in block.decode().split("\n")[:-1]:
                self.number += 1
                yield line


class Format(ABC):
    """A format. An object reads several files: where features have the same names in all of them, it knows them."""

    ascending: ClassVar[bool] = True
    """False if its programs write lists in any order: one has to read the file to its end to sort them."""
    has_sentences: ClassVar[bool] = False
    """True if the files also have sources and references."""

    @staticmethod
    @abstractmethod
    def begins(lines: Sequence[str]) -> bool:
        """True for the first ``lines`` of a file of this format, at least one, none of them empty."""

    @abstractmethod
    def read(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Entry]:
        """The entries of the file ``path``, with the words that count. Raises DataError for a malformed line."""

    def placed(
        self,
        path: Path,
        blocks: Iterable[bytearray],
        notation: Notation,
        parsed: Callable[[Lines, Notation], Iterator[T]],
    ) -> Iterator[T]:
        """The results of ``parsed`` from the lines of a file; after Malformed, a DataError names the last of them.

        Raises DataError too if lists without numbers are more or fewer than the sentences.
        """
        lines = Lines(blocks)
        try:
            yield from parsed(lines, notation)
        except Malformed as error:
            found, expected = error.args
            raise DataError.at(path, lines.number, found=found, expected=expected) from None
        if lines.lists and notation.sentences not in (None, lines.lists):
            expected = f"{notation.sentences}, one for each sentence, as they have no numbers"
            raise DataError.at(path, None, found=counted(lines.lists, "list"), expected=expected)

    def sentences(self, path: Path, notation: Notation) -> list[SentencePair]:
        """The sources and references in the file ``path``, if the format has them, as words that count."""
        return []


class ListReader:
    """Reads files of entries. In all files of a reader, a name of Moses has the same number of values."""

    def __init__(self) -> None:
        self._formats: dict[str, Format] = {}

    def format(self, name: str) -> Format:
        """The format called ``name``."""
        if name not in self._formats:
            self._formats[name] = FORMATS[name]()
        return self._formats[name]

    def open(self, path: Path, notation: Notation) -> tuple[Format, Iterator[bytearray]]:
        """The format of a file, plain or gzipped, and its blocks of lines. Raises DataError for an unknown format."""
        blocks = line_blocks(path)
        if notation.format != "auto":
            return self.format(notation.format), blocks
        head = list[bytearray]()
        for block in blocks:
            head.append(block)
            if block.strip():
                return self.format(_recognised(path, block, notation)), chain(head, blocks)
        return self.format("fields"), iter(head)

    def entries(self, path: Path, notation: Notation = AS_FOUND) -> Iterator[Entry]:
        """The entries of a file, plain or gzipped, in its order. Raises DataError for a malformed line."""
        format_, blocks = self.open(path, notation)
        return format_.read(path, blocks, notation)


def read_sentences(path: Path, notation: Notation) -> list[SentencePair]:
    """The sources and references in the file ``path`` of a known format; none where it has none."""
    return FORMATS[notation.format]().sentences(path, notation)


def _recognised(path: Path, block: bytearray, notation: Notation) -> str:
    """The name of the format of a file that begins with ``block``."""
    first = [line for line in block.decode().split("\n")[:_LOOKED_AT] if line.strip()]
    if found := next((name for name, each in FORMATS.items() if each.begins(first)), None):
        return found
    if notation.nbest or notation.counts:
        return "plain"
    expected = "number ||| hypothesis ||| features, or another format of jobs/lists.md; for plain text, data.nbest"
    raise DataError.at(path, 1, found=f"{first[0][:60]!r}", expected=expected)
