"""Weights files in cdec's format: one ``name value`` per line; lines that begin with ``#`` are comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mpitune.array_files.atomic import write_text
from mpitune.corpus.feature_table import FEATURE_NAME, is_feature_name
from mpitune.corpus.lines import lines
from mpitune.corpus.text import IN_RANGE, parse_number, split_words
from mpitune.corpus.wording import counted
from mpitune.errors import DataError

_ONE_OF_SEVERAL = re.compile(r"(.+)_(0|[1-9][0-9]{0,2})")
"""The name of one of the values of a name of Moses."""


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
        if not is_feature_name(name):
            raise DataError.at(path, number, found=f"feature name {name!r}", expected=FEATURE_NAME)
        if name in weights:
            raise DataError.at(path, number, found=f"a second weight of {name}", expected="one weight per feature")
        try:
            weights[name] = parse_number(text)
        except ValueError:
            raise DataError.at(path, number, found=f"weight {text!r}", expected=IN_RANGE) from None
    return weights


def write_weights(path: Path, weights: Iterable[tuple[str, float]]) -> None:
    """Write ``weights`` in their order, atomically; gzipped (reproducibly) if the name ends in .gz."""
    write_text(path, "".join(f"{name} {float(value)!r}\n" for name, value in weights))


def is_moses(path: Path) -> bool:
    """True if `export_weights` writes the section ``[weight]`` of a moses.ini to ``path``."""
    return _suffix(path) == ".ini"


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def export_weights(path: Path, weights: Sequence[tuple[str, float]]) -> None:
    """Write ``weights`` as an object of JSON (.json), the section ``[weight]`` of a moses.ini (.ini), or as above."""
    match _suffix(path):
        case ".json":
            write_text(path, f"{json.dumps(dict(weights), ensure_ascii=False, indent=1)}\n")
        case ".ini":
            write_text(path, _moses_section(dict(weights)))
        case _:
            write_weights(path, weights)


def _moses_section(weights: Mapping[str, float]) -> str:
    """``name= w0 w1 ...``: the weights of name_0, name_1 ... on one line, 0 for those that are missing."""
    groups: dict[str, dict[int, float]] = {}
    for name, value in weights.items():
        match = _ONE_OF_SEVERAL.fullmatch(name)
        of, number = (match[1], int(match[2])) if match and match[1] not in weights else (name, 0)
        groups.setdefault(of, {})[number] = float(value)
    lines = [
        f"{name}= {' '.join(repr(values.get(i, 0.0)) for i in range(max(values) + 1))}\n"
        for name, values in groups.items()
    ]
    return "".join(["[weight]\n", *lines])
