"""Tables of extracted rules as the arrays of a store.

The tables of an item of work become a part. Parts follow one another in the order of the words that their source sides
begin with: the result does not depend on the number of tables or of ranks. Source sides of a sentence are listed in
their order: those that begin with a gap first, then the others, each by their words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from mpitune.array_files.arrays import Stored, add_prefix
from mpitune.array_files.csr import row_ends, select_rows
from mpitune.array_files.disk_array import DiskArray
from mpitune.array_files.row_table import DistinctRows
from mpitune.corpus.progress import Progress
from mpitune.extraction.rule_table import GAP, RuleTable
from mpitune.grammar.rules import PHRASE

BATCH = 1 << 25
"""Number of entries, over all sentences, that are merged in memory: they take some 0.3 GB."""
_OF_ENTRIES = {"entry_side": np.int32, "entry_sample": np.int16, "entry_single": np.bool_, "entry_changes": np.int16}
_OF_CHANGES = {"change_rule": np.int16, "change_count": np.int16}
"""Arrays of `RuleCountTable`, a number for each entry or change of a sentence."""


class TablePart(NamedTuple):
    """The rules whose source sides have their first words in a range of words; see `RuleTable`."""

    source_ptr: np.ndarray
    """int64 [sides + 1]"""
    source: np.ndarray
    """int32"""
    rule_ptr: np.ndarray
    """int64 [sides + 1]"""
    rule_count: np.ndarray
    """int16 [rules]"""
    lexical: np.ndarray
    """int32 [rules]: the row of `lexical_value` of each rule."""
    lexical_value: np.ndarray
    """float64 [distinct, 2]"""
    target: np.ndarray
    """int32 [rules]: the target side of each rule."""
    target_ptr: np.ndarray
    """int64 [distinct target sides + 1]"""
    target_symbol: np.ndarray
    """int32"""
    alignment: np.ndarray
    """int32 [rules]: the alignment of each rule."""
    align_ptr: np.ndarray
    """int64 [distinct alignments + 1]"""
    align: np.ndarray
    """int16 [links, 2]"""
    sentence: np.ndarray
    """int32 [entries]: ascending."""
    side: np.ndarray
    """int32 [entries]"""
    sample: np.ndarray
    """int16 [entries]"""
    single: np.ndarray
    """bool [entries]"""
    changes: np.ndarray
    """int16 [entries]: number of changes of each entry."""
    change_rule: np.ndarray
    """int16 [changes]"""
    change_count: np.ndarray
    """int16 [changes]"""


class Parts(Protocol):
    """Parts in the order of their words, each of which is read when it is needed, several times."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[TablePart]: ...


def part_of(tables: Iterable[RuleTable]) -> TablePart:
    """The part of the ``tables`` of an item."""
    found = list(tables)
    first_side = row_ends([len(table.rule_ptr) - 1 for table in found])
    targets, alignments, lexical = DistinctRows(), DistinctRows(), DistinctRows()
    sentence = _joined([table.sentence for table in found], np.int32)
    side = _joined([table.side + first for table, first in zip(found, first_side, strict=False)], np.int32)
    source_ptr = row_ends(_joined([np.diff(table.source_ptr) for table in found], np.int64))
    source = _joined([table.source for table in found], np.int32)
    order = np.argsort(sentence, kind="stable")
    change_ptr = row_ends(_joined([np.diff(table.change_ptr) for table in found], np.int64))
    changes = [_joined([getattr(table, name) for table in found], np.int16) for name in ("change_rule", "change_count")]
    new_change_ptr, change_rule = select_rows(change_ptr, changes[0], order)
    return TablePart(
        source_ptr=source_ptr,
        source=source,
        rule_ptr=row_ends(_joined([np.diff(table.rule_ptr) for table in found], np.int64)),
        rule_count=_joined([table.rule_count for table in found], np.int16),
        lexical=_joined([lexical.add_matrix(table.lexical.view(np.int32)) for table in found], np.int32),
        lexical_value=lexical.flat.view(np.float64).reshape(-1, 2),
        target=_joined([targets.add(table.target_ptr, table.target) for table in found], np.int32),
        target_ptr=targets.ptr,
        target_symbol=targets.flat,
        alignment=_joined([alignments.add(table.align_ptr, _as_int32(table.align)) for table in found], np.int32),
        align_ptr=alignments.ptr,
        align=alignments.flat.view(np.int16).reshape(-1, 2),
        sentence=sentence[order],
        side=side[order],
        sample=_joined([table.sample for table in found], np.int16)[order],
        single=_joined([table.single for table in found], np.bool_)[order],
        changes=np.diff(new_change_ptr).astype(np.int16),
        change_rule=change_rule,
        change_count=select_rows(change_ptr, changes[1], order)[1],
    )


def _joined(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def _as_int32(align: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(align).view(np.int32).ravel()


def merged(parts: Parts, sentences: int, folder: Path) -> dict[str, Stored]:
    """The arrays of `ExtractedGrammars` for ``sentences`` sentences from all parts.

    ``folder``: the folder of temporary files, which hold the arrays that grow with the number of rules or of source
    sides of sentences.
    """
    with Progress("parts of the grammars merged", len(parts)) as progress:
        types, counts = _types(parts, folder, progress)
    return add_prefix("types", types) | add_prefix("counts", counts | _entries(parts, sentences, folder))


def _types(parts: Parts, folder: Path, progress: Progress) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """The arrays of `RuleTypes`, and those of the rules' counts, numbered through all parts."""
    types = {
        name: DiskArray(folder, dtype, columns)
        for name, dtype, columns in (
            ("side", np.int32, 0),
            ("source_ptr", np.int64, 0),
            ("source", np.int32, 0),
            ("target_side", np.int32, 0),
            ("target_ptr", np.int64, 0),
            ("target", np.int32, 0),
            ("alignment", np.int32, 0),
            ("align_ptr", np.int64, 0),
            ("align", np.int16, 2),
        )
    }
    counts = {
        "rule_ptr": DiskArray(folder, np.int64),
        "rule_count": DiskArray(folder, np.int16),
        "lexical": DiskArray(folder, np.int32),
        "lexical_value": DiskArray(folder, np.float64, 2),
    }
    for end in (types["source_ptr"], types["target_ptr"], types["align_ptr"], counts["rule_ptr"]):
        end.append(np.zeros(1, dtype=np.int64))
    sides = 0
    for part in parts:
        rules = np.diff(part.rule_ptr)
        types["side"].append(np.repeat(np.arange(sides, sides + len(rules), dtype=np.int32), rules))
        types["target_side"].append(part.target + np.int32(types["target_ptr"].size - 1))
        types["alignment"].append(part.alignment + np.int32(types["align_ptr"].size - 1))
        counts["lexical"].append(part.lexical + np.int32(len(counts["lexical_value"])))
        counts["rule_ptr"].append(part.rule_ptr[1:] + counts["rule_count"].size)
        types["source_ptr"].append(part.source_ptr[1:] + types["source"].size)
        types["target_ptr"].append(part.target_ptr[1:] + types["target"].size)
        types["align_ptr"].append(part.align_ptr[1:] + len(types["align"]))
        types["source"].append(part.source)
        types["target"].append(part.target_symbol)
        types["align"].append(part.align)
        counts["rule_count"].append(part.rule_count)
        counts["lexical_value"].append(part.lexical_value)
        sides += len(rules)
        progress.advance()
    return {**types, "lhs": np.full(sides, PHRASE, dtype=np.int32)}, {**counts}


def _entries(parts: Parts, sentences: int, folder: Path) -> dict[str, Stored]:
    """The entries of all sentences: for each, those that begin with a gap from all parts, then the others."""
    entries, changes = _sizes(parts, sentences)
    grammar_ptr, change_ptr = row_ends(entries.sum(axis=0)), row_ends(changes.sum(axis=0))
    whole = {name: DiskArray(folder, dtype) for name, dtype in (_OF_ENTRIES | _OF_CHANGES).items()}
    with Progress("source sides of sentences merged", int(grammar_ptr[-1])) as progress:
        for batch in _batches(grammar_ptr):
            of_batch = slice(batch.start, batch.stop)
            for name, array in _entries_of(batch, parts, entries[:, of_batch], changes[:, of_batch], progress).items():
                whole[name].append(array)
    return {**whole, "grammar_ptr": grammar_ptr, "change_ptr": change_ptr}


def _sizes(parts: Parts, sentences: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 [2, sentences] each: entries and changes, of source sides that begin with a gap, and of others."""
    entries, changes = np.zeros((2, sentences), dtype=np.int64), np.zeros((2, sentences), dtype=np.int64)
    with Progress("parts of the grammars counted", len(parts)) as progress:
        for part in parts:
            of_kind = _by_first_symbol(part, part.side)
            for kind, chosen in enumerate(of_kind):
                sentence = part.sentence[chosen]
                entries[kind] += np.bincount(sentence, minlength=sentences)
                weights = part.changes[chosen]
                changes[kind] += np.bincount(sentence, weights=weights, minlength=sentences).astype(np.int64)
            progress.advance()
    return entries, changes


def _batches(grammar_ptr: np.ndarray) -> Iterator[range]:
    """Ranges of sentences of at most `BATCH` entries, or of one sentence."""
    first = 0
    while first + 1 < len(grammar_ptr):
        last = max(int(np.searchsorted(grammar_ptr, grammar_ptr[first] + BATCH, side="right")) - 1, first + 1)
        yield range(first, last)
        first = last


def _entries_of(
    batch: range, parts: Parts, entries: np.ndarray, changes: np.ndarray, progress: Progress
) -> dict[str, np.ndarray]:
    """The entries of the sentences ``batch``; ``entries``, ``changes``: int64 [2, sentences], their numbers by kind."""
    found = {name: np.empty(entries.sum(), dtype) for name, dtype in _OF_ENTRIES.items()}
    found |= {name: np.empty(changes.sum(), dtype) for name, dtype in _OF_CHANGES.items()}
    next_entry, next_change = _first_places(entries), _first_places(changes)
    first_side = 0
    for part in parts:
        begin, end = np.searchsorted(part.sentence, np.array([batch.start, batch.stop], dtype=np.int32))
        sentence, side, count = part.sentence[begin:end] - batch.start, part.side[begin:end], part.changes[begin:end]
        first_change = int(part.changes[:begin].sum(dtype=np.int64))
        of_batch = slice(first_change, first_change + int(count.sum(dtype=np.int64)))
        for kind, chosen in enumerate(_by_first_symbol(part, side)):
            place = _places(sentence[chosen], next_entry[kind])
            found["entry_side"][place] = side[chosen] + np.int32(first_side)
            found["entry_changes"][place] = count[chosen]
            for name in ("sample", "single"):
                found[f"entry_{name}"][place] = getattr(part, name)[begin:end][chosen]
            place = _places(np.repeat(sentence[chosen], count[chosen]), next_change[kind])
            of_change = np.repeat(chosen, count)
            for name in _OF_CHANGES:
                found[name][place] = getattr(part, name)[of_batch][of_change]
        first_side += len(part.rule_ptr) - 1
        progress.advance(int(end - begin))
    return found


def _first_places(count: np.ndarray) -> np.ndarray:
    """int64 [2, sentences]: where the rows of each kind and sentence begin; ``count``: likewise, their numbers."""
    places: np.ndarray = row_ends(count.sum(axis=0))[:-1] + np.stack([np.zeros_like(count[0]), count[0]])
    return places


def _by_first_symbol(part: TablePart, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """bool [entries] each: which of the source sides ``side`` begin with a gap, and which do not."""
    gap_first = part.source[part.source_ptr[side]] == GAP
    return gap_first, ~gap_first


def _places(sentence: np.ndarray, following: np.ndarray) -> np.ndarray:
    """int64: the next places of each ``sentence`` (int32, ascending); advances ``following`` (int64 [sentences])."""
    count = np.bincount(sentence, minlength=len(following))
    within = np.arange(len(sentence)) - row_ends(count)[sentence]
    place: np.ndarray = following[sentence] + within
    following += count
    return place
