"""Grammars of many sentences as arrays, against dicts; memory that does not grow with the number of parts."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from mpitune.extraction.extracted import FEATURES, Extracted

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.csr import row_ends
from mpitune.extraction.rule_arrays import Collector, GrammarPart, merged
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import PHRASE

pytestmark = pytest.mark.kernel

Row = tuple[int, ...]


def random_grammar(random: np.random.Generator, rules: int) -> Extracted:
    """Few symbols, links and scores, so that sides, types and rows of scores meet again, in other rules as well."""
    lengths = [random.integers(1, high, size=rules) for high in (4, 3, 2)]
    (sources, targets, links), ptr = [lengths_.sum() for lengths_ in lengths], [row_ends(each) for each in lengths]
    return Extracted(
        size=np.array([rules, sources, targets, links]),
        source_ptr=ptr[0],
        source=random.integers(-2, 2, size=sources, dtype=np.int32),
        target_ptr=ptr[1],
        target=random.integers(0, 2, size=targets, dtype=np.int32),
        align_ptr=ptr[2],
        align=random.integers(0, 2, size=(links, 2), dtype=np.int16),
        score=random.choice([0.0, -0.5, 1.25], size=(rules, len(FEATURES)), p=[0.1, 0.1, 0.8]),
        rule=np.zeros(0, dtype=np.int32),
    )


def parts(grammars: Sequence[Extracted], cuts: Iterable[int]) -> Iterator[GrammarPart]:
    for first, last in pairwise([0, *cuts, len(grammars)]):
        collector = Collector()
        for grammar in grammars[first:last]:
            collector.add(grammar)
        assert collector.rules == sum(len(grammar.score) for grammar in grammars[first:last])
        yield collector.part()


def stored(found: Iterable[GrammarPart], folder: Path) -> dict[str, np.ndarray]:
    write_arrays(folder / "rules.h5", merged(found, folder), {})
    assert [path.name for path in folder.iterdir()] == ["rules.h5"]
    return open_arrays(folder / "rules.h5")


def rows(ptr: np.ndarray, flat: np.ndarray) -> list[Row]:
    return [tuple(np.ravel(flat[begin:end]).tolist()) for begin, end in pairwise(ptr.tolist())]


def expected(grammars: Sequence[Extracted]) -> tuple[dict[tuple[Row, Row, Row], int], dict[Row, int], list[list[Row]]]:
    """Types and rows of scores, numbered as they come up, and the numbers of each sentence's rules."""
    types, scores, found = dict[tuple[Row, Row, Row], int](), dict[Row, int](), []
    for grammar in grammars:
        gap = -1 - PHRASE
        sources = [tuple(gap if s < 0 else s for s in row) for row in rows(grammar.source_ptr, grammar.source)]
        targets, links = rows(grammar.target_ptr, grammar.target), rows(grammar.align_ptr, grammar.align)
        lines = zip(sources, targets, links, map(tuple, grammar.score.tolist()), strict=True)
        found.append(
            [
                (types.setdefault(tuple(sides), len(types)), scores.setdefault(score, len(scores)))
                for *sides, score in sorted(lines, key=lambda line: line[0])
            ]
        )
    return types, scores, found


@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 3, 4, 5], [0, 3, 3]])
def test_however_the_sentences_are_cut_into_parts(cuts: list[int], tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    grammars = [random_grammar(random, size) for size in (40, 0, 60, 30, 90, 50)]
    found = stored(parts(grammars, cuts), tmp_path)
    types, scores, of_sentences = expected(grammars)
    assert 50 < len(types) < 220 and 50 < len(scores) < 220
    grammars_found = ListedGrammars.stored(found, None)
    of_types, rules = grammars_found.types, grammars_found.rules
    sources, aligns = rows(of_types.source_ptr, of_types.source), rows(of_types.align_ptr, of_types.align)
    assert of_types.lhs.tolist() == [PHRASE] * len(sources)
    assert len(set(sources)) == len(sources) and len(set(aligns)) == len(aligns)
    sides = (
        [sources[side] for side in of_types.side.tolist()],
        rows(of_types.target_ptr, of_types.target),
        [aligns[alignment] for alignment in of_types.alignment.tolist()],
    )
    assert list(zip(*sides, strict=True)) == list(types)
    index, value = (rows(rules.score_ptr, entries) for entries in (rules.score_index, rules.score_value))
    kept = [[(place, score) for place, score in enumerate(row) if score] for row in scores]
    assert [list(zip(*row, strict=True)) for row in zip(index, value, strict=True)] == kept
    opened = map(grammars_found.open, range(len(grammars_found)))
    assert [list(zip(one.type.tolist(), one.score_row.tolist(), strict=True)) for one in opened] == of_sentences


def test_no_parts_give_no_rules(tmp_path: Path) -> None:
    found = stored([], tmp_path)
    assert found["grammar_ptr"].tolist() == [0] and found["rules.type"].size == found["types.side"].size == 0


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="takes too long in plain Python")
def test_memory_is_taken_by_what_is_distinct_and_by_one_part(tmp_path: Path) -> None:
    (part,) = parts([random_grammar(np.random.default_rng(1), 20000)], [])
    size = part.type.nbytes + part.score_row.nbytes

    def peak(times: int) -> int:
        # Each a copy of its own, as if read from its own file.
        copies = (GrammarPart(*(array.copy() for array in part)) for _ in range(times))
        tracemalloc.start()
        rules = stored(copies, tmp_path)["rules.type"]
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(rules) == times * len(part.type)
        return memory

    few = peak(5)
    assert peak(100) < few + size
