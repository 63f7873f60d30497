"""Reader of word-aligned bitexts: two files or one of sentence pairs, and files of links in Pharaoh's format.

A line of links: ``0-0 1-2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mpitune.corpus.lines import check_readable, lines
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import SEG_TAG, checked_words, split_fields, split_words
from mpitune.corpus.wording import counted
from mpitune.errors import DataError

_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")

Links = list[tuple[int, int]]
"""Source position and target position of each link, from 0."""
AlignedPair = tuple[list[str], list[str], list[Links]]
"""Source words, target words, the links of each alignment."""


@dataclass(frozen=True)
class AlignedFiles:
    """The files of a word-aligned bitext."""

    source: Path
    """Source sentences, or pairs ``source ||| target`` if ``target`` is None."""
    target: Path | None
    alignments: tuple[Path, ...]
    """One alignment or several: the bitext counts once with each."""

    @property
    def files(self) -> list[Path]:
        return [self.source, *([self.target] if self.target else []), *self.alignments]

    @property
    def settings(self) -> dict[str, Any]:
        """The kinds of the files."""
        count = len(self.alignments)
        return {"files": len(self.files)} | ({"alignments": count} if count > 1 else {})

    def check(self) -> None:
        """Raise DataError for a file that cannot be read, or that cannot be read again."""
        for file in self.files:
            check_readable(file)

    def read(self, progress: Progress | None = None) -> Iterator[AlignedPair]:
        """The pairs; the items of ``progress`` are the kilobytes of the files.

        Raises DataError for a bad line, or if the files differ in their numbers of lines.
        """
        number, linked = 0, False
        alignments = [(file, lines(file, progress)) for file in self.alignments]
        texts = read_pairs(self.source, self.target, progress)
        for number, (source_words, target_words) in enumerate(texts, start=1):
            links = []
            for file, file_lines in alignments:
                _, text = next(file_lines, (None, None))
                if text is None:
                    raise _too_few(file, number - 1, self.source)
                links.append(_links(file, number, text, len(source_words), len(target_words)))
            linked = linked or any(links)
            yield source_words, target_words, links
        for file, file_lines in alignments:
            if next(file_lines, None) is not None:
                raise DataError.at(file, number + 1, found="a line more", expected=f"as many as {self.source} has")
        if self.alignments and number and not linked:
            found, expected = f"no links in {counted(number, 'line')}", "positions of words that translate each other"
            raise DataError.at(self.alignments[0], None, found=found, expected=expected)


def read_pairs(
    source: Path, target: Path | None, progress: Progress | None = None
) -> Iterator[tuple[list[str], list[str]]]:
    """Source and target words of each pair; files and errors as in `AlignedFiles`."""
    return _bitext(source, progress) if target is None else _parallel(source, target, progress)


def _parallel(source: Path, target: Path, progress: Progress | None) -> Iterator[tuple[list[str], list[str]]]:
    pairs = zip_longest(lines(source, progress), lines(target, progress))
    for number, (one, other) in enumerate(pairs, start=1):
        if one is None or other is None:
            short, long = (source, target) if one is None else (target, source)
            raise _too_few(short, number - 1, long)
        yield _words(source, number, one[1]), checked_words(target, number, other[1])


def _bitext(path: Path, progress: Progress | None) -> Iterator[tuple[list[str], list[str]]]:
    for number, line in lines(path, progress):
        fields = split_fields(line)
        if len(fields) != 2:
            raise DataError.at(path, number, found=counted(len(fields), "field"), expected="source ||| target")
        yield _words(path, number, fields[0]), checked_words(path, number, fields[1])


def _words(path: Path, number: int, text: str) -> list[str]:
    """The words of a source sentence, which names no grammar."""
    words = checked_words(path, number, text)
    if words and words[0].startswith("<seg") and SEG_TAG.search(words[-1]):
        expected = "words alone (a text that names its grammars: grammar.per_sentence = true)"
        raise DataError.at(path, number, found="a <seg> tag", expected=expected)
    return words


def _too_few(path: Path, count: int, other: Path) -> DataError:
    return DataError.at(path, None, found=counted(count, "line"), expected=f"as many as {other} has")


def _links(path: Path, number: int, text: str, source: int, target: int) -> Links:
    """The links of a line, each once."""
    found: dict[tuple[int, int], None] = {}
    for word in split_words(text):
        link = _LINK.fullmatch(word)
        if link is None or int(link[1]) >= source or int(link[2]) >= target:
            expected = f"i-j with i below {source} and j below {target}, the numbers of words, counted from 0"
            raise DataError.at(path, number, found=repr(word), expected=expected + _remedy(text, source, target))
        found[int(link[1]), int(link[2])] = None
    return list(found)


def _remedy(text: str, source: int, target: int) -> str:
    """A question about a line that does not fit sentences of ``source`` and ``target`` words, if its reverse does."""
    links = map(_LINK.fullmatch, split_words(text))
    fits = all(link and int(link[1]) < target and int(link[2]) < source for link in links)
    return ": are source and target swapped?" if fits else ""
