"""The table of the features in use."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mpitune.array_files.number_table import place_of
from mpitune.corpus import feature_table
from mpitune.corpus.feature_table import FeatureTable, is_feature_name
from mpitune.corpus.hashing import HashedNames, hashed
from mpitune.corpus.vocabulary import Names, feature_id
from mpitune.corpus.weights import read_weights, write_weights
from mpitune.errors import DataError
from mpitune.jit import kernel

DENSE = ["Glue", "WordPenalty"]


def table_of(names: list[str]) -> FeatureTable:
    return FeatureTable([(Names.of(names), np.array([feature_id(name) for name in names], dtype=np.uint64))])


@kernel
def places_of(table: tuple, hashes: np.ndarray, places: np.ndarray) -> None:
    for i in range(len(hashes)):
        places[i] = place_of(table, hashes[i])


def test_slots_are_given_in_order() -> None:
    features, names = table_of(DENSE), [f"é{n % 700}" for n in range(1000)]
    assert features.slots(names).tolist() == [2 + n % 700 for n in range(1000)]
    assert features.slots([*names, *DENSE, "new"]).tolist() == [*(2 + n % 700 for n in range(1000)), 0, 1, 702]
    assert len(features) == 703
    everything = [*DENSE, *names[:700], "new"]
    assert [features.name(slot) for slot in range(703)] == everything
    assert features.ids.tolist() == [feature_id(name) for name in everything]
    assert features.dynamic_ids.tolist() == features.ids[2:].tolist()
    assert features.find(features.ids[::-1]).tolist() == list(range(702, -1, -1))
    assert features.find(np.array([1, feature_id("other")], dtype=np.uint64)).tolist() == [-1, -1]
    assert "new" in features and "other" not in features and features.slot("other") == 703


@pytest.mark.parametrize("name", ["", "#", "#x", " #x", "a b", "a\tb", "a\n", "a\rb", "\0", "a\x1f", "\x7fa"])
def test_names_that_weights_files_cannot_hold_are_none(name: str) -> None:
    assert not is_feature_name(name) and not is_feature_name("\ud800")
    features = table_of(DENSE)
    with pytest.raises(DataError, match=f"found feature name {re.escape(repr(name))}, expected one without blanks"):
        features.slots(["Glue", name])


@pytest.mark.parametrize("name", ["x#", "R:X:a_#:#", "a\u00a0b", "Häuser", "\u3000", "a\x85", "=|||;", "\u2028"])
def test_all_other_names_are_read_as_they_are_written(tmp_path: Path, name: str) -> None:
    assert is_feature_name(name)
    write_weights(tmp_path / "w", [(name, 0.5)])
    assert read_weights(tmp_path / "w") == {name: 0.5}


def test_kernels_find_features_by_the_hash_of_their_name() -> None:
    features = table_of(DENSE)
    features.slots(["a", "b"])
    places = np.empty(4, dtype=np.int64)
    places_of(features.hashes, hashed(["b", "Glue", "a", "c"]).hash, places)
    assert places.tolist() == [1, -1, 0, -1], "dense features are fired by no template"


def test_equal_ids_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_table, "feature_id", lambda name: len(name))
    features = FeatureTable()
    features.slots(["a", "bb", "a"])
    with pytest.raises(DataError, match="features 'bb' and 'cc' have the same 64-bit id: rename one of them"):
        features.slots(["a", "ccc", "cc"])
    with pytest.raises(DataError, match="features 'Glue' and 'Blue' have the same 64-bit id"):
        FeatureTable([(Names.of(["Glue", "Blue"]), np.array([7, 7], dtype=np.uint64))])


@pytest.mark.parametrize("parts", [[["a", "b"]], [["a"], ["b"]]])
def test_equal_hashes_are_refused(monkeypatch: pytest.MonkeyPatch, parts: list[list[str]]) -> None:
    same = HashedNames(np.ones(9, dtype=np.uint64), np.ones(9, dtype=np.uint64))
    monkeypatch.setattr(
        feature_table, "hashed", lambda names: HashedNames(same.hash[: len(names)], same.power[: len(names)])
    )
    features = FeatureTable()
    with pytest.raises(DataError, match="features 'a' and 'b' have the same 64-bit id: rename one of them"):
        for part in parts:
            features.slots(part)
