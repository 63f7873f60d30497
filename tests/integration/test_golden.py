"""The decoder on real data against the reference decoder's k-best lists."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from mpitune.corpus.weights import read_weights
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.store.build import build_store
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import Store, open_store

K = 100
DIGITS = 6e-6
"""Relative rounding of a printed number."""
OTHER_DERIVATION = {
    # Ours is worse: the better one falls just short of the pop limit (it is there again from 203 on).
    ("nc", 8, 77): -68.2279,
    # Ours is better, at pop limits from 180 to 260 alike. Why the reference does not list it is not known.
    ("nc", 8, 24): -67.6707,
    ("nc", 18, 89): -54.7892,
    ("multi30k", 3, 74): -28.6867,
    ("multi30k", 3, 96): -28.8176,
}
"""Entries (list, sentence, rank from 0) whose string we find by a derivation of this other score."""

NOT_FOUND = {
    ("nc-sparse", number, rank) for number, rank in ((16, 99), (32, 99), (36, 99), (38, 97), (38, 98), (38, 99))
}
"""Last entries of lists, where our full list ends with an equal score or a better one."""


class Entry(NamedTuple):
    text: str
    features: dict[str, float]
    score: float


def golden(path: Path) -> dict[int, list[Entry]]:
    """The k-best lists of a file by sentence."""
    lists: dict[int, list[Entry]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            number, text, row, score = line.rstrip("\n").split(" ||| ")
            pairs = (feature.rpartition("=") for feature in row.split())
            features = {name: float(value) for name, _, value in pairs}
            lists.setdefault(int(number), []).append(Entry(text, features, float(score)))
    return lists


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stores are made."""
    return tmp_path_factory.mktemp("golden")


def opened(sources: StoreInputs, folder: Path) -> Store:
    build_store(sources, folder)
    return open_store(sources, folder)


def check(name: str, store: Store, shared: Path) -> None:
    weights = read_weights(shared / f"golden/{name}.weights")
    decoder = EmbeddedDecoder(store.model)
    slots = [decoder.features.slot(feature) for feature in weights]
    vector = np.zeros(len(decoder.features))
    vector[slots] = list(weights.values())
    assert store.train is not None
    differ: list[tuple[object, ...]] = []
    for number, entries in golden(shared / f"golden/{name}.kbest.gz").items():
        ours = decoder.decode(store.train.sentence(number), vector, K)
        texts = [" ".join(store.model.words.decode(ours.translation(j))) for j in range(ours.size)]
        found = {text: j for j, text in enumerate(texts)}
        assert len(found) == ours.size
        assert (np.diff(ours.score) <= 1e-9).all()
        assert ours.score[0] == pytest.approx(entries[0].score, rel=DIGITS)
        for rank, entry in enumerate(entries):
            if (name, number, rank) in OTHER_DERIVATION:
                expected = OTHER_DERIVATION[name, number, rank]
                assert ours.score[found[entry.text]] == pytest.approx(expected, rel=DIGITS)
            elif (name, number, rank) in NOT_FOUND:
                assert entry.text not in found and ours.size == K
                assert ours.score[-1] >= entry.score - DIGITS * abs(entry.score)
            elif entry.text not in found:
                differ.append((number, rank, "missing", entry.score, ours.score[-1]))
            else:
                j = found[entry.text]
                row = slice(ours.feature_ptr[j], ours.feature_ptr[j + 1])
                names = map(decoder.features.name, ours.feature_index[row].tolist())
                features = dict(zip(names, ours.feature_value[row].tolist(), strict=True))
                if ours.score[j] != pytest.approx(entry.score, rel=DIGITS, abs=1e-6):
                    differ.append((number, rank, "score", entry.score, ours.score[j]))
                for feature in features.keys() | entry.features.keys():
                    one, other = entry.features.get(feature, 0.0), features.get(feature, 0.0)
                    if weights.get(feature) and other != pytest.approx(one, rel=DIGITS, abs=1e-9):
                        differ.append((number, rank, feature, one, other))
    assert differ == []


@pytest.mark.parametrize(("name", "templates"), [("nc", ()), ("nc-sparse", ("id", "source-bigram", "shape"))])
def test_lists_of_news_commentary_are_the_references(
    shared: Path, folder: Path, name: str, templates: tuple[str, ...]
) -> None:
    sources = StoreInputs(
        train=Texts(shared / "data/nc/nc.de.gz", limit=50),
        grammar=shared / "data/nc/grammar.gz",
        templates=templates,
        lms=(shared / "data/nc/lm.3.arpa.gz",),
    )
    check(name, opened(sources, folder / "nc"), shared)


def test_lists_of_multi30k_are_the_references(shared: Path, folder: Path) -> None:
    sources = StoreInputs(
        train=Texts(shared / "golden/multi30k-val40.in"), lms=(shared / "data/multi30k/lm.4.arpa.gz",)
    )
    check("multi30k", opened(sources, folder / "multi30k"), shared)
