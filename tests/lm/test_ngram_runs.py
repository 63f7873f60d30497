"""N-grams sorted in runs and merged, against those that Python counts."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from mpitune.array_files.disk_array import Scratch
from mpitune.corpus.progress import Progress
from mpitune.lm import ngram_runs
from mpitune.lm.ngram_runs import Runs

pytestmark = pytest.mark.kernel
START, END = 1, 2


def ngrams_of(sentences: list[list[int]], order: int, words: int) -> list[dict[tuple[int, ...], int]]:
    """For each length, from 1 on: n-grams, last word first, in ascending order, with their adjusted counts."""
    marked = [[START, *sentence, END] for sentence in sentences]
    seen = Counter(
        tuple(reversed(text[i : i + n]))
        for text in marked
        for n in range(1, order + 1)
        for i in range(len(text) - n + 1)
    )
    before = defaultdict(set)
    for ngram in seen:
        before[ngram[:-1]].add(ngram[-1])
    whole = {
        n: {g: c if n == order or g[-1] == START else len(before[g]) for g, c in sorted(seen.items()) if len(g) == n}
        for n in range(1, order + 1)
    }
    whole[1] = {(w,): 0 if w == START else whole[1].get((w,), 0) for w in range(words)}
    return list(whole.values())


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@pytest.mark.parametrize("words", [4, 20, 70_000])
@pytest.mark.parametrize(("runs", "window"), [(1, 1 << 14), (2, 3), (9, 1)])
def test_merged_runs_have_the_ngrams_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int, words: int, runs: int, window: int
) -> None:
    monkeypatch.setattr(ngram_runs, "_WINDOW", window)
    draw = random.Random(order * words + runs)
    some = [0, *draw.choices(range(3, words), k=11), words - 1]
    sentences = [draw.choices(some, range(1, len(some) + 1), k=draw.randrange(8)) for _ in range(40)]
    collected = Runs(order, Scratch(tmp_path, draw.choice([0, 1 << 20])), 1 << 20)
    for number, sentence in enumerate(sentences, start=1):
        collected.add(np.array([START] * (order - 1) + [*sentence, END], dtype=np.int32), words)
        if number % (40 // runs) == 0:
            collected.finish(words)
    collected.finish(words)
    ngrams, levels = collected.merged(words, Progress("", 0))
    expected = ngrams_of(sentences, order, words)
    assert list(map(len, levels)) == [1, *map(len, expected)]
    found = {0: ()}
    for level, of_length in zip(levels[1:], expected, strict=True):
        for place in level:
            found[place] = *found[int(ngrams.suffix[place])], int(ngrams.first[place])
        assert [found[place] for place in level] == [*of_length]
        assert ngrams.counts[level.start : level.stop].tolist() == [*of_length.values()]
    children = defaultdict(list)
    for place in found:
        if place:
            children[int(ngrams.suffix[place])].append(place)
    for place, longer in children.items():
        assert longer == [*range(ngrams.child[place], ngrams.child[place] + ngrams.counts[place])]
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_sorted_when_its_memory_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_runs, "_LEAST_RUN", 10)
    for memory, expected in ((0, 3), (10_000, 1)):
        runs = Runs(2, Scratch(tmp_path, 1 << 20), memory)
        for _ in range(7):
            runs.add(np.array([START, 3, 4, END], dtype=np.int32), 5)
        runs.finish(5)
        assert [len(rows) for rows in runs.rows] == expected * [3]
