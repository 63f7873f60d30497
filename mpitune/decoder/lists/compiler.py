"""From the entries of files to the arrays of `mpitune.decoder.lists.decoder.Lists`.

Entries are collected on disk in the order of the files, then sorted by list. Equal hypotheses of a list become one, at
the place of the first. Of those of one file only the first counts. Those of different files, such as the outputs of
several systems, are merged: the entry has the features of all, with the value of the first file that names a feature.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.arrays import Stored
from mpitune.array_files.csr import row_ends, select_rows
from mpitune.array_files.disk_array import DiskArray
from mpitune.corpus.hashing import hash_rows
from mpitune.corpus.vocabulary import Names, Vocabulary, feature_id
from mpitune.decoder.lists.compiled_reader import CompiledReader, FeatureNumbers
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.notation import AS_FOUND, Notation
from mpitune.errors import DataError

CHUNK = 1 << 20
"""Number of words or feature values processed at a time."""
DENSE = 10
"""A feature is dense if one of so many entries has it."""
LARGEST_METRIC = 10_000
"""Largest absolute value of a metric: sums of 800,000 are then exact in the units of `metrics.tuning_metric`."""
MOST_LISTS = 10_000_000
"""Maximum number of lists where nothing tells how many there are: a larger number is an error of the file."""


class Merged(NamedTuple):
    """The entries of all lists after merging; entries read are numbered in the order of the files."""

    entry_ptr: np.ndarray
    """int64 [lists + 1]: the merged entries of each list."""
    first: np.ndarray
    """int64 [merged entries]: the entry read first, which gives the words."""
    part: np.ndarray
    """int64 [parts]: the entries read that give features, merged entry by merged entry, in the order of the files."""
    row: np.ndarray
    """int64 [parts], ascending: the merged entry of each part."""
    equal: int
    """Number of entries left out, as their file has an equal one before."""


class ListCompiler:
    """Reads files of lists, and compiles them."""

    def __init__(
        self, words: Vocabulary, folder: Path, metrics: Sequence[str] = (), computed: Collection[str] = ()
    ) -> None:
        """``words``: gets the words of all hypotheses; ``folder``: for temporary files; ``metrics``: those to keep.

        ``computed``: metrics that need no values in the lists; a message suggests them.
        """
        self._metrics = metrics
        self._computed = computed
        self._folder = folder
        self._numbers = FeatureNumbers()
        self._reader = CompiledReader(words, self._numbers)
        self._files = 0
        self._list, self._file, self._text = array("i"), array("i"), array("q")
        self._word_count, self._feature_count = array("i"), array("i")
        self._word, self._feature = DiskArray(folder), DiskArray(folder)
        self._value = DiskArray(folder, np.float64)
        self._metric = array("d")

    def read(
        self,
        path: Path,
        first: int,
        sentences: int | None,
        *,
        add_features: Callable[[Entry, Path], object] | None = None,
        limited: bool,
        advance: Callable[[int], object],
        notation: Notation = AS_FOUND,
    ) -> int:
        """Read a file whose list 0 gets the number ``first``; returns the number of lists, up to the last one found.

        ``sentences``: the number of lists, if it is known; entries of others are skipped if ``limited``, else an error.
        ``add_features`` adds further features to an entry of the file. ``advance`` is called with how many lists have
        begun. Raises DataError for a malformed entry.
        """
        most = MOST_LISTS if sentences is None else sentences

        def accept(entry: Entry) -> bool:
            if add_features is not None:
                add_features(entry, path)
            if entry.sentence >= most and not limited:
                known = f", as there are {sentences} sentences" if sentences is not None else ""
                found, expected = f"number {entry.sentence}", f"at most {most - 1}{known}"
                raise DataError.at(path, entry.line, found=found, expected=expected)
            if entry.sentence < most:
                self._metric.extend([_metric(name, entry, path, self._computed) for name in self._metrics])
            return entry.sentence < most

        self._files += 1
        previous, lists = -1, 0
        plain = add_features is None and not self._metrics
        for entries in self._reader.read(path, most, accept, plain=plain, notation=notation):
            if len(entries.sentence) == 0:
                continue
            advance(int(np.count_nonzero(np.diff(entries.sentence, prepend=previous))))
            previous, lists = int(entries.sentence[-1]), max(lists, int(entries.sentence.max()) + 1)
            self._list.frombytes((first + entries.sentence).tobytes())
            self._file.frombytes(np.full_like(entries.sentence, self._files).tobytes())
            text = np.empty(len(entries.sentence), dtype=np.uint64)
            hash_rows(entries.word_ptr, entries.word, text)
            self._text.frombytes(text.tobytes())
            self._word_count.frombytes(np.diff(entries.word_ptr).astype(np.int32).tobytes())
            self._feature_count.frombytes(np.diff(entries.feature_ptr).astype(np.int32).tobytes())
            for numbers, disk in ((entries.word, self._word), (entries.feature, self._feature)):
                disk.append(numbers)
            self._value.append(entries.value)
        return lists

    def merged(self, lists: int) -> Merged:
        """The entries of ``lists`` lists after merging."""
        return merge(np.asarray(self._list), np.asarray(self._text), np.asarray(self._file), lists)

    def first_texts(self, merged: Merged) -> tuple[np.ndarray, np.ndarray]:
        """The words of the first entry of each list: ``ptr`` (int64 [lists + 1]) and ``word`` (int32)."""
        filled = np.diff(merged.entry_ptr) > 0
        entries = merged.first[merged.entry_ptr[:-1][filled]]
        length = np.zeros(len(filled), dtype=np.int64)
        length[filled] = np.asarray(self._word_count)[entries]
        return row_ends(length), select_rows(row_ends(self._word_count), self._word.mapped(), entries)[1]

    def compile(self, merged: Merged) -> dict[str, Stored]:
        """The arrays of `open_model`."""
        names, slot, dense = self._slots()
        word, feature, value = DiskArray(self._folder), DiskArray(self._folder), DiskArray(self._folder, np.float64)
        word_ptr, feature_ptr = row_ends(self._word_count), row_ends(self._feature_count)
        part_ptr = row_ends(np.bincount(merged.row, minlength=len(merged.first)))
        length = np.empty(len(merged.first), dtype=np.int64)
        size = row_ends(np.diff(word_ptr)[merged.first]) + row_ends(np.diff(feature_ptr)[merged.part])[part_ptr]
        for first, last in _chunks(size):
            word.append(select_rows(word_ptr, self._word.mapped(), merged.first[first:last])[1])
            parts = slice(part_ptr[first], part_ptr[last])
            ptr, numbers = select_rows(feature_ptr, self._feature.mapped(), merged.part[parts])
            row = np.repeat(merged.row[parts] - first, np.diff(ptr))
            # One key for row and slot: entries are mostly in this order, and then a stable sort takes linear time.
            key = row * len(names) + slot[numbers]
            order = np.argsort(key, kind="stable")
            order = order[np.diff(key[order], prepend=-1) > 0]
            feature.append(slot[numbers[order]])
            value.append(select_rows(feature_ptr, self._value.mapped(), merged.part[parts])[1][order])
            length[first:last] = np.bincount(row[order], minlength=last - first)
        return {
            "entry_ptr": merged.entry_ptr,
            "word_ptr": row_ends(np.diff(word_ptr)[merged.first]),
            "word": word,
            "feature_ptr": row_ends(length),
            "feature": feature,
            "value": value,
            "metric": np.array(self._metric).reshape(len(self._list), len(self._metrics))[merged.first],
            **Names.of(names).as_arrays("names"),
            "ids": np.array([feature_id(name) for name in names], dtype=np.uint64),
            "dense": np.array([dense]),
        }

    def _slots(self) -> tuple[list[str], np.ndarray, int]:
        """Names of the features by slot, dense ones first; int32 [features], slots by number; the dense features."""
        is_dense = self._is_dense()
        order = np.argsort(~is_dense, kind="stable")
        slot = np.empty(len(order), dtype=np.int32)
        slot[order] = np.arange(len(order))
        names = list(self._numbers)
        return [names[number] for number in order.tolist()], slot, int(is_dense.sum())

    def _is_dense(self) -> np.ndarray:
        """bool [features], by number."""
        return DENSE * self._sums(np.ones_like) >= len(self._list)

    def scales(self) -> dict[str, float]:
        """Root mean square of each dense feature over the entries read."""
        with np.errstate(over="ignore"):
            size = np.sqrt(self._sums(np.square) / max(len(self._list), 1))
        dense = np.flatnonzero(self._is_dense()).tolist()
        names = list(self._numbers)
        return {names[number]: float(size[number]) for number in dense}

    def _sums(self, of_values: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """float64 [features], by number: the sum of a function of the values of each feature."""
        sums, numbers, values = np.zeros(len(self._numbers)), self._feature.mapped(), self._value.mapped()
        for first in range(0, len(numbers), CHUNK):
            chunk = slice(first, first + CHUNK)
            sums += np.bincount(numbers[chunk], of_values(values[chunk]), minlength=len(sums))
        return sums


def _metric(name: str, entry: Entry, path: Path, computed: Collection[str]) -> float:
    """The value of a metric: one of JSON's metrics, or else a feature, which ``entry`` then no longer has.

    ``computed``: metrics that might have been meant instead.
    """
    value = entry.metrics[name] if name in entry.metrics else entry.features.pop(name, None)
    if value is None:
        expected = "a value among its metrics or features, as learner.metric asks for"
        known = (*computed, *entry.metrics, *entry.features)
        if alike := [other for other in known if other.lower() == name.lower()]:
            expected += f"; did you mean {alike[0]}?"
        raise DataError.at(path, entry.line, found=f"no {name}", expected=expected)
    check_metric(name, value, entry, path)
    return value


def check_metric(name: str, value: float, entry: Entry, path: Path) -> None:
    """Raise DataError for a ``value`` that sums cannot hold."""
    if abs(value) > LARGEST_METRIC:
        expected = f"a metric from -{LARGEST_METRIC} to {LARGEST_METRIC}"
        raise DataError.at(path, entry.line, found=f"value {value} of {name}", expected=expected)


def merge(list_: np.ndarray, text: np.ndarray, file: np.ndarray, lists: int) -> Merged:
    """Merge equal texts of a list.

    ``list_``: int32 [entries], list of each entry, below ``lists``; ``text``: int64 [entries], equal for equal texts;
    ``file``: int32 [entries], ascending.
    """
    # Stable: equal texts stay in the order in which they were read.
    order = np.lexsort((text, list_))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (np.diff(list_[order]) != 0) | (np.diff(text[order]) != 0)
    is_part = is_first.copy()
    is_part[1:] |= np.diff(file[order]) != 0
    first, part = order[is_first][np.cumsum(is_first) - 1][is_part], order[is_part]
    by_list = np.lexsort((part, first, list_[part]))
    first, part = first[by_list], part[by_list]
    begins = part == first
    entry_ptr = row_ends(np.bincount(list_[part[begins]], minlength=lists))
    return Merged(entry_ptr, part[begins], part, np.cumsum(begins) - 1, len(list_) - len(part))


def _chunks(size: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of rows, each of about `CHUNK` numbers; ``size``: int64 [rows + 1], numbers before each row."""
    first = 0
    while first < len(size) - 1:
        last = max(int(np.searchsorted(size, size[first] + CHUNK, side="right")) - 1, first + 1)
        yield first, last
        first = last
