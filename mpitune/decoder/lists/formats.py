"""Entries of n-best lists in the formats of Moses, cdec and JSON lines.

Moses   ``0 ||| hypothesis ||| name= 1 2 other= 3 ||| score``: several values of a name are name_0, name_1 ...
cdec    ``0 ||| hypothesis ||| name=1 other=3 ||| score``
JSON    ``{"id": 0, "text": "hypothesis", "features": {"name": 1.0}}``

The format of a file is that of its first line with features, which also tells their field: other programs write links
of words, or scores of words, before it. Scores and further fields are not read.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mpitune.corpus.lines import line_blocks
from mpitune.corpus.text import IN_RANGE, LARGEST_NUMBER, split_fields, split_words
from mpitune.corpus.tokenisation import warn_of_segmentation
from mpitune.corpus.wording import counted
from mpitune.errors import DataError

LOG = logging.getLogger(__name__)

_FIELDS = "number ||| hypothesis ||| features [||| score]"
_OBJECT = '{"id": 0, "text": "hypothesis", "features": {"name": 1.0}}'

MOST_DIGITS = 18
"""Maximum number of digits of the number of a list, so that it is an int64."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
_UNWRITABLE = re.compile("[\n\r\0\ud800-\udfff]")
"""Characters that strings of JSON can contain, but lines of text cannot."""


class Entry(NamedTuple):
    """One hypothesis of a list."""

    line: int
    """Its line in the file, from 1."""
    sentence: int
    """The number of its list, from 0."""
    words: list[str]
    features: dict[str, float]
    metrics: dict[str, float]
    """Those of JSON lines; the other formats have none."""
    text: str
    """The line itself."""
    field: int = 2
    """The field of its features, from 0; JSON lines have none."""


class Layout(NamedTuple):
    """Notation of the lines of a file."""

    format: Literal["moses", "cdec", "json"] = "cdec"
    field: int = 2
    """The field of the features, from 0."""


def laid_out(path: Path) -> Iterator[tuple[bytearray, Layout]]:
    """The blocks of `line_blocks`, with the layout of the file; raises as that does."""
    layout: Layout | None = None
    for block in line_blocks(path):
        if layout is None:
            told = (_layout(path, line) for line in block.decode().split("\n"))
            layout = next(filter(None, told), None)
        yield block, layout or Layout()


def _layout(path: Path, line: str) -> Layout | None:
    """The layout of a file that has this ``line``; None without features, which tell Moses' format from cdec's.

    A warning names what might be taken for features and is not read, and marks among the words of a hypothesis.
    """
    if line.lstrip().startswith("{"):
        layout = Layout("json")
    else:
        fields = [split_words(field) for field in split_fields(line)]
        named = [n for n in range(2, len(fields)) if fields[n] and fields[n][0].find("=") > 0]
        field = ([n for n in named if not _scores_words(fields[n], len(fields[1]))] or named[-1:] or [2])[0]
        if len(fields) < 3 or not fields[field]:
            return None
        layout = Layout("moses" if any(item.endswith("=") for item in fields[field]) else "cdec", field)
        if skipped := [n for n in range(2, len(fields)) if n != field and fields[n] and (n < field or n in named)]:
            LOG.warning(
                "%s: features are read from field %d, %s, and not from %s",
                path,
                field + 1,
                _shown(fields[field]),
                " and ".join(f"field {n + 1}, {_shown(fields[n])}" for n in skipped),
            )
    warn_of_segmentation(path, line)
    return layout


def _scores_words(items: Sequence[str], words: int) -> bool:
    """True for one name with a value for each of the ``words`` of a hypothesis, or more of them.

    Scores of words have one for the end of the sentence, too, or one for each part of a word.
    """
    values = sum(not item.endswith("=") for item in items)
    return sum("=" in item for item in items) == 1 and values >= words


def _shown(items: Sequence[str]) -> str:
    return repr(" ".join(items)[:40])


class _Malformed(Exception):
    """A malformed line: what was found, and what was expected."""


_Parsed = tuple[int, list[str], dict[str, float], dict[str, float]]
"""Number of the list, words, features and metrics of an entry."""


class ListReader:
    """Reads files of entries. In all files of a reader, a name of Moses has the same number of values."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}
        """The features of each name of Moses."""
        self._of_groups: set[str] = set()
        """The features of those names that have several values."""

    def entries(self, path: Path) -> Iterator[Entry]:
        """The entries of a file, plain or gzipped, in its order. Raises DataError for a malformed line."""
        number = 0
        for block, layout in laid_out(path):
            for line in block.decode().split("\n")[:-1]:
                number += 1
                yield self.entry(path, number, line, layout)

    def entry(self, path: Path, number: int, line: str, layout: Layout) -> Entry:
        """The entry in line ``number`` of a file. Raises DataError for a malformed line."""
        try:
            if layout.format == "json":
                return Entry(number, *_json_entry(line), line)
            parse = self._moses_features if layout.format == "moses" else _cdec_features
            return Entry(number, *_fields_entry(parse, line, layout.field), line, layout.field)
        except _Malformed as error:
            found, expected = error.args
            raise DataError.at(path, number, found=found, expected=expected) from None

    def features_of(self, name: str, values: int) -> tuple[str, ...]:
        """The features of a ``name`` of Moses; those of a new name if it is new, and has so many ``values``."""
        return self._names.get(name) or self._register(name, values)

    def shares_features(self, name: str) -> bool:
        """True if another name of Moses has a feature of the known ``name``: ``tm_0= 1`` beside ``tm= 1 2``."""
        features = self._names[name]
        return name in self._of_groups if features == (name,) else any(each in self._names for each in features)

    def _moses_features(self, text: str) -> dict[str, float]:
        flat = split_words(text.replace("= ", " "))
        if not self._of_groups and len(flat) == 2 * text.count("= "):
            # Twice as fast as name by name.
            with suppress(ValueError):
                features = dict(zip(flat[::2], _numbers(flat[1::2]), strict=True))
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
                raise _Malformed(f"{' '.join(tokens)[:60]!r}", "name= value ...")
        features: dict[str, float] = {}
        for name, values in groups:
            names = self.features_of(name, len(values))
            if len(names) != len(values):
                expected = f"{len(names)}, as in the first entry that has it"
                raise _Malformed(f"{counted(len(values), 'value')} of {name}", expected)
            if names[0] in features:
                raise _twice(name)
            try:
                features.update(zip(names, _numbers(values), strict=True))
            except ValueError:
                raise _no_number(name, " ".join(values)) from None
        return features

    def _register(self, name: str, values: int) -> tuple[str, ...]:
        """The features of a new ``name`` with so many ``values``."""
        if values == 0:
            raise _Malformed(f"no value of {name}", "name= value ...")
        self._names[name] = (name,) if values == 1 else tuple(f"{name}_{i}" for i in range(values))
        if values > 1:
            self._of_groups.update(self._names[name])
        return self._names[name]


def _fields_entry(parse_features: Callable[[str], dict[str, float]], line: str, field: int) -> _Parsed:
    fields = split_fields(line)
    if len(fields) <= field:
        more = f"features in field {field + 1}, as in the first entry that has some"
        raise _Malformed(counted(len(fields), "field"), _FIELDS if len(fields) < 3 else more)
    number = fields[0].strip(" \t")
    if not (number.isascii() and number.isdecimal() and len(number) <= MOST_DIGITS):
        raise _Malformed(f"{number[:60]!r}", f"the number of a sentence, from 0: {_FIELDS}")
    features = parse_features(fields[field])
    _check_values(features)
    return int(number), split_words(fields[1]), features, {}


def _cdec_features(text: str) -> dict[str, float]:
    pairs = split_words(text)
    # Twice as fast as splitting pair by pair, for names without "=".
    flat = split_words(text.replace("=", " "))
    if len(flat) != 2 * len(pairs) or not all(pair.count("=") == 1 for pair in pairs):
        flat = [part for pair in pairs for part in _name_and_value(pair)]
    try:
        features = dict(zip(flat[::2], _numbers(flat[1::2]), strict=True))
    except ValueError as error:
        value = str(error)
        raise _no_number(flat[::2][flat[1::2].index(value)], value) from None
    if len(features) < len(pairs):
        raise _twice(_repeated(flat[::2]))
    return features


def _numbers(texts: Sequence[str]) -> list[float]:
    """The numbers in ``texts``, finite or not. Raises ValueError with the first text that is none."""
    try:
        # Checked together, which is twice as fast: `float` also takes digits of other scripts, _ and further blanks.
        every = "".join(texts)
        if every.isascii() and every.isprintable() and "_" not in every:
            return list(map(float, texts))
    except ValueError:
        pass
    return [_number(text) for text in texts]


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _name_and_value(pair: str) -> tuple[str, str]:
    name, equals, value = pair.rpartition("=")
    if not equals:
        raise _Malformed(f"{pair[:60]!r}", "name=value")
    return name, value


def _json_entry(line: str) -> _Parsed:
    try:
        entry = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise _Malformed(f"no JSON ({error})", _OBJECT) from None
    if not isinstance(entry, dict):
        raise _Malformed("no JSON object", _OBJECT)
    sentence, text, features = entry.get("id"), entry.get("text"), entry.get("features", {})
    if type(sentence) is not int or not 0 <= sentence < 10**MOST_DIGITS:
        raise _Malformed(f"id {json.dumps(sentence)}", "the number of a sentence, from 0")
    if not isinstance(text, str):
        raise _Malformed(f"text {json.dumps(text)[:60]}", "a string")
    metrics = _json_numbers("metrics", entry["metrics"]) if "metrics" in entry else {}
    numbers = _json_numbers("features", features)
    if "\\" in line:
        for string in (text, *numbers, *metrics):
            if bad := _UNWRITABLE.search(string):
                expected = "neither line ends nor NUL nor halves of surrogate pairs"
                raise _Malformed(f"the character {bad[0]!a} in {string[:60]!a}", expected)
    return sentence, split_words(text), numbers, metrics


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON with these ``pairs``."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _twice(_repeated(name for name, _ in pairs))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _json_numbers(key: str, values: object) -> dict[str, float]:
    if not isinstance(values, dict):
        raise _Malformed(f"{key} {json.dumps(values)[:60]}", "an object of names and numbers")
    if not set(map(type, values.values())) <= {int, float}:
        name, value = next(item for item in values.items() if type(item[1]) not in (int, float))
        raise _Malformed(f"value {json.dumps(value)[:60]} of {name}", IN_RANGE)
    try:
        numbers = dict(zip(values, map(float, values.values()), strict=True))
    except OverflowError:
        raise _Malformed(f"too large a number in {key}", "finite numbers") from None
    _check_values(numbers)
    return numbers


def _no_number(name: str, value: str) -> _Malformed:
    return _Malformed(f"value {value[:60]!r} of {name}", IN_RANGE)


def _check_values(values: Mapping[str, float]) -> None:
    # The sum of finite values may be infinite, but the sum of others is never finite; `max` may skip NaN.
    if values and not (isfinite(sum(values.values())) and max(map(abs, values.values())) <= LARGEST_NUMBER):
        name, value = next(item for item in values.items() if not abs(item[1]) <= LARGEST_NUMBER)
        raise _Malformed(f"value {value} of {name}", IN_RANGE)


def _repeated(names: Iterable[str]) -> str:
    """The first of ``names`` that is there twice."""
    return next(name for name, count in Counter(names).items() if count > 1)


def _twice(name: str) -> _Malformed:
    return _Malformed(f"a second value of {name}", "each name once")
