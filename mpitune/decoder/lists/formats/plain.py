"""Plain text, a hypothesis a line: so many lines a list (``data.nbest``, ``data.counts``), or an empty line after each.

Its features are in files beside it (``[[features.files]]``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path

from mpitune.corpus.lines import lines as text_lines
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Lines, Malformed
from mpitune.decoder.lists.formats.line_format import RewrittenFormat, Row, as_fields
from mpitune.decoder.lists.notation import FORMATS, Notation
from mpitune.errors import DataError


@FORMATS.register("plain")
class Plain(RewrittenFormat):
    """Plain text, which nothing in it tells."""

    @staticmethod
    def begins(lines: Sequence[str]) -> bool:
        return False

    def rows(self, lines: Lines, notation: Notation) -> Iterator[Row]:
        given = _of_sizes(lines, notation) if notation.nbest or notation.counts else _between_empty_lines(lines)
        return (Row(lines.number, line, as_fields(lines.lists - 1, line, notation)) for line in given)


def _of_sizes(lines: Lines, notation: Notation) -> Iterator[str]:
    rows = iter(lines)
    for size in repeat(notation.nbest) if notation.counts is None else _counts(notation.counts):
        for n in range(size):
            line = next(rows, None)
            if line is None and n == 0 and notation.counts is None:
                return
            if line is None:
                raise Malformed("the end", f"{counted(size - n, 'further line')} of list {lines.lists - (n > 0)}")
            lines.lists += n == 0
            yield line
        lines.lists += size == 0
    if next(rows, None) is not None:
        raise Malformed("a further line", f"the end after {counted(lines.lists, 'list')}, as {notation.counts} has")


def _between_empty_lines(lines: Lines) -> Iterator[str]:
    is_open = False
    for line in lines:
        # A list has begun at its first line; one without any, at the empty line that ends it.
        lines.lists += not is_open
        is_open = not line.isspace() and line != ""
        if is_open:
            yield line


def _counts(path: Path) -> Iterator[int]:
    for number, line in text_lines(path):
        if not re.fullmatch("[0-9]{1,9}", line.strip(" \t")):
            raise DataError.at(path, number, found=repr(line[:60]), expected="the number of lines of a list")
        yield int(line)
