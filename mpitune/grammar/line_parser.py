"""Parse a line of a rule table to numbers: the definition of the notation, with an error for each malformed line."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from mpitune.corpus.text import split_words
from mpitune.corpus.tokens import rows
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.grammar.formats import LINK, MalformedLine, TableFormat, gap_number, shortened

MAX_GAPS = 2
GAP_NUMBERS = [str(n + 1) for n in range(MAX_GAPS)]
"""Numbers of the gaps of a side."""
MAX_SYMBOLS = 32767
"""Largest number of symbols on a side: alignments are stored as int16."""

SOURCE_GAP = re.compile(r"\[([^\[\],]+)(?:,([0-9]+))?\]")
TARGET_GAP = re.compile(r"\[(?:([^\[\],]+),)?([0-9]+)\]")

UNNAMED = ""
"""The label of a score without a name; its number is 0."""


class Vocabularies(NamedTuple):
    """The numbers of everything that has a name in a rule table."""

    words: Vocabulary
    categories: Vocabulary
    labels: Vocabulary
    """Labels of scores, as the format's ``scores`` returns them; the first one is `UNNAMED`."""


class ParsedLines(NamedTuple):
    """The rules of consecutive lines; numbers are those of `Vocabularies`, sides and links as in `Rules`."""

    lhs: np.ndarray
    """int32 [lines]"""
    source_ptr: np.ndarray
    """int64 [lines + 1]; likewise for targets, links and scores."""
    source: np.ndarray
    """int32"""
    target_ptr: np.ndarray
    target: np.ndarray
    """int32"""
    align_ptr: np.ndarray
    align: np.ndarray
    """int32: a link, the two int16 side by side."""
    score_ptr: np.ndarray
    label: np.ndarray
    """int32: the label of each score."""
    score: np.ndarray
    """float64"""

    def between(self, first: int, last: int) -> ParsedLines:
        """The rules from ``first`` to before ``last``."""
        return ParsedLines(
            self.lhs[first:last],
            *rows(self.source_ptr, self.source, first, last),
            *rows(self.target_ptr, self.target, first, last),
            *rows(self.align_ptr, self.align, first, last),
            *rows(self.score_ptr, self.label, first, last),
            rows(self.score_ptr, self.score, first, last)[1],
        )


class LineParser:
    """Parses the lines of a rule table in any format, one by one."""

    def __init__(self, table_format: TableFormat, vocabularies: Vocabularies) -> None:
        """``vocabularies``: new names are added to them."""
        self.format = table_format
        self._words, self._categories, self._labels = vocabularies
        self._source_text: str | None = None
        self._source: tuple[list[int], dict[str, str]] = [], {}

    def parse(self, block: bytearray) -> Iterator[ParsedLines]:
        """Parse whole lines. Raises MalformedLine, after the lines before the malformed one."""
        collected = _Collected()
        try:
            for line in block.decode().split("\n")[:-1]:
                self._parse_line(line, collected)
        except MalformedLine:
            yield collected.arrays()
            raise
        yield collected.arrays()

    def _parse_line(self, line: str, collected: _Collected) -> None:
        fields = self.format.fields(line)
        lhs, source_text, target_text, alignment = self.format.sides(fields)
        if source_text != self._source_text:  # tables are mostly sorted by it
            self._source_text, self._source = source_text, self._source_side(source_text)
        source, gaps = self._source
        target = self._target_side(target_text, gaps)
        if max(len(source), len(target)) > MAX_SYMBOLS:
            raise MalformedLine(f"a side of {max(len(source), len(target))} symbols", f"at most {MAX_SYMBOLS}")
        links = _links(alignment, len(source), len(target))
        category = self._categories.add(lhs)
        labels, scores = self.format.scores(fields)
        collected.lhs.append(category)
        collected.source.append(source)
        collected.target.append(target)
        collected.align.append(links)
        collected.label.append(map(self._labels.add, labels))
        collected.score.extend(scores)

    def _source_side(self, text: str) -> tuple[list[int], dict[str, str]]:
        """Parse a source side: its symbols, and number and category of each gap in the order of this side."""
        symbols: list[int] = []
        gaps: dict[str, str] = {}
        for word in split_words(text):
            gap = SOURCE_GAP.fullmatch(word) if word[0] == "[" else None
            if gap is None:
                symbols.append(self._words.add(word))
                continue
            number = gap_number(gap[2]) if gap[2] else str(len(gaps) + 1)
            if number in gaps:
                raise MalformedLine(f"gap {shortened(number)} twice on the source side", "gaps numbered 1, 2")
            gaps[number] = gap[1]
            symbols.append(-1 - self._categories.add(gap[1]))
        if not symbols:
            raise MalformedLine("an empty source side", "at least one word or gap")
        if len(gaps) > MAX_GAPS:
            raise MalformedLine(f"{len(gaps)} gaps", f"at most {MAX_GAPS}")
        if sorted(gaps) != GAP_NUMBERS[: len(gaps)]:
            raise MalformedLine(f"source gaps numbered {_listed(gaps)}", f"gaps numbered 1 to {len(gaps)}")
        return symbols, gaps

    def _target_side(self, text: str, gaps: dict[str, str]) -> list[int]:
        symbols: list[int] = []
        used: list[str] = []
        for word in split_words(text):
            gap = TARGET_GAP.fullmatch(word) if word[0] == "[" else None
            if gap is None:
                symbols.append(self._words.add(word))
                continue
            number = gap_number(gap[2])
            if number not in gaps:
                raise MalformedLine(
                    f"target gap {word}", f"one of the source's gaps ({_listed(gaps) or 'it has none'})"
                )
            if gap[1] is not None and gap[1] != gaps[number]:
                raise MalformedLine(f"target gap {word}", f"[{gaps[number]},{number}] as on the source side")
            used.append(number)
            symbols.append(-1 - list(gaps).index(number))
        if len(used) != len(gaps) or set(used) != set(gaps):
            raise MalformedLine(
                f"target gaps {_listed(used) or 'none'}", f"each gap of the source ({_listed(gaps)}) once"
            )
        return symbols


class _Rows:
    """Rows of int32 that grow one by one."""

    def __init__(self) -> None:
        self._ptr, self._flat = array("q", [0]), array("i")

    def append(self, row: Iterable[int]) -> None:
        self._flat.extend(row)
        self._ptr.append(len(self._flat))

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """``ptr`` (int64) and ``flat`` (int32)."""
        return np.array(self._ptr, dtype=np.int64), np.array(self._flat, dtype=np.int32)


class _Collected:
    """Parsed lines that grow one by one."""

    def __init__(self) -> None:
        self.lhs, self.score = array("i"), array("d")
        self.source, self.target, self.align, self.label = _Rows(), _Rows(), _Rows(), _Rows()

    def arrays(self) -> ParsedLines:
        return ParsedLines(
            np.array(self.lhs, dtype=np.int32),
            *self.source.arrays(),
            *self.target.arrays(),
            *self.align.arrays(),
            *self.label.arrays(),
            np.array(self.score, dtype=np.float64),
        )


def _links(text: str, sources: int, targets: int) -> list[int]:
    """Parse the links into the numbers that `ParsedLines` has."""
    links = []
    for word in split_words(text):
        link = LINK.fullmatch(word)
        if link is None or int(link[1]) >= sources or int(link[2]) >= targets:
            raise MalformedLine(f"alignment {word!r}", f"i-j with i below {sources} and j below {targets}")
        links.append(int(link[1]) | int(link[2]) << 16)
    return links


def _listed(numbers: Iterable[str]) -> str:
    return ", ".join(map(shortened, numbers))
