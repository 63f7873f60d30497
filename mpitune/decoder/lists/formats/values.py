"""Names and numbers of features in the lines of lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from mpitune.corpus.text import IN_RANGE, LARGEST_NUMBER
from mpitune.decoder.lists.formats import Malformed

_MOST_DIGITS = 18
"""Maximum number of digits of the number of a list, so that it is an int64."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


def is_list_number(text: str) -> bool:
    """True for the number of a list."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def list_number(text: str, expected: str = "") -> int:
    """The number of a list, from 0. Raises Malformed for anything else; ``expected``: what its line should be."""
    if not is_list_number(text):
        raise Malformed(f"{text[:60]!r}", f"the number of a sentence, from 0{expected}")
    return int(text)


def checked_list_number(number: object, shown: str) -> int:
    """``number``, if it is that of a list; ``shown``: how a message names it."""
    if type(number) is not int or not 0 <= number < 10**_MOST_DIGITS:
        raise Malformed(shown, "the number of a sentence, from 0")
    return number


def numbers(texts: Sequence[str]) -> list[float]:
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


def check_values(values: Mapping[str, float]) -> None:
    """Raise Malformed for one of ``values`` that sums cannot hold."""
    # The sum of finite values may be infinite, but the sum of others is never finite; `max` may skip NaN.
    if values and not (isfinite(sum(values.values())) and max(map(abs, values.values())) <= LARGEST_NUMBER):
        name, value = next(item for item in values.items() if not abs(item[1]) <= LARGEST_NUMBER)
        raise Malformed(f"value {value} of {name}", IN_RANGE)


def no_number(name: str, value: str) -> Malformed:
    """The error of a ``value`` that is none."""
    return Malformed(f"value {value[:60]!r} of {name}", IN_RANGE)


def repeated(names: Iterable[str]) -> str:
    """The first of ``names`` that is there twice."""
    return next(name for name, count in Counter(names).items() if count > 1)


def twice(name: str) -> Malformed:
    """The error of a ``name`` that is there twice."""
    return Malformed(f"a second value of {name}", "each name once")
