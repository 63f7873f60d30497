"""Frozen dataclasses as the schema of a TOML file: reads it with every value checked, lists its keys, writes it.

A table is a dataclass and a key is one of its fields (``lambda_`` is the key ``lambda``). The type of a key is bool,
int, float, str or Path, with ``| None`` if the key may be missing (a path: may be ""), or ``tuple[..., ...]`` of str,
Path or tables. A `name_or_weights` is a string or a dict. Fields with ``internal`` in their metadata are not keys, and
the field `tables` stands for a table of each part of a registry. A class may name keys that come first (``FIRST``).

Of any key, ``used`` says for which whole configurations it matters, and ``text`` explains it.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from mpitune.errors import UNPRINTABLE, UsageError
from mpitune.registry import Registry

T = TypeVar("T")

_LARGEST = 2**63 - 1
_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a string"),
    Path: ((str,), "a path (a string)"),
}
"""By type of a key: the types of its values in TOML, and their name in error messages."""
_ESCAPES = {code: f"\\u{code:04x}" for code in UNPRINTABLE if not 0xD800 <= code < 0xE000}
"""TOML has no escapes for surrogates."""
_WIDTH = 120
"""Longest line of an explanation."""


def noted(default: Any, **notes: Any) -> Any:
    """Field of a key; ``notes``: ``used`` (by default always), ``text``, ``example`` (a value, if there is no default).

    ``used`` is a function of the whole configuration, or `NEVER`: the result does not depend on the key.
    """
    return field(default=default, metadata=notes)


def choice(default: str, *others: str, **notes: Any) -> Any:
    """Field of a key whose value is one of these strings; ``notes`` as of `noted`, also below."""
    return noted(default, choices=(default, *others), **notes)


def choices(names: Collection[str], default: Any = (), **notes: Any) -> Any:
    """Field of a key whose value is a list of some of ``names``, each at most once; or one, if ``default`` is one."""
    return noted(default, choices=names, **notes)


def one_or_more() -> Any:
    """Field of a key whose value is a list of paths, or one path; empty by default."""
    return noted((), one=True)


def number(default: float | None, least: float, most: float = _LARGEST, *, above: bool = False, **notes: Any) -> Any:
    """Field of a key whose value is a finite number from ``least`` to ``most``; ``above`` excludes ``least``."""
    return noted(default, least=least, most=most, above=above, **notes)


def name_or_weights(default: str) -> Any:
    """Field of a key whose value is a name, or a table of names and numbers other than 0."""
    return noted(default, weights=True)


def tables(registry: Registry[Any], **notes: Any) -> Any:
    """Field that stands for tables with the names of ``registry``, whose parts are the tables' classes.

    Its value is a dict of them. A class explains its table by ``about``; one without an explanation has no table.
    ``used`` gets the name of the table too.
    """
    made = lambda: {name: table() for name, table in registry.items() if table.about}  # noqa: E731
    return field(default_factory=made, metadata={"tables": registry, **notes})


def internal(default: Any) -> Any:
    """Field that is not a key of the file and is ignored in comparisons of tables."""
    return field(default=default, compare=False, metadata={"internal": True})


def NEVER(job: Any) -> bool:
    """``used`` of a key that has no influence on the result."""
    return False


def read(schema: type[T], raw: dict[str, Any], origin: Path, overridden: Collection[str] = ()) -> T:
    """Convert ``raw`` (as tomllib reads it) to a ``schema``.

    Relative paths start from the folder of the file ``origin``; ``${NAME}`` in a path is replaced by the environment
    variable. Raises UsageError that names ``origin`` (``--set`` for the dotted keys in ``overridden``), the key, the
    value found and the values expected.
    """
    table: T = _Reader(schema, origin, overridden).table(schema, raw, "")
    return table


class Entry(NamedTuple):
    """A key and its value in a table."""

    key: str
    """Dotted."""
    kind: Any
    """Type; for a list that of its entries."""
    value: Any
    default: Any
    used: Callable[[Any], bool]
    """For which whole configurations the key matters."""


def entries(table: Any, prefix: str = "", used: Callable[[Any], bool] = lambda job: True) -> Iterator[Entry]:
    """Every key of ``table`` and its sub-tables; ``used``: for which configurations the table matters."""
    for key, of in _keys(type(table)).items():
        value, core, both = of.value(table), _core(of.hint), of.used(used)
        if not is_dataclass(core):
            yield Entry(f"{prefix}{key}", core, value, of.spec.default, both)
        elif isinstance(value, tuple):
            for i, each in enumerate(value):
                yield from entries(each, f"{prefix}{key}.{i}.", both)
        elif value is not None:
            yield from entries(value, f"{prefix}{key}.", both)


def values(table: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted key, type (for a list: of its entries) and value of every key of ``table`` and its sub-tables."""
    return (entry[:3] for entry in entries(table, prefix))


def explain(schema: Any, header: str, about: str) -> str:
    """The table ``header`` with the defaults of ``schema``, each key below its text, and the table below ``about``."""
    lines = [*_comment(about), f"[{header}]"]
    for key, of in _keys(schema).items():
        notes = of.spec.metadata
        lines += _comment(notes.get("text", ""))
        shown = literal(of.spec.default if of.spec.default is not None else notes["example"])
        lines.append(f"{key} = {shown}" if of.spec.default is not None else f"# {key} = {shown}")
    return "\n".join(lines)


def to_toml(table: Any) -> str:
    """``table`` as TOML that `read` converts back to it; keys that are None and not paths are left out."""
    return "\n".join(_lines(table, "")).lstrip("\n") + "\n"


def literal(value: Any) -> str:
    """``value`` as written in a TOML file; a table is shown as ``a table``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False).translate(_ESCAPES)
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(entry) for entry in value)}]"
    return "a table" if isinstance(value, dict) else str(value)


def set_key(raw: dict[str, Any], key: str, value: Any) -> list[str]:
    """Set the dotted ``key`` of ``raw`` to ``value``; ``lm.0.file`` is a key of an existing or new list entry.

    Returns the dotted names that this sets: ``key`` and the tables above it that did not exist. Raises UsageError,
    which only --set can cause, if something above the key is not a table.
    """
    table: Any = raw
    given = [key]
    names = key.split(".")
    for depth, (name, following) in enumerate(zip(names[:-1], names[1:], strict=True), start=1):
        if isinstance(table, list) and name in map(str, range(len(table) + 1)):
            if int(name) == len(table):
                table.append({})
            table = table[int(name)]
        elif isinstance(table, dict):
            if name not in table:
                given.append(".".join(names[:depth]))
            table = table.setdefault(name, [] if following == "0" else {})
        else:
            table = None
    if not isinstance(table, dict):
        raise UsageError(f"--set {key}: no such key")
    table[names[-1]] = value
    return given


class _Key(NamedTuple):
    """A key of a table."""

    spec: Field[Any]
    hint: Any
    """Type."""
    part: str
    """The name of the key in the dict of a field `tables`; empty for other fields."""

    def value(self, table: Any) -> Any:
        value = getattr(table, self.spec.name)
        return value[self.part] if self.part else value

    def used(self, table: Callable[[Any], bool]) -> Callable[[Any], bool]:
        """For which whole configurations the key matters; ``table``: the table that it stands in."""
        own, part = self.spec.metadata.get("used"), (self.part,) if self.part else ()
        return table if own is None else NEVER if own is NEVER else lambda job: table(job) and own(job, *part)


def _keys(schema: Any) -> dict[str, _Key]:
    """The keys of a table, in their order in files."""
    hints, found = get_type_hints(schema), dict[str, _Key]()
    for spec in fields(schema):
        if registry := spec.metadata.get("tables"):
            found |= {name: _Key(spec, part, name) for name, part in registry.items() if part.about}
        elif "internal" not in spec.metadata:
            found[spec.name.rstrip("_")] = _Key(spec, hints[spec.name], "")
    return {key: found[key] for key in (*getattr(schema, "FIRST", ()), *found)}


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2, break_on_hyphens=False)]


def _core(hint: Any) -> Any:
    """The type X in X, X | None and tuple[X, ...]; str for a Literal of strings."""
    if get_origin(hint) is Literal:
        return str
    return next((kind for kind in get_args(hint) if kind not in (type(None), Ellipsis)), hint)


def _names(schema: Any, prefix: str) -> Iterator[str]:
    """Dotted names of all keys and sub-tables."""
    for key, of in _keys(schema).items():
        yield f"{prefix}{key}"
        if is_dataclass(core := _core(of.hint)):
            yield from _names(core, f"{prefix}{key}.")


def _lines(table: Any, prefix: str) -> Iterator[str]:
    inner: list[str] = []
    for key, of in _keys(type(table)).items():
        value, core = of.value(table), _core(of.hint)
        if is_dataclass(core):
            brackets = "[[{}]]" if isinstance(value, tuple) else "[{}]"
            for entry in value if isinstance(value, tuple) else (value,):
                if entry is not None:
                    inner += ["", brackets.format(prefix + key), *_lines(entry, f"{prefix}{key}.")]
        elif value is not None or core is Path:
            written = _inline_table(value) if isinstance(value, dict) else literal("" if value is None else value)
            yield f"{key} = {written}"
    yield from inner


def _inline_table(numbers: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{literal(name)} = {number}" for name, number in numbers.items()) + " }"


class _Reader:
    """Converts a parsed TOML file to a schema, with error messages that name the key."""

    def __init__(self, schema: Any, origin: Path, overridden: Collection[str]) -> None:
        self.origin = origin
        self.overridden = overridden
        self.names = list(_names(schema, ""))

    def error(self, key: str, text: str) -> UsageError:
        above = key.split(".")
        overridden = any(".".join(above[:depth]) in self.overridden for depth in range(1, len(above) + 1))
        error = UsageError(f"{f'--set {key}' if overridden else f'{self.origin}: {key}'}: {text}")
        error.file, error.key = None if overridden else str(self.origin), key
        return error

    def wrong(self, key: str, found: Any, expected: str) -> UsageError:
        return self.error(key, f"found {literal(found)}, expected {expected}")

    def table(self, schema: Any, raw: dict[str, Any], prefix: str) -> Any:
        keys = _keys(schema)
        read: dict[str, Any] = {of.spec.name: {} for of in keys.values() if of.part}
        for key, value in raw.items():
            if key not in keys:
                raise self.unknown(f"{prefix}{key}", value, list(keys))
        for key, of in keys.items():
            if of.part:
                read[of.spec.name][key] = self.value(of, raw.get(key, {}), f"{prefix}{key}")
            elif key in raw:
                read[of.spec.name] = self.value(of, raw[key], f"{prefix}{key}")
            elif of.spec.default is of.spec.default_factory is MISSING:
                raise self.error(prefix + key, "missing")
        return schema(**read)

    def unknown(self, key: str, value: Any, valid: list[str]) -> UsageError:
        prefix, _, name = key.rpartition(".")
        near = [f"{prefix}.{match}".lstrip(".") for match in difflib.get_close_matches(name, valid, n=1)]
        elsewhere = {other.rpartition(".")[2]: other for other in reversed(self.names)}
        near += [elsewhere[match] for match in difflib.get_close_matches(name, elsewhere, n=1, cutoff=0.8)]
        what = "table" if isinstance(value, dict) else "key"
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(valid)}"
        return self.error(key, f"unknown {what}; {hint}")

    def value(self, of: _Key, raw: Any, key: str) -> Any:
        hint, core, limits = of.hint, _core(of.hint), of.spec.metadata
        if get_origin(hint) is tuple:
            if "one" in limits and isinstance(raw, str):
                raw = [raw] if raw else []
            if not isinstance(raw, list):
                raise self.wrong(key, raw, f"[[{key}]]" if is_dataclass(core) else "a list of strings")
            if "choices" in limits and any(raw.count(entry) > 1 for entry in raw):
                raise self.wrong(key, raw, "each name once")
            return tuple(self.value(of._replace(hint=core), entry, f"{key}.{i}") for i, entry in enumerate(raw))
        if is_dataclass(core):
            if not isinstance(raw, dict):
                raise self.wrong(key, raw, "a table")
            return self.table(core, raw, f"{key}.")
        if "weights" in limits:
            return self.name_or_weights(key, raw)
        types, expected = _TYPES[core]
        if type(raw) not in types:
            raise self.wrong(key, raw, expected)
        if "choices" in limits and raw not in limits["choices"]:
            raise self.wrong(key, raw, f"one of {', '.join(limits['choices'])}")
        if "least" in limits:
            least, most, above = limits["least"], limits["most"], limits["above"]
            if not least <= raw <= most or (above and raw == least):
                upper = f" and at most {most}" if most != _LARGEST or raw > most else ""
                raise self.wrong(key, raw, f"{expected} {'above' if above else 'of at least'} {least}{upper}")
        if core is Path:
            return self.path(key, raw, may_be_empty=hint is not Path)
        return float(raw) if core is float else raw

    def name_or_weights(self, key: str, raw: Any) -> str | dict[str, float]:
        if isinstance(raw, str) and raw:
            return raw
        if raw == {}:
            raise self.error(key, "found an empty table, expected names and numbers in it")
        if not isinstance(raw, dict):
            raise self.wrong(key, raw, "a name, or a table of names and numbers")
        for name, number in raw.items():
            if type(number) not in (int, float) or not math.isfinite(number) or number == 0:
                raise self.wrong(f"{key}.{name}", number, "a number other than 0")
        weights = {name: float(number) for name, number in raw.items()}
        return next(iter(weights)) if list(weights.values()) == [1.0] else weights

    def path(self, key: str, text: str, *, may_be_empty: bool) -> Path | None:
        if not text and may_be_empty:
            return None
        if not text or "\0" in text:
            raise self.wrong(key, text, "a path")

        def variable(match: re.Match[str]) -> str:
            if match[1] not in os.environ:
                raise self.error(key, f"the environment variable {match[1]} is not set (in {text!r})")
            return os.environ[match[1]]

        if (bare := re.search(r"\$(\w+)", text)) and bare[1] in os.environ:
            raise self.wrong(key, text, f"${{{bare[1]}}} for the environment variable, with braces")
        if text.startswith("~"):
            raise self.wrong(key, text, "${HOME} for the home folder")
        # abspath, not resolve: symbolic links are kept, because their targets may differ on another node.
        path = os.path.abspath(self.origin.parent / re.sub(r"\$\{(\w+)\}", variable, text))
        try:
            path.encode()
        except UnicodeEncodeError:
            raise self.wrong(key, path, "a path in UTF-8, to be kept in config.toml") from None
        return Path(path)
