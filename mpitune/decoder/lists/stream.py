"""Lists read one after the other, without a store: for reranking, also from a pipe."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import fsum
from pathlib import Path

from mpitune.corpus.text import LARGEST_NUMBER, parse_number, split_fields
from mpitune.decoder.lists.formats import Entry, ListReader
from mpitune.errors import DataError

MOST_MISSING = 1_000_000
"""Sentences without a list in a row, at most: each gets a line, and a wrong number could fill the disk."""


def read_lists(
    paths: Sequence[Path], add_features: Callable[[Entry, Path], object] = lambda entry, path: None
) -> Iterator[tuple[int, list[Entry]]]:
    """The lists of all files with their numbers; equal hypotheses are merged as in `ListCompiler`.

    ``add_features`` adds further features to an entry of a file. Raises DataError for a malformed entry, or if the
    numbers of a file do not ascend.
    """
    reader = ListReader()
    streams = [_ascending(path, file, reader.entries(path), add_features) for file, path in enumerate(paths)]
    for number, entries in groupby(heapq.merge(*streams, key=lambda entry: entry[0]), key=lambda entry: entry[0]):
        yield number, _merged((file, entry) for _, file, entry in entries)


def _ascending(
    path: Path, file: int, entries: Iterable[Entry], add_features: Callable[[Entry, Path], object]
) -> Iterator[tuple[int, int, Entry]]:
    """``entries`` with their list and the number of their ``file``."""
    number = 0
    for entry in entries:
        if entry.sentence < number:
            expected = f"at least {number}: lists are read one after the other"
            raise DataError.at(path, entry.line, found=f"number {entry.sentence}", expected=expected)
        if entry.sentence > number + MOST_MISSING:
            found = f"number {entry.sentence} after {number}"
            expected = f"at most {MOST_MISSING:,} sentences without lists"
            raise DataError.at(path, entry.line, found=found, expected=expected)
        number = entry.sentence
        add_features(entry, path)
        yield number, file, entry


def _merged(entries: Iterable[tuple[int, Entry]]) -> list[Entry]:
    """The merged ``entries`` of one list, each with the number of its file."""
    found: dict[str, Entry] = {}
    seen = set()
    for file, entry in entries:
        text = " ".join(entry.words)
        first = found.setdefault(text, entry)
        if first is not entry and (file, text) not in seen:
            found[text] = first._replace(features=entry.features | first.features)
        seen.add((file, text))
    return list(found.values())


def model_score(entry: Entry, weights: Mapping[str, float]) -> float:
    """The product of features and weights; rounded once, so that it does not depend on the order of the features."""
    return fsum([value * weights[name] for name, value in entry.features.items() if name in weights])


def score_of(entry: Entry) -> float:
    """The score that the entry's line has: the field after its features, where `line_with_score` writes one.

    0 where that is no number: other programs leave it out, or write other fields there.
    """
    if entry.text.lstrip().startswith("{"):
        score = json.loads(entry.text).get("score") if '"score"' in entry.text else None
        return float(score) if isinstance(score, int | float) and abs(score) <= LARGEST_NUMBER else 0.0
    with suppress(ValueError, IndexError):
        return parse_number(split_fields(entry.text)[entry.field + 1].strip(" \t\r"))
    return 0.0


def line_with_score(entry: Entry, score: float) -> str:
    """The entry's line with another score, in its format."""
    written = f"{score:.9g}"
    if entry.text.lstrip().startswith("{"):
        return json.dumps({**json.loads(entry.text), "score": float(written)}, ensure_ascii=False)
    fields = split_fields(entry.text)
    place = entry.field + 1
    last = " " if len(fields) > place + 1 else ""
    head = [field if field.endswith((" ", "\t")) else f"{field} " for field in fields[:place]]
    return "|||".join([*head, f" {written}{last}", *fields[place + 1 :]])
