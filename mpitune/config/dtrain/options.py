"""The file of options: its lines, and what an option is.

dtrain reads it by boost::program_options: ``name=value`` lines, ``#`` begins a comment anywhere in a line, a name
stands once at most. Where dtrain wants ``name=true`` for a flag, the name alone is understood here too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mpitune.corpus.text import lines, parse_number
from mpitune.errors import UsageError

if TYPE_CHECKING:
    from mpitune.config.dtrain.draft import Draft

_TRUTH = {"on": True, "yes": True, "1": True, "true": True, "": True}
_TRUTH |= {"off": False, "no": False, "0": False, "false": False}


class Setting(NamedTuple):
    """An option as the file has it."""

    line: int
    text: str | None
    """None for a name alone."""


@dataclass(frozen=True)
class Option:
    """What an option may be, and what it becomes."""

    parse: Callable[[str], Any]
    """Raises ValueError."""
    expected: str
    default: Any
    """dtrain's; None where it has none."""
    becomes: Callable[[Draft, str], None]
    """Adds to the draft what the option of this name becomes."""


DtrainOptions = dict[str, Option]
Meaning = Callable[["Draft", str], None]


def read_settings(path: Path) -> dict[str, Setting]:
    """The options in a file, by name.

    Raises UsageError for a line without a name and for a name given twice, DataError where the file cannot be read.
    """
    settings: dict[str, Setting] = {}
    for number, line in lines(path):
        name, equals, value = (part.strip() for part in line.partition("#")[0].partition("="))
        if not name and not equals:
            continue
        if not name or name.startswith("["):
            raise UsageError(f"{path}:{number}: found {line!r}, expected name=value")
        if name in settings:
            raise UsageError(f"{path}:{number}: found a second {name}, expected one (line {settings[name].line})")
        settings[name] = Setting(number, value if equals else None)
    return settings


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean NAME?`` for the name most like ``name``, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def text(becomes: Meaning, default: str | None = None) -> Option:
    """An option that is any text."""
    return Option(str, "a text", default, becomes)


def file(becomes: Meaning) -> Option:
    """An option that is a file's name."""

    def parse(value: str) -> str:
        if not value or "\0" in value:
            raise ValueError
        return value

    return Option(parse, "a file's name", None, becomes)


def one_of(becomes: Meaning, default: str, *others: str) -> Option:
    """An option that is one of these names."""
    names = (default, *others)

    def parse(value: str) -> str:
        if value not in names:
            raise ValueError
        return value

    return Option(parse, f"one of {', '.join(names)}", default, becomes)


def whole(becomes: Meaning, default: int | None, least: int = 0, most: int = 2**32 - 1) -> Option:
    """An option that is a whole number."""

    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            raise ValueError
        return int(value)

    return Option(parse, f"a whole number from {least} to {most}", default, becomes)


def real(
    becomes: Meaning, default: float | None, least: float = 0.0, most: float = 1e18, *, above: bool = False
) -> Option:
    """An option that is a finite number; ``above``: the least itself is none."""

    def parse(value: str) -> float:
        number = parse_number(value)
        if not least <= number <= most or (above and number == least):
            raise ValueError
        return number

    return Option(parse, f"a number {'above' if above else 'from'} {least:g} to {most:g}", default, becomes)


def switch(becomes: Meaning, default: bool = False) -> Option:
    """An option that is true or false."""
    return Option(lambda value: _truth(value), "true or false", default, becomes)


def presence(becomes: Meaning) -> Option:
    """A flag of 2012: dtrain asks only whether it is there, so that ``=false`` switches it on too."""
    return Option(lambda value: _truth(value) or True, "true or false", False, becomes)


def _truth(value: str) -> bool:
    if value.lower() not in _TRUTH:
        raise ValueError
    return _TRUTH[value.lower()]
