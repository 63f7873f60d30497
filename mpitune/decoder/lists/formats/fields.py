"""Lines of fields between ``|||``, as of Moses, cdec, Joshua, Travatar, Phrasal and Marian.

Moses    ``0 ||| hypothesis ||| name= 1 2 other= 3 ||| score``: several values of a name are name_0, name_1 ...
Phrasal  ``0 ||| hypothesis ||| name: 1 2 other: 3 ||| score``: the same, as older versions of Moses write it
cdec     ``0 ||| hypothesis ||| name=1 other=3 ||| score``

The notation of a file is that of its first line with features, which also tells their field: other programs write
links of words, scores, or scores of words, before it. Scores and further fields are not read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from mpitune.corpus.text import split_fields, split_words
from mpitune.corpus.tokenisation import warn_of_segmentation
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.formats.line_format import Block, Layout, LineFormat, Row
from mpitune.decoder.lists.notation import FORMATS, Notation

LOG = logging.getLogger(__name__)

_COLON = re.compile(r":(?![^ \t])")


@FORMATS.register("fields")
class Fields(LineFormat):
    """Lines of fields."""

    @staticmethod
    def begins(lines: Sequence[str]) -> bool:
        return any(len(split_fields(line)) > 1 for line in lines)

    def read(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Entry]:
        for block in self.blocks(path, blocks, notation):
            for row in block.rows():
                yield self.entry(path, row, block.layout)

    def blocks(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Block]:
        layout, colons, number = None, False, 1
        for text in blocks:
            if layout is None:
                told = (_layout(path, line, notation) for line in text.decode().split("\n"))
                layout, colons = next(filter(None, told), (None, False))
            current = layout or Layout()
            rows = partial(_rows, text, number)
            if colons or notation.join != "none":
                rewritten = [row._replace(fields=_rewritten(row, current, colons, notation)) for row in rows()]
                yield Block.of(current, rewritten)
            else:
                yield Block(current, text, cache(rows))
            number += text.count(b"\n")

    def writer(self, layout: Layout) -> Callable[[Entry, str], str]:
        return layout.with_score


def _rows(text: bytearray, number: int) -> list[Row]:
    """The lines of ``text``, the first of which has the ``number``."""
    return [Row(n, line, line) for n, line in enumerate(text.decode().split("\n")[:-1], start=number)]


def _rewritten(row: Row, layout: Layout, colons: bool, notation: Notation) -> str:
    """The fields of ``row`` with the words that count, and names that end with ``=`` instead of ``:``."""
    fields = split_fields(row.line)
    if len(fields) > 1:
        fields[1] = notation.joined(fields[1])
    if len(fields) > layout.field and colons:
        fields[layout.field] = _COLON.sub("=", fields[layout.field])
    return " ||| ".join(fields)


def _layout(path: Path, line: str, notation: Notation) -> tuple[Layout, bool] | None:
    """The layout of a file that has this ``line``, and if its names end with ``:``.

    None without features, which tell Moses' notation from cdec's. A warning names what might be taken for features and
    is not read, and marks among the words of a hypothesis.
    """
    fields = [split_words(field) for field in split_fields(line)]
    named = [n for n in range(2, len(fields)) if fields[n] and fields[n][0].find("=") > 0]
    named = named or [n for n in range(2, len(fields)) if fields[n] and _COLON.search(fields[n][0], 1)]
    field = ([n for n in named if not _scores_words(fields[n], len(fields[1]))] or named[-1:] or [2])[0]
    if len(fields) < 3 or not fields[field]:
        return None
    colons = "=" not in fields[field][0] and field in named
    of_moses = colons or any(item.endswith("=") for item in fields[field])
    if skipped := [n for n in range(2, len(fields)) if n != field and fields[n] and (n < field or n in named)]:
        LOG.warning(
            "%s: features are read from field %d, %s, and not from %s",
            path,
            field + 1,
            _shown(fields[field]),
            " and ".join(f"field {n + 1}, {_shown(fields[n])}" for n in skipped),
        )
    if notation.join == "none":
        warn_of_segmentation(path, line)
    return Layout("moses" if of_moses else "cdec", field), colons


def _scores_words(items: Sequence[str], words: int) -> bool:
    """True for one name with a value for each of the ``words`` of a hypothesis, or more of them.

    Scores of words have one for the end of the sentence, too, or one for each part of a word.
    """
    values = sum(not item.endswith("=") for item in items)
    return sum("=" in item for item in items) == 1 and values >= words


def _shown(items: Sequence[str]) -> str:
    return repr(" ".join(items)[:40])
