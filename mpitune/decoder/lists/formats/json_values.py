"""Objects in JSON lines, and what they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from mpitune.corpus.text import IN_RANGE
from mpitune.decoder.lists.formats import Malformed
from mpitune.decoder.lists.formats.values import check_values, repeated, twice

_UNWRITABLE = re.compile("[\n\r\0\ud800-\udfff]")
"""Characters that strings of JSON can contain, but lines of text cannot."""


def decoded(line: str, expected: str) -> dict[str, Any]:
    """The object in ``line``. Raises Malformed for anything else."""
    try:
        found = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON ({error})", expected) from None
    if not isinstance(found, dict):
        raise Malformed("no JSON object", expected)
    return found


def named_values(key: str, values: object) -> dict[str, float]:
    """The names and numbers that ``values``, which the object has as ``key``, should be."""
    if not isinstance(values, dict):
        raise Malformed(f"{key} {shown(values)}", "an object of names and numbers")
    if not set(map(type, values.values())) <= {int, float}:
        name, value = next(item for item in values.items() if type(item[1]) not in (int, float))
        raise Malformed(f"value {shown(value)} of {name}", IN_RANGE)
    try:
        numbers = dict(zip(values, map(float, values.values()), strict=True))
    except OverflowError:
        raise Malformed(f"too large a number in {key}", "finite numbers") from None
    check_values(numbers)
    return numbers


def check_strings(line: str, strings: Iterable[str]) -> None:
    """Raise Malformed if one of ``strings``, of the object in ``line``, has a character that no text can have."""
    if "\\" in line:
        for string in strings:
            if bad := _UNWRITABLE.search(string):
                expected = "neither line ends nor NUL nor halves of surrogate pairs"
                raise Malformed(f"the character {bad[0]!a} in {string[:60]!a}", expected)


def shown(value: object) -> str:
    """``value`` as the beginning of what the line has."""
    return json.dumps(value)[:60]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON with these ``pairs``."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise twice(repeated(name for name, _ in pairs))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
