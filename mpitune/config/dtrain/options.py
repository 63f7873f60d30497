"""Lines of dtrain's configuration file, and types of options.

dtrain reads the file by boost::program_options: ``name=value`` lines, ``#`` begins a comment anywhere in a line, each
name at most once. For a flag that dtrain requires as ``name=true``, the name alone is accepted here too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mpitune.corpus.lines import lines
from mpitune.corpus.text import parse_number
from mpitune.errors import UsageError

if TYPE_CHECKING:
    from mpitune.config.dtrain.draft import Draft

_OF_CDEC = {"formalism", "grammar", "feature_function", "add_pass_through_rules", "scfg_max_span_limit"}
_OF_CDEC |= {"intersection_strategy", "cubepruning_pop_limit"}
"""Keys of a cdec.ini, none of which is an option of dtrain."""
_TRUTH = {"on": True, "yes": True, "1": True, "true": True, "": True}
_TRUTH |= {"off": False, "no": False, "0": False, "false": False}


class Setting(NamedTuple):
    """An option as written in the file."""

    line: int
    text: str | None
    """The value; None for a name without ``=``."""


@dataclass(frozen=True)
class Option:
    """Type, default and translation of an option."""

    parse: Callable[[str], Any]
    """Converts the text of the file; raises ValueError."""
    expected: str
    """Valid values, for error messages."""
    default: Any
    """dtrain's default; None if there is none."""
    translate: Callable[[Draft, str], None]
    """Adds the translation of the option of this name to the draft."""


DtrainOptions = dict[str, Option]
Translation = Callable[["Draft", str], None]


def read_settings(path: Path) -> dict[str, Setting]:
    """Read the options in a file, by name.

    Raises UsageError for a line without a name, for a repeated name and for a cdec.ini, DataError if the file cannot be
    read.
    """
    settings: dict[str, Setting] = {}
    for number, line in lines(path):
        name, equals, value = (part.strip() for part in line.partition("#")[0].partition("="))
        if not name and not equals:
            continue
        if not name or name.startswith("["):
            raise UsageError(f"{path}:{number}: found {line!r}, expected name=value")
        if name in _OF_CDEC:
            expected = "an option of dtrain: is this the cdec.ini, which dtrain's file names?"
            raise UsageError(f"{path}:{number}: found {name}, expected {expected}")
        if name in settings:
            raise UsageError(f"{path}:{number}: found a second {name}, expected one (line {settings[name].line})")
        settings[name] = Setting(number, value if equals else None)
    return settings


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean NAME?`` for the known name most similar to ``name``, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def text(translate: Translation, default: str | None = None) -> Option:
    """An option with any text as its value."""
    return Option(str, "a text", default, translate)


def file(translate: Translation) -> Option:
    """An option whose value is a file's name."""

    def parse(value: str) -> str:
        if not value or "\0" in value:
            raise ValueError
        return value

    return Option(parse, "a file's name", None, translate)


def one_of(translate: Translation, default: str, *others: str) -> Option:
    """An option whose value is one of these names."""
    names = (default, *others)

    def parse(value: str) -> str:
        if value not in names:
            raise ValueError
        return value

    return Option(parse, f"one of {', '.join(names)}", default, translate)


def whole(translate: Translation, default: int | None, least: int = 0, most: int = 2**32 - 1) -> Option:
    """An option whose value is a whole number."""

    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            raise ValueError
        return int(value)

    return Option(parse, f"a whole number from {least} to {most}", default, translate)


def real(
    translate: Translation, default: float | None, least: float = 0.0, most: float = 1e18, *, above: bool = False
) -> Option:
    """An option whose value is a finite number; ``above`` excludes ``least``."""

    def parse(value: str) -> float:
        number = parse_number(value)
        if not least <= number <= most or (above and number == least):
            raise ValueError
        return number

    return Option(parse, f"a number {'above' if above else 'from'} {least:g} to {most:g}", default, translate)


def switch(translate: Translation, default: bool = False) -> Option:
    """An option whose value is true or false."""
    return Option(lambda value: _truth(value), "true or false", default, translate)


def presence(translate: Translation) -> Option:
    """A flag of 2012: dtrain checks only its presence, so ``=false`` switches it on too."""
    return Option(lambda value: _truth(value) or True, "true or false", False, translate)


def _truth(value: str) -> bool:
    if value.lower() not in _TRUTH:
        raise ValueError
    return _TRUTH[value.lower()]
