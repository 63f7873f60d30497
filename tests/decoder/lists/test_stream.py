"""Lists read one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpitune.decoder.lists.notation import AS_FOUND
from mpitune.decoder.lists.stream import all_lists, line_with_score, model_score, read_lists
from mpitune.errors import DataError


def write(path: Path, *entries: str) -> Path:
    path.write_text("".join(f"{entry}\n" for entry in entries))
    return path


def test_lists_of_several_files_are_merged(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "0 ||| x ||| p=1 q=1", "0 ||| x ||| p=2", "2 ||| y ||| p=3")
    second = write(tmp_path / "b", "0 ||| z ||| r=4", "0 ||| x ||| p=5 r=6", "1 ||| y ||| r=7", "2 ||| y ||| p=8")
    found = [(number, [(e.words, e.features) for e in entries]) for number, entries in read_lists([first, second])]
    assert found == [
        (0, [(["x"], {"p": 1.0, "q": 1.0, "r": 6.0}), (["z"], {"r": 4.0})]),
        (1, [(["y"], {"r": 7.0})]),
        (2, [(["y"], {"p": 3.0})]),
    ]


def test_of_equal_hypotheses_the_best_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those of one file, at the place of the first; a file that is better as a whole changes no other one."""
    caplog.set_level("INFO")
    first = write(tmp_path / "a", "0 ||| x ||| p=1", "0 ||| y ||| p=3", "0 ||| x ||| p=4 q=1", "0 ||| x ||| p=4 q=2")
    second = write(tmp_path / "b", "0 ||| x ||| p=9 r=5")
    for score, features in ((None, {"p": 1.0, "r": 5.0}), (lambda e: e.features["p"], {"p": 4.0, "q": 1.0, "r": 5.0})):
        caplog.clear()
        [(_, entries)] = read_lists([first, second], score=score)
        assert [(e.words, e.features) for e in entries] == [(["x"], features), (["y"], {"p": 3.0})]
        rule = "that with the largest score counts" if score else "the first counts"
        assert caplog.messages == [
            f"{first}, {second}: 2 hypotheses are equal to others in their lists: of these, {rule}"
        ]


def test_lists_that_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "1 ||| x ||| p=1", "3 ||| x ||| p=1")
    for count, numbers in ((None, 4), (4, 4), (6, 6)):
        lists = read_lists([path], notation=AS_FOUND._replace(sentences=count))
        assert [(n, len(entries)) for n, entries in all_lists(lists, count)] == [
            (n, n in (1, 3)) for n in range(numbers)
        ]
    with pytest.raises(DataError, match="a:2: found number 3, expected at most 2, as there are 3 sentences"):
        list(read_lists([path], notation=AS_FOUND._replace(sentences=3)))


def test_numbers_ascend(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "3 ||| x ||| p=1", "2 ||| x ||| p=1")
    with pytest.raises(DataError, match="a:2: found number 2, expected at least 3"):
        list(read_lists([path]))


def test_scores_do_not_depend_on_the_order_of_features(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "0 ||| x ||| a=1 b=1e16 c=-1e16", "0 ||| y ||| b=1e16 c=-1e16 a=1 unknown=3")
    [(_, entries)] = read_lists([path])
    assert [model_score(entry, {"a": 0.5, "b": 1.0, "c": 1.0}) for entry in entries] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("line", "with_score"),
    [
        ("0 ||| x y ||| p= 1 ||| -3", "0 ||| x y ||| p= 1 ||| 0.25"),
        ("0 ||| x y ||| p=1", "0 ||| x y ||| p=1 ||| 0.25"),
        ("0 ||| x y ||| p=1 ||| -3 ||| 0-0", "0 ||| x y ||| p=1 ||| 0.25 ||| 0-0"),
        ("0 ||| x y ||| 0-0 1-1 ||| p= 1 ||| -3", "0 ||| x y ||| 0-0 1-1 ||| p= 1 ||| 0.25"),
        ("0 ||| x y ||| W= 1 2 ||| p=1", "0 ||| x y ||| W= 1 2 ||| p=1 ||| 0.25"),
    ],
)
def test_a_line_keeps_its_format(tmp_path: Path, line: str, with_score: str) -> None:
    [(_, [entry])] = read_lists([write(tmp_path / "a", line)])
    assert line_with_score(entry, 0.25) == with_score


def test_an_object_keeps_its_keys(tmp_path: Path) -> None:
    line = {"id": 0, "text": "für", "features": {}, "origin": "nmt"}
    [(_, [entry])] = read_lists([write(tmp_path / "a", json.dumps(line))])
    assert json.loads(line_with_score(entry, 0.25)) == line | {"score": 0.25} and "ü" in line_with_score(entry, 0.25)
