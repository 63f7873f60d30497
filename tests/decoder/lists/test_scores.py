"""Files of further features, a line for each entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpitune.decoder.lists.scores import ScoreFiles
from mpitune.decoder.lists.stream import read_lists
from mpitune.errors import DataError


def read(folder: Path, scores: str, *entries: str) -> list[dict[str, float]]:
    (folder / "scores").write_text(scores)
    (folder / "lists").write_text("".join(f"{entry}\n" for entry in entries))
    files = ScoreFiles({"lm": folder / "scores"})
    lists = list(read_lists([folder / "lists"], files.add_to))
    files.check_ends()
    return [entry.features for _, entries_of_one in lists for entry in entries_of_one]


def test_a_number_for_each_entry(tmp_path: Path) -> None:
    found = read(tmp_path, "-1.5\n2\n 3e1 \n", "0 ||| a ||| p=1", "0 ||| b |||", "1 ||| a ||| p=2")
    assert found == [{"p": 1.0, "lm": -1.5}, {"lm": 2.0}, {"p": 2.0, "lm": 30.0}]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ("1\n", "scores: found 1 line, expected 2 or more, one for each entry"),
        ("1\n2\n3\n", "scores: found further lines, expected 2, one for each entry"),
        ("1\nx\n", "scores:2: found 'x', expected a number from -1e30 to 1e30"),
        ("1\n1_0\n", "scores:2: found '1_0', expected a number from -1e30 to 1e30"),
        ("1\n\u0661\n", "scores:2: found '\u0661', expected a number from -1e30 to 1e30"),
        ("1\n1e300\n", "scores:2: found '1e300', expected a number from -1e30 to 1e30"),
        ("1\nnan\n", "scores:2: found 'nan', expected a number from -1e30 to 1e30"),
    ],
)
def test_bad_files(tmp_path: Path, scores: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, scores, "0 ||| a ||| p=1", "0 ||| b ||| p=1")
    assert str(error.value) == f"{tmp_path}/{said}"


def test_a_feature_of_the_lists(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lists:1: found feature lm, expected none, as .*scores has its values"):
        read(tmp_path, "1\n", "0 ||| a ||| lm=1")
