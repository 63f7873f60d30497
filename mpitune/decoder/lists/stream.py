"""Lists read one after the other, without a store: for reranking, also from a pipe."""

from __future__ import annotations

import heapq
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import fsum
from operator import itemgetter
from pathlib import Path

from mpitune.corpus.text import LARGEST_NUMBER, parse_number, split_fields
from mpitune.corpus.wording import counted
from mpitune.decoder.lists.formats import Entry, ListReader
from mpitune.decoder.lists.notation import AS_FOUND, Notation
from mpitune.errors import DataError

LOG = logging.getLogger(__name__)

MOST_MISSING = 1_000_000
"""Sentences without a list in a row, at most: each gets a line, and a wrong number could fill the disk."""


def read_lists(
    paths: Sequence[Path],
    add_features: Callable[[Entry, Path], object] = lambda entry, path: None,
    notation: Notation = AS_FOUND,
    score: Callable[[Entry], float] | None = None,
) -> Iterator[tuple[int, list[Entry]]]:
    """The lists of all files with their numbers; equal hypotheses are merged as in `ListCompiler`.

    ``add_features`` adds further features to an entry of a file. Of equal hypotheses in a file, that of the largest
    ``score`` counts, or the first, at the place of the first; the log says how many others there are. Raises DataError
    for a malformed entry, if the numbers of a file do not ascend, or for a list beyond the sentences.
    """
    reader, equal = ListReader(), 0
    streams = [_ascending(path, file, reader, notation, add_features) for file, path in enumerate(paths)]
    for number, entries in groupby(heapq.merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
        merged, others = _merged(((file, entry) for _, file, entry in entries), score)
        equal += others
        yield number, merged
    log_equal(paths, equal, "the first counts" if score is None else "that with the largest score counts")


def all_lists(lists: Iterable[tuple[int, list[Entry]]], count: int | None) -> Iterator[tuple[int, list[Entry]]]:
    """``lists``, and empty ones before and between them; of ``count`` sentences, also after them."""
    following = 0
    for number, entries in lists:
        yield from ((missing, []) for missing in range(following, number))
        yield number, entries
        following = number + 1
    yield from ((missing, []) for missing in range(following, count or 0))


def log_equal(paths: Sequence[Path], equal: int, rule: str) -> None:
    """Log that so many entries of files are ``equal`` to others, if there are any, and the ``rule`` for them."""
    if equal:
        files = ", ".join(map(str, paths))
        LOG.info("%s: %d hypotheses are equal to others in their lists: of these, %s", files, equal, rule)


def _ascending(
    path: Path, file: int, reader: ListReader, notation: Notation, add_features: Callable[[Entry, Path], object]
) -> Iterator[tuple[int, int, Entry]]:
    """The entries of a file with their list and the number of their ``file``."""
    format_, blocks = reader.open(path, notation)
    featured = _with_features(path, format_.read(path, blocks, notation), add_features)
    if not format_.ascending:
        featured = iter(sorted(featured, key=lambda entry: entry.sentence))
    number = 0
    for entry in featured:
        if entry.sentence < number:
            expected = f"at least {number}: lists are read one after the other"
            raise DataError.at(path, entry.line, found=f"number {entry.sentence}", expected=expected)
        if entry.sentence > number + MOST_MISSING:
            found = f"number {entry.sentence} after {number}"
            expected = f"at most {MOST_MISSING:,} sentences without lists"
            raise DataError.at(path, entry.line, found=found, expected=expected)
        if notation.sentences is not None and entry.sentence >= notation.sentences:
            expected = f"at most {notation.sentences - 1}, as there are {counted(notation.sentences, 'sentence')}"
            raise DataError.at(path, entry.line, found=f"number {entry.sentence}", expected=expected)
        number = entry.sentence
        yield number, file, entry


def _with_features(
    path: Path, entries: Iterable[Entry], add_features: Callable[[Entry, Path], object]
) -> Iterator[Entry]:
    for entry in entries:
        add_features(entry, path)
        yield entry


def _merged(entries: Iterable[tuple[int, Entry]], score: Callable[[Entry], float] | None) -> tuple[list[Entry], int]:
    """The merged ``entries`` of one list, each with the number of its file, and the number of those left out."""
    of_file: dict[tuple[str, int], Entry] = {}
    left_out = 0
    for file, entry in entries:
        key = " ".join(entry.words), file
        first = of_file.setdefault(key, entry)
        if first is not entry:
            left_out += 1
            if score is not None and score(entry) > score(first):
                of_file[key] = entry
    found: dict[str, Entry] = {}
    for (text, _), entry in of_file.items():
        first = found.setdefault(text, entry)
        if first is not entry:
            found[text] = first._replace(features=entry.features | first.features)
    return list(found.values()), left_out


def model_score(entry: Entry, weights: Mapping[str, float]) -> float:
    """The product of features and weights; rounded once, so that it does not depend on the order of the features."""
    return fsum([value * weights[name] for name, value in entry.features.items() if name in weights])


def score_of(entry: Entry) -> float:
    """The score that the line of ``entry`` has: a field of one number, "score" of JSON, or else its feature; or 0."""
    if entry.text.lstrip().startswith("{"):
        score: object = json.loads(entry.text).get("score") if '"score"' in entry.text else None
        if isinstance(score, int | float) and abs(score) <= LARGEST_NUMBER:
            return float(score)
    for field in split_fields(entry.text)[2:]:
        with suppress(ValueError):
            return parse_number(field.strip(" \t\r"))
    return entry.features.get("score", 0.0)


def line_with_score(entry: Entry, score: float) -> str:
    """The entry's line with another score, in its format."""
    return entry.with_score(entry, f"{score:.9g}")
