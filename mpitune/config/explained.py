"""A short job file with an explanation of every key, from ``jobs/example.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpitune.config.load import load, read_tables
from mpitune.corpus.lines import read_text
from mpitune.learner.methods import METHODS
from mpitune.schema import explain, literal, values

_HEADER = re.compile(r"(?:# )?\[+([\w.-]+)\]+$")
_KEY = re.compile(r"(?:# )?(\w+) = (.*)")
_COMMENT = re.compile(r"(?:#.*\n)*")


def explained(short: Path, example: Path) -> str:
    """The job ``short`` in the form of ``example``, which explains every key and shows its default or an example.

    Keys of ``short`` have its values. All others are commented out, so that presets, other methods and a cdec.ini can
    set them; so are the headers of tables that begin with a key without a default, unless ``short`` has them. The
    result means the same as ``short``. The comment at the head of ``short`` comes first.
    """
    given = read_tables(short)
    head = _COMMENT.match(read_text(short))
    assert head is not None  # it matches nothing too
    general, *tables = with_methods(read_text(example)).split("\n\n")
    paths = {key.replace("lm.0.", "lm.") for key, kind, _ in values(load(example)) if kind is Path}
    return "\n\n".join([f"{head[0]}#\n{general}", *("\n".join(_table(text, given, paths)) for text in tables)])


def with_methods(example: str) -> str:
    """``example`` with the tables of those methods that it does not have."""
    lacking = [(name, of) for name, of in METHODS.items() if of.about and f"\n[learner.{name}]" not in example]
    return example + "".join(f"\n{explain(of, f'learner.{name}', of.about)}\n" for name, of in lacking)


def _table(text: str, given: dict[str, Any], paths: set[str]) -> Iterator[str]:
    """The lines of a table of the example, with the values ``given``; ``paths``: the keys without a default."""
    lines = text.split("\n")
    header = next(match for line in lines if (match := _HEADER.match(line)))
    found = _table_of(given, header[1])
    keys = [match[1] for line in lines if (match := _KEY.match(line))]
    unused = not found and f"{header[1]}.{keys[0]}" in paths
    for line in lines:
        key = _KEY.match(line)
        if key and key[1] in found:
            yield f"{key[1]} = {literal(found[key[1]])}"
        elif key:
            yield f"# {key[1]} = {key[2]}"
        elif unused and _HEADER.match(line):
            yield f"# {line.removeprefix('# ')}"
        else:
            yield line


def _table_of(given: dict[str, Any], name: str) -> dict[str, Any]:
    """The table of a dotted name, the first of a list of tables; empty if it is missing."""
    table: Any = given
    for part in name.split("."):
        table = table.get(part, {})
        table = table[0] if isinstance(table, list) else table
    return {key: value for key, value in table.items() if not isinstance(value, dict)}
