"""Features of the text of entries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mpitune.decoder.lists.features import ScoreFiles, TextFeatures
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.stream import read_lists
from mpitune.errors import DataError

LEXICON = 'haus house 0.5\nhaus home 0.25\n"=; x\ndas the\n'


def fired(folder: Path, templates: list[str], text: str, source: str = "") -> dict[str, float]:
    (folder / "lexicon").write_text(LEXICON)
    entry = Entry(1, 0, text.split(), {"lm": -1.0}, {}, "")
    TextFeatures(templates, folder / "lexicon").add_to(entry, folder / "lists", source.split())
    assert entry.features.pop("lm") == -1.0
    return entry.features


def test_length(tmp_path: Path) -> None:
    assert fired(tmp_path, ["text-length"], "a b a") == {"TextLength": 3.0}
    assert fired(tmp_path, ["text-length"], "") == {}


@pytest.mark.parametrize("text", ["", "a", "a b", "a b a b a c", "a=b ; a=b ;"])
def test_ngrams_of_one_to_three_words(tmp_path: Path, text: str) -> None:
    words = text.replace("=", "_").replace(";", "_").split()
    expected = Counter(f"TN:{'_'.join(words[i:j])}" for i in range(len(words)) for j in range(i + 1, i + 4))
    expected -= Counter(f"TN:{'_'.join(words[i:])}" for i in range(len(words)) for j in range(len(words) + 1, i + 4))
    assert fired(tmp_path, ["target-ngrams"], text) == expected


def test_pairs_of_the_lexicon(tmp_path: Path) -> None:
    found = fired(tmp_path, ["lexicon-pair"], "house of the house home x", 'das haus haus "=;')
    assert found == {"LP:haus_house": 2.0, "LP:haus_home": 1.0, "LP:das_the": 1.0, 'LP:"___x': 1.0}
    assert fired(tmp_path, ["lexicon-pair"], "the house", "") == {}


def test_bad_input(tmp_path: Path) -> None:
    entry = Entry(7, 0, ["a"], {"TN:a": 1.0}, {}, "")
    with pytest.raises(DataError, match="lists:7: found feature TN:a, expected another name"):
        TextFeatures(["target-ngrams"], None).add_to(entry, tmp_path / "lists", ())
    (tmp_path / "lexicon").write_text("haus house\nhaus\n")
    with pytest.raises(DataError, match="lexicon:2: found 1 field, expected a source and a target word"):
        TextFeatures(["lexicon-pair"], tmp_path / "lexicon")


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
    assert read(tmp_path, "a-1 12.5\na-2 -3\n", "a-1 x y", "a-2") == [{"lm": 12.5}, {"lm": -3.0}], "with keys"


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ("1\n", "scores: found 1 line, expected 2 or more, one for each entry"),
        ("1\n2\n3\n", "scores: found further lines, expected 2, one for each entry"),
        ("1\nx\n", "scores:2: found 'x', expected a number from -1e30 to 1e30"),
        ("1\n1_0\n", "scores:2: found '1_0', expected a number from -1e30 to 1e30"),
        ("1\n\u0661\n", "scores:2: found '\u0661', expected a number from -1e30 to 1e30"),
        ("1\n1e300\n", "scores:2: found '1e300', expected a number from -1e30 to 1e30"),
        ("1\n1 2\n", "scores:2: found '1', expected a number alone, or after the first word of line 2 of {}/lists"),
        ("1\nnan\n", "scores:2: found 'nan', expected a number from -1e30 to 1e30"),
    ],
)
def test_bad_files(tmp_path: Path, scores: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, scores, "0 ||| a ||| p=1", "0 ||| b ||| p=1")
    assert str(error.value) == f"{tmp_path}/{said.format(tmp_path)}"


def test_a_feature_of_the_lists(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lists:1: found feature lm, expected none, as .*scores has its values"):
        read(tmp_path, "1\n", "0 ||| a ||| lm=1")
