"""Tests of the search for the pairs of the bitext that are tuned on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.text import read_parallel
from mpitune.errors import DataError
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.leave_one_out import found_pairs, own_pairs

BITEXT = [("a b", "x y"), ("a", "x"), ("a b", "x y"), ("a b", "z"), ("c", "x"), ("a", "x")]


def texts(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Texts:
    """Write pairs into two files."""
    for side, suffix in enumerate(("f", "e")):
        (folder / f"{name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return Texts(folder / f"{name}.f", (folder / f"{name}.e",))


def inputs(folder: Path, tuned: list[tuple[str, str]], leave_one_out: bool | None = None) -> StoreInputs:
    bitext = texts(folder, "bitext", BITEXT)
    assert bitext.source is not None
    aligned = AlignedFiles(bitext.source, bitext.references[0], ())
    return StoreInputs(train=texts(folder, "tuned", tuned), aligned=aligned, leave_one_out=leave_one_out)


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        (BITEXT, [0, 1, 2, 3, 4, 5]),
        (BITEXT[::-1], [1, 4, 3, 0, 1, 0]),
        ([("c", "x"), ("c", "y"), ("a b", "z"), ("x", "c")], [4, None, 3, None]),
    ],
)
def test_pairs_are_found_by_both_sides(
    tmp_path: Path, tuned: list[tuple[str, str]], expected: list[int | None], logged: pytest.LogCaptureFixture
) -> None:
    assert own_pairs(inputs(tmp_path, tuned)) == expected
    count = len(expected) - expected.count(None)
    (line,) = logged.messages
    assert f"tuned.f: {count} of {len(tuned)} sentences are pairs of {tmp_path / 'bitext.f'}" in line


def test_a_text_with_some_pairs_by_chance_is_not_of_the_bitext(
    tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    assert own_pairs(inputs(tmp_path, [("c", "x"), ("c", "y"), ("a", "y")])) is None
    assert own_pairs(inputs(tmp_path, [])) is None
    assert not logged.messages


def test_any_reference_will_do(tmp_path: Path) -> None:
    first, second = texts(tmp_path, "one", [("a", "q"), ("a b", "r")]), texts(tmp_path, "two", [("", "x"), ("", "y")])
    assert first.source is not None
    sentences = read_parallel(first.source, [*first.references, *second.references])
    bitext = ((source.split(), target.split()) for source, target in BITEXT)
    assert found_pairs(bitext, [sentences]) == [[1, None]]


def test_nothing_is_left_out_where_the_job_says_so(tmp_path: Path) -> None:
    assert own_pairs(inputs(tmp_path, BITEXT, leave_one_out=False)) is None


def test_with_true_the_lines_must_be_the_same(tmp_path: Path) -> None:
    assert own_pairs(inputs(tmp_path, BITEXT[:3], leave_one_out=True)) == [0, 1, 2]
    with pytest.raises(DataError, match=r"tuned.f:1: found another sentence, expected that of .*bitext.f:1"):
        own_pairs(inputs(tmp_path, BITEXT[1:], leave_one_out=True))
    with pytest.raises(DataError, match=r"tuned.f:7: found more sentences"):
        own_pairs(inputs(tmp_path, [*BITEXT, ("a", "x")], leave_one_out=True))


@pytest.mark.parametrize(("devtest", "warns"), [([("c", "x"), ("d", "x")], True), ([("c", "y")], False)])
def test_a_devtest_set_from_the_bitext_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, devtest: list[tuple[str, str]], warns: bool
) -> None:
    sources = inputs(tmp_path, [("d", "d")])
    with caplog.at_level(logging.WARNING):
        assert own_pairs(replace(sources, devtest=texts(tmp_path, "dev", devtest))) is None
    assert [f"dev.f: 1 of {len(devtest)} sentences" in message for message in caplog.messages] == [True] * warns
