"""Tables as the arrays of a store, against lists; memory that does not grow with the number of parts."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.stages import Stages

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.csr import row_ends
from mpitune.extraction.rule_arrays import Parts, TablePart, merged, part_of
from mpitune.extraction.rule_table import GAP, RuleTable
from mpitune.grammar.extracted import ExtractedGrammars
from mpitune.grammar.rules import PHRASE

pytestmark = pytest.mark.kernel

SENTENCES = 5


class Entry(NamedTuple):
    """A source side of a sentence."""

    sentence: int
    sample: int
    single: bool
    changes: list[tuple[int, int]]


class Side(NamedTuple):
    """A source side with its rules (target, links, count, lexical scores) and sentences."""

    source: list[int]
    rules: list[tuple[list[int], list[list[int]], int, list[float]]]
    entries: list[Entry]


def random_side(random: np.random.Generator, first_word: int) -> Side:
    """Few symbols, links and scores, so that target sides, alignments and scores meet again."""

    def numbers(low: int, high: int, most: int) -> list[int]:
        return random.integers(low, high, size=random.integers(1, most)).tolist()

    rules = [
        (numbers(-2, 2, 4), random.integers(0, 2, size=(random.integers(0, 3), 2)).tolist(), n, [0.5 * (n % 3), -0.0])
        for n in numbers(0, 300, 4)
    ]
    entries = [
        Entry(sentence, *numbers(1, 300, 2), bool(random.integers(2)), [(n, n + 1) for n in range(random.integers(3))])
        for sentence in range(SENTENCES)
        if random.integers(2)
    ]
    return Side([*[GAP] * random.integers(2), first_word, *numbers(0, 3, 3)], rules, entries)


def table(sides: Sequence[Side]) -> RuleTable:
    rules = [rule for side in sides for rule in side.rules]
    entries = [(entry, n) for n, side in enumerate(sides) for entry in side.entries]
    changes = [change for entry, _ in entries for change in entry.changes]

    def flat(rows: Iterable[Sequence[Any]], dtype: type) -> np.ndarray:
        return np.array([element for row in rows for element in row], dtype=dtype)

    return RuleTable(
        size=np.zeros(0, dtype=np.int64),
        source_ptr=row_ends([len(side.source) for side in sides]),
        source=flat((side.source for side in sides), np.int32),
        rule_ptr=row_ends([len(side.rules) for side in sides]),
        rule_count=np.array([rule[2] for rule in rules], dtype=np.int16),
        lexical=flat((rule[3] for rule in rules), np.float64).reshape(-1, 2),
        target_ptr=row_ends([len(rule[0]) for rule in rules]),
        target=flat((rule[0] for rule in rules), np.int32),
        align_ptr=row_ends([len(rule[1]) for rule in rules]),
        align=flat((link for rule in rules for link in rule[1]), np.int16).reshape(-1, 2),
        sentence=np.array([entry.sentence for entry, _ in entries], dtype=np.int32),
        side=np.array([n for _, n in entries], dtype=np.int32),
        sample=np.array([entry.sample for entry, _ in entries], dtype=np.int16),
        single=np.array([entry.single for entry, _ in entries], dtype=np.bool_),
        change_ptr=row_ends([len(entry.changes) for entry, _ in entries]),
        change_rule=np.array([rule for rule, _ in changes], dtype=np.int16),
        change_count=np.array([count for _, count in changes], dtype=np.int16),
    )


def stored(parts: Parts, folder: Path) -> ExtractedGrammars:
    write_arrays(folder / "rules.h5", merged(parts, SENTENCES, folder), {})
    assert [path.name for path in folder.iterdir()] == ["rules.h5"]
    return ExtractedGrammars.stored(open_arrays(folder / "rules.h5"), None)


def rows(ptr: np.ndarray, flat: np.ndarray) -> list[list[Any]]:
    return [flat[begin:end].tolist() for begin, end in pairwise(ptr.tolist())]


@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 3], [0, 2, 2, 4]])
@pytest.mark.parametrize("batch", [1, 60, 1 << 25])
def test_however_the_tables_are_cut_into_parts_and_merged(
    cuts: list[int], batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mpitune.extraction.rule_arrays.BATCH", batch)
    random = np.random.default_rng(5)
    sides = [[random_side(random, word) for _ in range(20)] for word in (7, 8, 9)]
    # The words of an item may need two tables; one needs none.
    tables = [*map(table, (sides[0][:8], sides[0][8:], sides[1], sides[2]))]
    bounds = list(pairwise([0, *cuts, len(tables)]))
    parts = [part_of(tables[first:last]) for first, last in bounds]
    if not cuts:
        assert all(len(ptr) < 60 for ptr in (parts[0].target_ptr, parts[0].align_ptr, parts[0].lexical_value))
    found = stored(parts, tmp_path)
    types, counts = found.types, found.table
    whole = [side for of_word in sides for side in of_word]
    assert types.lhs.tolist() == [PHRASE] * len(whole)
    assert rows(types.source_ptr, types.source) == [side.source for side in whole]
    targets, aligns = rows(types.target_ptr, types.target), rows(types.align_ptr, types.align)
    found_rules = zip(
        [targets[n] for n in types.target_side],
        [aligns[n] for n in types.alignment],
        counts.rule_count.tolist(),
        counts.lexical_value[counts.lexical].tolist(),
        strict=True,
    )
    assert list(found_rules) == [rule for side in whole for rule in side.rules]
    assert types.side.tolist() == [n for n, side in enumerate(whole) for _ in side.rules]
    assert np.diff(counts.rule_ptr).tolist() == [len(side.rules) for side in whole]
    for sentence in range(SENTENCES):
        # Those that begin with a gap come first, in the order of the parts, then the others.
        expected = [
            (n, entry.sample, entry.single, entry.changes)
            for with_gap in (True, False)
            for n, side in enumerate(whole)
            for entry in side.entries
            if entry.sentence == sentence and (side.source[0] == GAP) == with_gap
        ]
        entries = slice(*counts.grammar_ptr[sentence : sentence + 2])
        changes = slice(*counts.change_ptr[sentence : sentence + 2])
        pairs = zip(counts.change_rule[changes].tolist(), counts.change_count[changes].tolist(), strict=True)
        one = [counts.entry_side[entries], counts.entry_sample[entries], counts.entry_single[entries]]
        lengths = counts.entry_changes[entries].tolist()
        of_entries = [[next(pairs) for _ in range(length)] for length in lengths]
        assert list(zip(*(array.tolist() for array in one), of_entries, strict=True)) == expected
        assert list(pairs) == []


def test_no_parts_give_no_rules(tmp_path: Path) -> None:
    found = stored([], tmp_path)
    assert len(found) == SENTENCES and found.types.side.size == 0
    assert [found.open(number).type.size for number in range(SENTENCES)] == [0] * SENTENCES


class Copies:
    """Parts that are the same; each is a copy of its own, as if it was read from a file."""

    def __init__(self, part: TablePart, times: int) -> None:
        self._part, self._times = part, times

    def __len__(self) -> int:
        return self._times

    def __iter__(self) -> Iterator[TablePart]:
        return (TablePart(*(array.copy() for array in self._part)) for _ in range(self._times))


def test_each_stage_is_shown_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random, stages = np.random.default_rng(2), Stages(monkeypatch)
    part = part_of([table([random_side(random, 7) for _ in range(9)])])
    merged([part, part, part], SENTENCES, tmp_path)
    assert list(stages.done.values()) == [(3, 3), (3, 3), (3 * len(part.side), 3 * len(part.side))]


@pytest.mark.large
def test_memory_is_taken_by_one_part(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    some = [random_side(random, 7) for _ in range(50)]
    part = part_of([table([side._replace(rules=side.rules * 200) for side in some])])
    size = part.rule_count.nbytes + part.target.nbytes + part.alignment.nbytes + part.lexical.nbytes

    def peak(times: int) -> int:
        tracemalloc.start()
        found = stored(Copies(part, times), tmp_path)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(found.types.side) == times * len(part.rule_count)
        return memory

    few = peak(5)
    assert peak(100) < few + size
