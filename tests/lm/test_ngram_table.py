"""The table of n-grams against an ARPA file read the plain way."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from support.naive_lm import NaiveLm, random_arpa

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.lm import ngram_table
from mpitune.lm.arpa import read_arpa
from mpitune.lm.ngram_table import (
    EXTENDS_LEFT,
    EXTENDS_RIGHT,
    LanguageModel,
    LmVocabulary,
    find,
    first_probe,
    first_slot,
    language_model,
    prefetch_longer,
)

pytestmark = pytest.mark.kernel

MODELS = [(seed, order, pruned) for seed, (order, pruned) in enumerate(itertools.product(range(1, 7), (0.0, 0.5, 1.0)))]


def nodes(lm: LanguageModel, vocabulary: LmVocabulary) -> dict[tuple[str, ...], int]:
    """The n-grams in a table, read off the keys, with their nodes."""
    names = vocabulary.names.all()
    ngrams: dict[tuple[str, ...], int] = {(name,): number for number, name in enumerate(names)}
    parents = {i: (int(lm.node[i]["key"]) >> 32) - 1 for i in range(lm.words, len(lm.node)) if lm.node[i]["key"]}
    while parents:
        known = {node: ngram for ngram, node in ngrams.items()}
        for node, parent in list(parents.items()):
            if parent in known:
                ngrams[(names[(int(lm.node[node]["key"]) & 0xFFFFFFFF) >> 2], *known[parent])] = node
                del parents[node]
    return ngrams


@pytest.mark.parametrize(("seed", "order", "pruned"), MODELS)
def test_table_holds_the_file(tmp_path: Path, seed: int, order: int, pruned: float) -> None:
    random_arpa(tmp_path / "lm.arpa", seed, order, pruned=pruned)
    naive = NaiveLm(tmp_path / "lm.arpa")
    lm, vocabulary = language_model(read_arpa(tmp_path / "lm.arpa"))
    ngrams = nodes(lm, vocabulary)
    assert (lm.order, lm.words) == (order, len(vocabulary))
    assert [lm.bos, lm.eos] == vocabulary.numbers(["<s>", "</s>"]).tolist()
    for ngram, node in ngrams.items():
        entry = lm.node[node]
        if ngram in naive.ngrams:
            prob, backoff = naive.ngrams[ngram]
            assert (entry["prob"], entry["backoff"]) == (np.float32(prob), np.float32(backoff))
        else:  # a blank: needed by a longer n-gram, worth what backing off gives
            assert any(ngram in (longer[1:], longer[:-1]) for longer in ngrams)
            assert entry["backoff"] == 0
            assert entry["prob"] == pytest.approx(naive.prob(ngram[:-1], ngram[-1]), abs=1e-5)
        word = vocabulary.numbers(ngram).astype(np.int64)
        assert find(lm, word, 0, len(word)) == node
    assert set(naive.ngrams) <= set(ngrams)
    suffixes, contexts = {ngram[1:] for ngram in ngrams}, {ngram[:-1] for ngram in ngrams} | naive.with_backoff()
    for ngram, node in ngrams.items():
        flags = int(lm.node[node]["key"])
        assert bool(flags & EXTENDS_LEFT) == (ngram in suffixes)
        assert bool(flags & EXTENDS_RIGHT) == (ngram in contexts)
        assert len(ngram) == 1 or {ngram[1:], ngram[:-1]} <= set(ngrams)


def test_absent_ngrams_are_not_found(tmp_path: Path) -> None:
    words = random_arpa(tmp_path / "lm.arpa", 5, 3)
    lm, vocabulary = language_model(read_arpa(tmp_path / "lm.arpa"))
    ngrams = nodes(lm, vocabulary)
    for ngram in itertools.product(words, repeat=3):
        word = vocabulary.numbers(ngram).astype(np.int64)
        assert find(lm, word, 0, 3) == ngrams.get(ngram, -1)


def test_where_longer_ngrams_are_is_known_before_shorter_ones_are_read(tmp_path: Path) -> None:
    random_arpa(tmp_path / "lm.arpa", 6, 4)
    lm, vocabulary = language_model(read_arpa(tmp_path / "lm.arpa"))
    near, longer = 0, 0
    for ngram, node in nodes(lm, vocabulary).items():
        newest_first = vocabulary.numbers(ngram)[::-1].copy()
        slot = int(newest_first[0])
        for word in newest_first[1:].tolist():
            slot = int(first_probe(lm, slot, word))
        near += len(ngram) > 2 and slot == node - (node - first_slot(lm.words)) % 4
        longer += len(ngram) > 2
    assert longer > 50
    assert near > 0.75 * longer


def test_prefetching_asks_for_places_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_arpa(tmp_path / "lm.arpa", 6, 4)
    lm, _ = language_model(read_arpa(tmp_path / "lm.arpa"))
    asked: list[int] = []
    monkeypatch.setattr(ngram_table, "prefetch", lambda node, place: asked.append(int(place)))
    plain = getattr(prefetch_longer, "py_func", prefetch_longer)
    history = np.array([9, 3, 2, 1], dtype=np.int32)
    plain(lm, 4, history, 1, 3)
    assert asked[0] == first_probe(lm, 4, 3)
    assert asked[1] == first_probe(lm, asked[0], 2)
    assert asked[2] == first_probe(lm, asked[1], 1)
    assert all(first_slot(lm.words) <= place < len(lm.node) for place in asked)
    plain(lm, 4, history, 1, 0)
    assert len(asked) == 3


def test_words_have_numbers_and_others_are_unknown(tmp_path: Path) -> None:
    words = random_arpa(tmp_path / "lm.arpa", 7, 2, unknown=False)
    _, vocabulary = language_model(read_arpa(tmp_path / "lm.arpa"))
    assert vocabulary.names.all()[0] == "<unk>"
    assert sorted(vocabulary.names.all()) == sorted([*words, "<s>", "</s>", "<unk>"])
    numbers = vocabulary.numbers([*words, "<unk>", "", "zug", "Zugs", "Zu"])
    assert [vocabulary.names[number] for number in numbers[: len(words)]] == words
    assert numbers[len(words) :].tolist() == [0] * 5
    assert vocabulary.numbers([]).dtype == np.int32


def test_stored_model_is_the_same(tmp_path: Path) -> None:
    random_arpa(tmp_path / "lm.arpa", 9, 4, pruned=0.5)
    arrays = read_arpa(tmp_path / "lm.arpa")
    write_arrays(tmp_path / "lm.npz", arrays, {})
    lm, vocabulary = language_model(arrays)
    stored, stored_vocabulary = language_model(open_arrays(tmp_path / "lm.npz"))
    assert stored.node.dtype == lm.node.dtype and np.array_equal(stored.node, lm.node)
    assert stored[1:] == lm[1:]
    assert stored_vocabulary.names.all() == vocabulary.names.all()
    assert np.array_equal(stored_vocabulary.numbers(["Zug", "?"]), vocabulary.numbers(["Zug", "?"]))
