"""Columns between tabs, which a first line names: ``id``, ``text``, and a feature each, in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

from mpitune.corpus.text import split_words
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Lines, Malformed
from mpitune.decoder.lists.formats.line_format import NamedValues, RewrittenFormat, Row, as_fields
from mpitune.decoder.lists.formats.values import list_number, repeated, twice
from mpitune.decoder.lists.notation import FORMATS, Notation

_KEYS = ("id", "text")


@FORMATS.register("table")
class Table(RewrittenFormat):
    """A table with a header."""

    @staticmethod
    def begins(lines: Sequence[str]) -> bool:
        return {*_KEYS} <= {*lines[0].split("\t")}

    def rows(self, lines: Lines, notation: Notation) -> Iterator[Row]:
        rows = iter(lines)
        columns = next(rows, "").split("\t")
        if not {*_KEYS} <= {*columns}:
            raise Malformed(f"the columns {', '.join(columns)[:60]!r}", "id, text and features, with tabs between")
        if len({*columns}) < len(columns):
            raise twice(repeated(columns))
        if wrong := [name for name in columns if split_words(name) != [name]]:
            raise Malformed(f"the column {wrong[0]!r}", "a name without blanks")
        names = [name for name in columns if name not in _KEYS]
        features, cells_of = NamedValues(names), itemgetter(*map(columns.index, (*_KEYS, *names)))
        for line in rows:
            cells = line.split("\t")
            if len(cells) != len(columns):
                raise Malformed(counted(len(cells), "column"), f"{len(columns)}, as the first line has")
            number, text, *values = cells_of(cells)
            yield Row(lines.number, line, as_fields(list_number(number), text, notation, features.of(tuple(values))))
