"""Weights files in cdec's format: one ``name value`` per line; lines that begin with ``#`` are comments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mpitune.array_files.atomic import write_text
from mpitune.corpus.text import counted, lines, parse_number, split_words
from mpitune.errors import DataError


def read_weights(path: Path) -> dict[str, float]:
    """The weights of a file, plain or gzipped, in its order. Raises DataError for a bad line or a repeated name."""
    weights: dict[str, float] = {}
    for number, line in lines(path):
        fields = split_words(line)
        if line.startswith("#") or not fields:
            continue
        if len(fields) != 2:
            expected = "a feature's name and its weight"
            raise DataError.at(path, number, found=counted(len(fields), "field"), expected=expected)
        name, text = fields
        if name in weights:
            raise DataError.at(path, number, found=f"a second weight of {name}", expected="one weight per feature")
        try:
            weights[name] = parse_number(text)
        except ValueError:
            raise DataError.at(path, number, found=f"weight {text!r}", expected="a finite number") from None
    return weights


def write_weights(path: Path, weights: Iterable[tuple[str, float]]) -> None:
    """Write ``weights`` in their order, atomically; gzipped (reproducibly) if the name ends in .gz."""
    write_text(path, "".join(f"{name} {float(value)!r}\n" for name, value in weights))
