"""Compiled lists: order, equal hypotheses, features."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.lists import compiler
from mpitune.decoder.lists.compiler import ListCompiler
from mpitune.decoder.lists.decoder import ListModel, open_model
from mpitune.errors import DataError

Files = list[list[tuple[int, str, dict[str, float]]]]


def read(lists: ListCompiler, path: Path, sentences: int, *, limited: bool = False) -> None:
    lists.read(path, 0, sentences, limited=limited, advance=lambda lists: None)


def compiled(folder: Path, files: Files, sentences: int, *, limited: bool = False) -> ListModel:
    words = Vocabulary()
    lists = ListCompiler(words, folder)
    for number, entries in enumerate(files):
        path = folder / f"lists-{number}"
        lines = [f"{i} ||| {text} ||| {' '.join(f'{n}={v!r}' for n, v in row.items())}\n" for i, text, row in entries]
        path.write_text("".join(lines))
        read(lists, path, sentences, limited=limited)
    write_arrays(folder / "lists.npz", lists.compile(lists.merged(sentences)), {})
    return open_model(open_arrays(folder / "lists.npz"), words)


def content(model: ListModel) -> list[list[tuple[str, dict[str, float]]]]:
    """The entries of all lists, features in the order of their slots."""
    lists, found = model.lists, []
    for first, last in zip(lists.entry_ptr[:-1], lists.entry_ptr[1:], strict=True):
        found.append([])
        for j in range(first, last):
            row = slice(lists.feature_ptr[j], lists.feature_ptr[j + 1])
            assert (np.diff(lists.feature[row]) > 0).all()
            names = [model.names[slot] for slot in lists.feature[row].tolist()]
            text = " ".join(model.words.decode(lists.word[lists.word_ptr[j] : lists.word_ptr[j + 1]]))
            found[-1].append((text, dict(zip(names, lists.value[row].tolist(), strict=True))))
    return found


def merged(files: Files, sentences: int) -> list[list[tuple[str, dict[str, float]]]]:
    """The rule for equal hypotheses, entry by entry."""
    lists: list[dict[str, dict[str, float]]] = [{} for _ in range(sentences)]
    for entries in files:
        seen = set()
        for i, text, row in entries:
            if (i, text) not in seen:
                lists[i][text] = {**row, **lists[i].get(text, {})}
            seen.add((i, text))
    return [list(of_one.items()) for of_one in lists]


def test_lists_in_any_order_with_gaps(tmp_path: Path) -> None:
    files: Files = [[(3, "c", {"lm": 1.0}), (0, "a b", {"lm": 2.0, "x": 1.0}), (3, "d", {})]]
    model = compiled(tmp_path, files, 5)
    assert content(model) == [[("a b", {"lm": 2.0, "x": 1.0})], [], [], [("c", {"lm": 1.0}), ("d", {})], []]


def test_equal_hypotheses_become_one(tmp_path: Path) -> None:
    first = [(0, "a", {"lm": 1.0, "x": 1.0}), (0, "b", {"lm": 2.0}), (0, "a", {"lm": 3.0, "y": 1.0})]
    second = [(0, "c", {"tm": 4.0}), (0, "a", {"lm": 5.0, "tm": 6.0}), (0, "a", {"z": 1.0})]
    model = compiled(tmp_path, [first, second], 1)
    assert content(model) == [[("a", {"lm": 1.0, "x": 1.0, "tm": 6.0}), ("b", {"lm": 2.0}), ("c", {"tm": 4.0})]]


@pytest.mark.parametrize("seed", range(5))
def test_random_files_are_merged_as_the_rule_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(compiler, "CHUNK", 40)
    random = np.random.default_rng(seed)

    def entry(i: int) -> tuple[int, str, dict[str, float]]:
        row = {name: float(random.normal()) for name in "pqrst" if random.random() < 0.6}
        return i, " ".join(random.choice(["a", "b"], random.integers(0, 3))), row

    files: Files = [[entry(i) for i in random.integers(0, 6, 80).tolist()] for _ in range(3)]
    assert content(compiled(tmp_path, files, 7)) == merged(files, 7)


def test_dense_features_come_first(tmp_path: Path) -> None:
    some = {"some": 1.0}
    entries = [(0, f"w{n}", {f"sparse{n}": 1.0, "lm": 1.0, **(some if n % 10 == 0 else {})}) for n in range(30)]
    model = compiled(tmp_path, [entries], 1)
    assert model.dense_features() == ["lm", "some"]
    assert len(model.feature_table()) == 32 and model.feature_table().name(2) == "sparse0"


def test_scales_of_dense_features(tmp_path: Path) -> None:
    words = Vocabulary()
    lists = ListCompiler(words, tmp_path)
    path = tmp_path / "lists"
    rows = [f"lm={3 if n % 2 else -4} {'some=10' if n % 5 else f's{n}=1'}" for n in range(20)]
    path.write_text("".join(f"0 ||| {n} ||| {row}\n" for n, row in enumerate(rows)))
    read(lists, path, 1)
    assert lists.scales() == pytest.approx({"lm": 12.5**0.5, "some": 80**0.5})


def test_numbers_beyond_the_sentences(tmp_path: Path) -> None:
    files: Files = [[(1, "a", {}), (2, "b", {})]]
    with pytest.raises(DataError, match="lists-0:2: found number 2, expected at most 1, as there are 2 sentences"):
        compiled(tmp_path, files, 2)
    assert content(compiled(tmp_path, files, 2, limited=True)) == [[], [("a", {})]]


@pytest.mark.parametrize("name", ["#lm", "l m", "lm\x1b"])
def test_names_that_weights_files_cannot_hold(tmp_path: Path, name: str) -> None:
    (tmp_path / "lists").write_text(json.dumps({"id": 0, "text": "", "features": {name: 1}}))
    told = re.escape(f"lists:1: found feature name {name!r}, expected one without blanks")
    with pytest.raises(DataError, match=told):
        read(ListCompiler(Vocabulary(), tmp_path), tmp_path / "lists", 1)
