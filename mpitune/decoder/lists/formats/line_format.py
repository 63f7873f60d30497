"""Formats whose entries are lines: each is rewritten as fields between ``|||``, for one parser and one compiled reader.

The fields are those of cdec, ``0 ||| hypothesis ||| name=1 other=3``, or of Moses, ``0 ||| hypothesis ||| name= 1 2``,
where several values of a name are name_0, name_1 ...
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Self

from mpitune.corpus.text import split_fields, split_words
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Entry, Format, Lines, Malformed, as_object
from mpitune.decoder.lists.formats.values import check_values, list_number, no_number, numbers, repeated, twice
from mpitune.decoder.lists.notation import Notation
from mpitune.errors import DataError

_BATCH = 10_000
"""Number of rows of a block."""
_FIELDS = "number ||| hypothesis ||| features [||| score]"


class Layout(NamedTuple):
    """The place of the features among the fields of a line, and their notation."""

    features: Literal["moses", "cdec"] = "cdec"
    field: int = 2
    """The field of the features, from 0."""

    def with_score(self, entry: Entry, score: str) -> str:
        """The line of ``entry``, if its fields are of this layout, with another score, which follows the features."""
        fields = split_fields(entry.text)
        place = self.field + 1
        last = " " if len(fields) > place + 1 else ""
        head = [field if field.endswith((" ", "\t")) else f"{field} " for field in fields[:place]]
        return "|||".join([*head, f" {score}{last}", *fields[place + 1 :]])


class Row(NamedTuple):
    """An entry, rewritten."""

    number: int
    """Of its line, from 1."""
    line: str
    fields: str


class Block(NamedTuple):
    """Successive entries."""

    layout: Layout
    text: bytearray
    """The fields of each, a line each."""
    rows: Callable[[], Sequence[Row]]

    @classmethod
    def of(cls, layout: Layout, rows: Sequence[Row]) -> Self:
        """The block of ``rows``."""
        return cls(layout, bytearray("".join(f"{row.fields}\n" for row in rows).encode()), lambda: rows)


class LineFormat(Format):
    """A format of lines."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}
        """The features of each name of Moses."""
        self._of_groups: set[str] = set()
        """The features of those names that have several values."""

    @abstractmethod
    def blocks(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Block]:
        """The entries of the file ``path``, not yet parsed. Raises DataError for a line that cannot be rewritten."""

    def entry(self, path: Path, row: Row, layout: Layout) -> Entry:
        """The entry in ``row``. Raises DataError for a malformed one."""
        try:
            return self._parsed(row, layout)
        except Malformed as error:
            found, expected = error.args
            raise DataError.at(path, row.number, found=found, expected=expected) from None

    def writer(self, layout: Layout) -> Callable[[Entry, str], str]:
        """The function that makes a line of an entry with another score."""
        return as_object

    def features_of(self, name: str, values: int) -> tuple[str, ...]:
        """The features of a ``name`` of Moses; those of a new name if it is new, and has so many ``values``."""
        return self._names.get(name) or self._register(name, values)

    def shares_features(self, name: str) -> bool:
        """True if another name of Moses has a feature of the known ``name``: ``tm_0= 1`` beside ``tm= 1 2``."""
        features = self._names[name]
        return name in self._of_groups if features == (name,) else any(each in self._names for each in features)

    def _parsed(self, row: Row, layout: Layout) -> Entry:
        fields = split_fields(row.fields)
        if len(fields) <= layout.field:
            more = f"features in field {layout.field + 1}, as in the first entry that has some"
            raise Malformed(counted(len(fields), "field"), _FIELDS if len(fields) < 3 else more)
        number = list_number(fields[0].strip(" \t"), f": {_FIELDS}")
        parse = self._moses_features if layout.features == "moses" else _cdec_features
        text = fields[layout.field]
        features = parse(text) if text and not text.isspace() else {}
        check_values(features)
        return Entry(row.number, number, split_words(fields[1]), features, {}, row.line, self.writer(layout))

    def _moses_features(self, text: str) -> dict[str, float]:
        flat = split_words(text.replace("= ", " "))
        if not self._of_groups and len(flat) == 2 * text.count("= "):
            # Twice as fast as name by name.
            with suppress(ValueError):
                features = dict(zip(flat[::2], numbers(flat[1::2]), strict=True))
                new = [name for name in features if name not in self._names]
                known = not new or {f"{name}=" for name in new} <= set(split_words(text))
                if known and 2 * len(features) == len(flat):
                    self._names.update((name, (name,)) for name in new)
                    return features
        return self._moses_groups(split_words(text))

    def _moses_groups(self, tokens: list[str]) -> dict[str, float]:
        """The features of names with one value or several."""
        groups: list[tuple[str, list[str]]] = []
        for token in tokens:
            if token.endswith("="):
                groups.append((token[:-1], []))
            elif groups:
                groups[-1][1].append(token)
            else:
                raise Malformed(f"{' '.join(tokens)[:60]!r}", "name= value ...")
        features: dict[str, float] = {}
        for name, values in groups:
            names = self.features_of(name, len(values))
            if len(names) != len(values):
                expected = f"{len(names)}, as in the first entry that has it"
                raise Malformed(f"{counted(len(values), 'value')} of {name}", expected)
            if names[0] in features:
                raise twice(name)
            try:
                features.update(zip(names, numbers(values), strict=True))
            except ValueError:
                raise no_number(name, " ".join(values)) from None
        return features

    def _register(self, name: str, values: int) -> tuple[str, ...]:
        """The features of a new ``name`` with so many ``values``."""
        if values == 0:
            raise Malformed(f"no value of {name}", "name= value ...")
        self._names[name] = (name,) if values == 1 else tuple(f"{name}_{i}" for i in range(values))
        if values > 1:
            self._of_groups.update(self._names[name])
        return self._names[name]


class RewrittenFormat(LineFormat):
    """A format of lines with another notation than fields."""

    @abstractmethod
    def rows(self, lines: Lines, notation: Notation) -> Iterator[Row]:
        """The entries in ``lines``, their features as of cdec. Raises Malformed for the last line read."""

    def read(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Entry]:
        return (self.entry(path, row, Layout()) for row in self.placed(path, blocks, notation, self.rows))

    def blocks(self, path: Path, blocks: Iterable[bytearray], notation: Notation) -> Iterator[Block]:
        rows, fault, more = self.placed(path, blocks, notation, self.rows), None, True
        while more:
            batch = list[Row]()
            try:
                batch.extend(islice(rows, _BATCH))
            except DataError as error:
                # What is wrong with a line before it is told first.
                fault = error
            yield Block.of(Layout(), batch)
            more = len(batch) == _BATCH and fault is None
        if fault is not None:
            raise fault


def as_fields(sentence: int, text: str, notation: Notation, features: str = "") -> str:
    """The fields of an entry. Raises Malformed if its ``text`` has their separator."""
    if "|||" in text and len(split_fields(text)) > 1:
        raise Malformed("the separator |||", "a hypothesis without it")
    return f"{sentence} ||| {notation.joined(text)} ||| {features}"


class NamedValues:
    """Writes features as of cdec."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._written = " ".join(f"{name.replace('%', '%%')}=%s" for name in names)

    def of(self, values: tuple[str, ...]) -> str:
        """The features with these ``values``. Raises Malformed for a value with a blank."""
        if " " in "".join(values):
            name, value = next(pair for pair in zip(self._names, values, strict=True) if " " in pair[1])
            raise no_number(name, value)
        return self._written % values


def _cdec_features(text: str) -> dict[str, float]:
    pairs = split_words(text)
    # Twice as fast as splitting pair by pair, for names without "=".
    flat = split_words(text.replace("=", " "))
    if len(flat) != 2 * len(pairs) or not all(pair.count("=") == 1 for pair in pairs):
        flat = [part for pair in pairs for part in _name_and_value(pair)]
    try:
        features = dict(zip(flat[::2], numbers(flat[1::2]), strict=True))
    except ValueError as error:
        value = str(error)
        raise no_number(flat[::2][flat[1::2].index(value)], value) from None
    if len(features) < len(pairs):
        raise twice(repeated(flat[::2]))
    return features


def _name_and_value(pair: str) -> tuple[str, str]:
    name, equals, value = pair.rpartition("=")
    if not equals:
        raise Malformed(f"{pair[:60]!r}", "name=value")
    return name, value
