"""Files of a store whose digests match but whose arrays do not: nothing of them reaches a kernel."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiny import write_data

from mpitune.array_files.arrays import open_arrays, read_manifest, write_arrays
from mpitune.corpus.bitext import AlignedFiles
from mpitune.errors import DataError
from mpitune.exchange.comm import SerialComm
from mpitune.grammar.rules import PHRASE
from mpitune.store.build import build_store
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import open_store
from mpitune.store.structure import check_bitext, check_data, check_lm, check_own_ngrams

EXTRACTED = "extracted/data.npz"
CHECKS = {
    "data.npz": check_data,
    "lm-0.npz": check_lm,
    EXTRACTED: check_data,
    "extracted/bitext.npz": check_bitext,
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> StoreInputs:
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    sides = ((folder / f"train.{end}").read_text().splitlines() for end in ("de", "en"))
    links = [" ".join("0-0" for _ in source.split()[:1] if target) for source, target in zip(*sides, strict=True)]
    (folder / "links").write_text("".join(f"{line}\n" for line in links))
    return StoreInputs(
        train=Texts(folder / "train.de", (folder / "train.en", folder / "train.en2")),
        devtest=Texts(folder / "dev.de", (folder / "dev.en",)),
        grammar=folder / "grammar",
        templates=("id", "shape"),
        lms=(folder / "lm.arpa",),
    )


def build(sources: StoreInputs, folder: Path) -> list[str]:
    return build_store(sources, folder)


@pytest.fixture(scope="module")
def store(sources: StoreInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    assert sources.train is not None
    data = sources.train.source.parent
    build(sources, folder)
    aligned = AlignedFiles(data / "train.de", data / "train.en", (data / "links", data / "links"))
    extracted = replace(sources, grammar=None, aligned=aligned, leave_one_out=True)
    extract_and_build(
        SerialComm(),
        extracted,
        folder / "extracted",
        folder / "extracted",
    )
    return folder


@pytest.mark.parametrize("name", list(CHECKS))
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_files_as_they_are_built_pass(store: Path, name: str, piece: int, small_pieces: Callable[[int], None]) -> None:
    small_pieces(piece)
    CHECKS[name](open_arrays(store / name))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has arrays checked in pieces of so many rows."""

    def set_size(rows: int) -> None:
        monkeypatch.setattr("mpitune.store.structure._PIECE", rows)
        monkeypatch.setattr("mpitune.store.structure._SENTENCES", rows)

    return set_size


def test_memory_does_not_grow_with_the_entries_of_sentences(store: Path) -> None:
    arrays = open_arrays(store / "extracted/data.npz")

    def peak(sentences: int) -> int:
        entries = 100 * sentences
        many = {
            "counts.grammar_ptr": np.arange(sentences + 1) * 100,
            "counts.change_ptr": np.zeros(sentences + 1, np.int64),
            "counts.entry_side": np.zeros(entries, np.int32),
            "counts.entry_sample": np.ones(entries, np.int16),
            "counts.entry_single": np.zeros(entries, np.bool_),
            "counts.entry_changes": np.zeros(entries, np.int16),
            "counts.change_rule": np.zeros(0, np.int16),
            "counts.change_count": np.zeros(0, np.int16),
        }
        tracemalloc.start()
        check_data(arrays | many)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return memory

    few, many = 2_000, 10_000
    assert peak(many) < peak(few) + (many - few) * 100


def number(value: float, at: Any = -1) -> Callable[[np.ndarray], None]:
    """Sets one element."""

    def change(array: np.ndarray) -> None:
        array[at] = value

    return change


def swapped(array: np.ndarray) -> None:
    array[[1, 2]] = array[[2, 1]]


def word_of_pair(field: str, value: int) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        kind = np.dtype([("word", "<i4"), ("pair", "<i4"), ("low", "<i2"), ("high", "<i2")])
        array.view(kind)[field][0] = value

    return change


def full(array: np.ndarray) -> None:
    """No slot of a hash table is empty: a search for what is not there does not end."""
    keys = array["key"] if array.dtype.names else array
    keys[keys == 0] = 1


BROKEN = [
    ("data.npz", "types.source_ptr", number(10**6)),
    ("data.npz", "types.source_ptr", number(-1, 0)),
    ("data.npz", "types.source_ptr", swapped),
    ("data.npz", "types.target_ptr", number(10**6, 1)),
    ("data.npz", "types.align_ptr", number(0)),
    ("data.npz", "types.lhs", number(99)),
    ("data.npz", "types.source", number(-100)),
    ("data.npz", "types.source", number(10**6)),
    ("data.npz", "types.target", number(-3)),
    ("data.npz", "types.target", number(-2, 0)),
    ("data.npz", "types.align", number(20, (0, 0))),
    ("data.npz", "types.align", number(-1, (0, 1))),
    ("data.npz", "rules.type", number(10**6)),
    ("data.npz", "rules.score_row", number(-1)),
    ("data.npz", "rules.score_ptr", number(10**6, 1)),
    ("data.npz", "rules.score_index", number(50)),
    ("data.npz", "grammar_ptr", number(10**6)),
    ("data.npz", "train.source_ptr", number(10**6, 1)),
    ("data.npz", "train.source", number(10**6)),
    ("data.npz", "train.grammar", number(1)),
    ("data.npz", "train.first_reference", number(10**6)),
    ("data.npz", "devtest.reference_ptr", swapped),
    ("data.npz", "devtest.reference", number(-1)),
    ("data.npz", "words.ptr", number(10**6)),
    ("data.npz", "words.text", number(0xFF)),
    ("data.npz", "categories.ptr", number(-5, 1)),
    ("lm-0.npz", "word_ptr", number(10**6)),
    ("lm-0.npz", "word_slot", number(10**6)),
    ("lm-0.npz", "word_slot", full),
    ("lm-0.npz", "node", full),
    ("lm-0.npz", "order_bos_eos", number(10**6, 0)),
    ("lm-0.npz", "order_bos_eos", number(900, 1)),
    ("data.npz", "types.side", number(10**6)),
    ("data.npz", "types.target_side", number(-1)),
    ("data.npz", "types.alignment", number(10**6)),
    (EXTRACTED, "types.alignment", number(-1)),
    (EXTRACTED, "counts.rule_ptr", number(10**6, 1)),
    (EXTRACTED, "counts.lexical", number(10**6)),
    (EXTRACTED, "counts.grammar_ptr", swapped),
    (EXTRACTED, "counts.entry_side", number(10**6)),
    (EXTRACTED, "counts.entry_changes", number(7)),
    (EXTRACTED, "counts.change_ptr", number(10**6)),
    ("extracted/bitext.npz", "texts.source_ptr", number(1, 1)),
    ("extracted/bitext.npz", "texts.source", word_of_pair("word", 10**6)),
    ("extracted/bitext.npz", "texts.source", word_of_pair("word", -1)),
    ("extracted/bitext.npz", "texts.source", word_of_pair("pair", 3)),
    ("extracted/bitext.npz", "texts.source", word_of_pair("high", 100)),
    ("extracted/bitext.npz", "texts.target_ptr", number(10**6)),
    ("extracted/bitext.npz", "texts.link", number(90, (0, 0))),
    ("extracted/bitext.npz", "source_words", number(10**6, 0)),
    ("extracted/bitext.npz", "occurrence", number(10**6)),
    ("extracted/bitext.npz", "occurrence", number(0)),
    ("extracted/bitext.npz", "word_ptr", number(10**6, 1)),
    ("extracted/bitext.npz", "lexicon.ptr", number(10**6)),
    ("extracted/bitext.npz", "lexicon.word", number(-1)),
    ("extracted/bitext.npz", "place", number(10**6)),
]


@pytest.mark.parametrize(("name", "array", "change"), BROKEN, ids=[f"{n}-{row[1]}" for n, row in enumerate(BROKEN)])
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_numbers_that_point_outside_are_refused(
    store: Path,
    name: str,
    array: str,
    change: Callable[[np.ndarray], None],
    piece: int,
    small_pieces: Callable[[int], None],
) -> None:
    small_pieces(piece)
    arrays = open_arrays(store / name)
    change(arrays[array])
    with pytest.raises(ValueError):
        CHECKS[name](arrays)


@pytest.mark.parametrize("name", list(CHECKS))
def test_arrays_of_other_types_and_sizes_are_refused(store: Path, name: str) -> None:
    arrays = open_arrays(store / name)
    for array in arrays:
        without = {other: values for other, values in arrays.items() if other != array}
        shorter = arrays | {array: arrays[array][:-1]}
        wider = arrays | {array: np.zeros(len(arrays[array]), np.complex128)}
        # A hash table of words may have any number of slots.
        for changed in (without, wider) if array == "word_slot" else (without, shorter, wider):
            with pytest.raises((ValueError, KeyError, TypeError)):
                CHECKS[name](changed)


def test_occurrences_that_are_not_sorted_are_refused(store: Path) -> None:
    arrays = open_arrays(store / "extracted/bitext.npz")
    ptr, occurrence = arrays["word_ptr"], arrays["occurrence"]
    frequent = int(np.argmax(np.diff(ptr)))
    rows = slice(ptr[frequent], ptr[frequent + 1])
    occurrence[rows] = occurrence[rows][::-1].copy()
    with pytest.raises(ValueError, match="occurrences in ascending order"):
        check_bitext(arrays)


def test_a_cycle_of_unary_rules_is_refused(store: Path) -> None:
    arrays = open_arrays(store / "data.npz")
    first = int(arrays["types.source_ptr"][np.flatnonzero(np.diff(arrays["types.source_ptr"]) == 1)[0]])
    arrays["types.source"][first] = -1 - PHRASE
    side = int(np.searchsorted(arrays["types.source_ptr"], first))
    arrays["types.target"] = np.append(arrays["types.target"], np.int32(-1))
    arrays["types.target_ptr"] = np.append(arrays["types.target_ptr"], len(arrays["types.target"]))
    arrays["types.target_side"][arrays["types.side"] == side] = len(arrays["types.target_ptr"]) - 2
    with pytest.raises(ValueError, match="no cycle of unary rules"):
        check_data(arrays)


def test_a_forged_file_is_named_and_built_anew(sources: StoreInputs, tmp_path: Path) -> None:
    build(sources, tmp_path)
    path = tmp_path / "data.npz"
    whole = path.read_bytes()
    arrays = open_arrays(path)
    arrays["rules.type"][0] = 10**6
    write_arrays(path, arrays, read_manifest(path))
    with pytest.raises(DataError, match=r"data\.npz: found a damaged or missing store \(expected numbers from 0"):
        open_store(sources, tmp_path)
    assert build(sources, tmp_path) == ["data.npz"]
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ptr", [0, 3, 2]),
        ("ptr", [0, 1]),
        ("node", [0, -1]),
        ("prob", [0.5, -1]),
        ("prob", [np.nan, -1]),
        ("prob", [-1]),
    ],
)
def test_what_leaving_out_changes_is_checked(name: str, value: list[float]) -> None:
    arrays = {
        "ptr": np.array([0, 1, 2]),
        "node": np.array([7, 9], dtype=np.int32),
        "prob": np.array([-np.inf, -0.5], dtype=np.float32),
        "references": np.array([1, 2]),
        "covered": np.array([1.0]),
    }
    check_own_ngrams(arrays)
    with pytest.raises(ValueError, match="expected"):
        check_own_ngrams(arrays | {name: np.array(value, dtype=arrays[name].dtype)})


def test_what_is_left_out_must_be_of_the_model_and_the_sentences(sources: StoreInputs, tmp_path: Path) -> None:
    assert sources.train is not None
    known = replace(sources, lm_texts=((sources.train.references[0],),))
    build(known, tmp_path)
    own = tmp_path / "lm-0-own.npz"
    arrays = {name: np.array(array) for name, array in open_arrays(own).items()}
    manifest = read_manifest(own)
    assert len(arrays["node"])
    [(lm, _)] = open_store(known, tmp_path).model.lms
    last = np.full(len(arrays["node"]), len(lm.node) - 1, np.int32)
    for changed, expected in (
        ({"node": last}, None),
        ({"node": last + 1}, "n-grams of the language model"),
        ({"ptr": np.append(arrays["ptr"], arrays["ptr"][-1])}, "rows of 26 sentences"),
    ):
        write_arrays(own, arrays | changed, manifest)
        with nullcontext() if expected is None else pytest.raises(DataError, match=f"lm-0-own.npz: .*{expected}"):
            open_store(known, tmp_path)


def test_a_damaged_file_of_what_is_left_out_is_built_again(sources: StoreInputs, tmp_path: Path) -> None:
    assert sources.train is not None
    known = replace(sources, lm_texts=((sources.train.references[0],),))
    assert build(known, tmp_path) == ["data.npz", "lm-0.npz", "lm-0-own.npz"]
    own = tmp_path / "lm-0-own.npz"
    sound = own.read_bytes()
    own.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    with pytest.raises(DataError, match="lm-0-own.npz: found a damaged or missing store"):
        open_store(known, tmp_path)
    assert build(known, tmp_path) == ["lm-0-own.npz"]
    assert own.read_bytes() == sound and open_store(known, tmp_path).own_ngrams[0] is not None
