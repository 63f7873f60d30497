"""Entries of n-best lists: formats, and malformed lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mpitune.decoder.lists.formats import Entry, ListReader
from mpitune.errors import DataError

FEATURES = {"lm": -1.5, "tm_0": 1.0, "tm_1": 0.25, "R:a=b": 1e-3}
CDEC = "7 ||| the  house\t. ||| lm=-1.5 tm_0=1 tm_1=0.25 R:a=b=1e-3 ||| -3.5"
MOSES = "7 ||| the house . ||| lm= -1.5 tm= 1 0.25 R:a=b= 1e-3 ||| -3.5 ||| 0-0"
JSON = json.dumps({"id": 7, "text": "the house .", "features": FEATURES, "score": None})


def read(path: Path, *lines: str) -> list[tuple[int, int, list[str], dict[str, float]]]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [entry[:4] for entry in ListReader().entries(path)]


@pytest.mark.parametrize("line", [CDEC, MOSES, JSON], ids=["cdec", "moses", "json"])
def test_an_entry_of_each_format(tmp_path: Path, line: str) -> None:
    assert read(tmp_path / "lists", line, line) == [(n, 7, ["the", "house", "."], FEATURES) for n in (1, 2)]


def test_names_of_moses_with_one_value_each(tmp_path: Path) -> None:
    lines = ["0 ||| a ||| lm= 1 d= 2 ||| 0", "0 ||| b ||| d= 3 ||| 0"]
    assert [entry[3] for entry in read(tmp_path / "lists", *lines)] == [{"lm": 1.0, "d": 2.0}, {"d": 3.0}]


def test_entries_without_words_or_features(tmp_path: Path) -> None:
    assert read(tmp_path / "lists", "0 ||| ||| a= 1", "0 ||| b |||  ||| 0") == [
        (1, 0, [], {"a": 1.0}),
        (2, 0, ["b"], {}),
    ]
    assert read(tmp_path / "lists", '{"id": 0, "text": ""}') == [(1, 0, [], {})]


def test_the_first_entry_with_features_tells_the_format(tmp_path: Path) -> None:
    lines = ["0 ||| a |||  ||| 0", "0 ||| b ||| lm= 1 d= 2 ||| 0"]
    assert [entry[3] for entry in read(tmp_path / "lists", *lines)] == [{}, {"lm": 1.0, "d": 2.0}]


@pytest.mark.parametrize(
    ("line", "features", "skipped"),
    [
        ("0 ||| a b ||| 0-0 1-1 ||| F0= -1.5 ||| -0.75", {"F0": -1.5}, ["0-0 1-1"]),
        ("0 ||| a b ||| 0-0 1-1 ||| F0=-1.5 Score=-2", {"F0": -1.5, "Score": -2.0}, ["0-0 1-1"]),
        ("0 ||| ||| ||| F0= -1.5 ||| -1.5", {"F0": -1.5}, []),
        ("0 ||| a b ||| 0.5,0.25 1,0 ||| F0= -1.5 ||| -0.75", {"F0": -1.5}, ["0.5,0.25 1,0"]),
        ("0 ||| a b ||| WordScores= -1 -0.5 ||| F0= -1.5 ||| -0.75", {"F0": -1.5}, ["WordScores= -1 -0.5"]),
        ("0 ||| a b ||| WordScores= -1 -2 -3 ||| F0=-1.5 ||| -0.75", {"F0": -1.5}, ["WordScores= -1 -2 -3"]),
        ("0 ||| ab ||| Parts= -1 -2 -3 -4 -5 ||| F0= -1.5 F1= 2", {"F0": -1.5, "F1": 2.0}, ["Parts= -1 -2 -3 -4 -5"]),
        ("0 ||| a ||| WordScores= -1 ||| F0= -1.5 ||| -1.5", {"F0": -1.5}, ["WordScores= -1"]),
        ("0 ||| ||| WordScores= -1 ||| F0= -1.5 ||| -1.5", {"F0": -1.5}, ["WordScores= -1"]),
        ("0 ||| a b ||| 0-0 ||| W= -1 -0.5 ||| F0= -1.5 ||| -0.75", {"F0": -1.5}, ["0-0", "W= -1 -0.5"]),
        ("0 ||| a b ||| F0= -1.5 ||| -0.75 ||| WordScores= -1 -0.5", {"F0": -1.5}, ["WordScores= -1 -0.5"]),
        ("0 ||| a b ||| -0.75 ||| F0=-1.5", {"F0": -1.5}, ["-0.75"]),
        ("0 ||| a b ||| F0= -1.5 ||| -0.75 ||| seconds= 3", {"F0": -1.5}, ["seconds= 3"]),
        ("0 ||| a b ||| tm= 1 2 F0= -1.5 ||| -1 ||| 0-0", {"tm_0": 1.0, "tm_1": 2.0, "F0": -1.5}, []),
        ("0 ||| a b ||| WordScores= -1 -0.5 ||| -0.75", {"WordScores_0": -1.0, "WordScores_1": -0.5}, []),
    ],
)
def test_other_programs_write_further_fields(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, features: dict[str, float], skipped: list[str]
) -> None:
    """Their links and scores of words are no features, which is said once."""
    assert [entry[3] for entry in read(tmp_path / "lists", "0 ||| a ||| ||| |||", *[line] * 3)] == [{}, *[features] * 3]
    fields = [text.strip() for text in line.split("|||")]
    told = " and ".join(f"field {fields.index(text) + 1}, {text!r}" for text in skipped)
    assert [message.partition(", and not from ")[2] for message in caplog.messages] == ([told] if told else [])


def test_marks_of_phrases_are_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for marked in ("the house |0-1| is |2-2|", "the house |0-1,wa=0-0 1-1 ,total=-3| is |2-2,wa=0-0|"):
        caplog.clear()
        assert len(read(tmp_path / "lists", *[f"0 ||| {marked} ||| lm= -1 ||| 0"] * 3)) == 3
        [said] = caplog.messages
        assert "lists: hypotheses have marks of phrases, such as |0-1" in said and ", which count as words: set" in said
    caplog.clear()
    read(tmp_path / "lists", "0 ||| x|0-1| |0-1 |a-b| || 0-1 ||| lm= -1 ||| 0 ||| 0-0 1-1")
    assert not caplog.messages


def test_gzipped(tmp_path: Path) -> None:
    (tmp_path / "lists.gz").write_bytes(gzip.compress(f"{CDEC}\n".encode()))
    assert [entry.text for entry in ListReader().entries(tmp_path / "lists.gz")] == [CDEC]


def test_escapes_of_json(tmp_path: Path) -> None:
    [entry] = read(tmp_path / "lists", r'{"id": 0, "text": "\"a\" \u00e4\tb", "features": {"x\\y": 1}}')
    assert entry[2:] == (['"a"', "ä", "b"], {"x\\y": 1.0})


def test_line_ends_tabs_and_a_byte_order_mark(tmp_path: Path) -> None:
    for text in (MOSES, CDEC):
        (tmp_path / "lists").write_bytes(f"\ufeff{text}\n{text}\n".replace("\n", "\r\n").replace(" ", "\t").encode())
        (tmp_path / "plain").write_text(f"{text}\n{text}\n")
        found, plain = (list(ListReader().entries(tmp_path / name)) for name in ("lists", "plain"))
        assert [entry[:5] for entry in found] == [entry[:5] for entry in plain]


def test_a_truncated_gzip_file_is_read_up_to_its_damage(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"{i} ||| a ||| lm={1 / (i + 3)}\n" for i in range(60_000)).encode())
    (tmp_path / "lists.gz").write_bytes(packed[: len(packed) // 2])
    entries: list[Entry] = []
    with pytest.raises(DataError, match="damaged gzip data") as error:
        entries.extend(ListReader().entries(tmp_path / "lists.gz"))
    assert f"lists.gz:{len(entries) + 1}: " in str(error.value) or not entries


def test_spaces_of_unicode_are_parts_of_names(tmp_path: Path) -> None:
    [entry] = read(tmp_path / "lists", "0 ||| a\u00a0b ||| R:\u3000=1 x=2 ||| 0")
    assert entry[2:] == (["a\u00a0b"], {"R:\u3000": 1.0, "x": 2.0})


@pytest.mark.parametrize("line", [CDEC, MOSES, JSON], ids=["cdec", "moses", "json"])
def test_a_file_whose_lines_end_with_carriage_returns(tmp_path: Path, line: str) -> None:
    (tmp_path / "lists").write_bytes(f"{line}\r{line}\r".encode())
    with pytest.raises(DataError, match="lists:1: found a carriage return within a line, expected"):
        list(ListReader().entries(tmp_path / "lists"))


@pytest.mark.parametrize(
    "first, bad, found",
    [
        (CDEC, "0 ||| a", "found 2 fields, expected number"),
        (CDEC, "", "found 1 field, expected number"),
        (CDEC, "-1 ||| a ||| lm=1", "found '-1', expected the number of a sentence, from 0"),
        (CDEC, f"{'9' * 5000} ||| a ||| lm=1", f"found '{'9' * 60}', expected the number of a sentence, from 0"),
        (CDEC, "0 ||| a ||| lm=1 tm", "found 'tm', expected name=value"),
        (CDEC, "0 ||| a ||| lm= 1", "found '1', expected name=value"),
        (CDEC, "0 ||| a ||| lm 1=tm=2", "found 'lm', expected name=value"),
        (CDEC, "0 ||| a ||| lm=x", "found value 'x' of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "0 ||| a ||| d=1 lm=nan", "found value nan of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "0 ||| a ||| d=1 lm=-inf", "found value -inf of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "0 ||| a ||| lm=1e300", "found value 1e+300 of lm, expected a number from -1e30 to 1e30"),
        (MOSES, "0 ||| a ||| lm= -1.1e30", "found value -1.1e+30 of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "0 ||| a ||| d=1 lm=1_0", "found value '1_0' of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "0 ||| a ||| lm=\u0661", "found value '\u0661' of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "0 ||| a ||| lm=\u00a01", "found value '\\xa01' of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "0 ||| a ||| lm=1\x0b", "found value '1\\x0b' of lm, expected a number from -1e30 to 1e30"),
        (MOSES, "0 ||| a ||| lm= 1_0 tm= 1 2", "found value '1_0' of lm, expected a number from -1e30 to 1e30"),
        (MOSES, "0 ||| a ||| lm= 1 tm= 1 \uff11", "found value '1 \uff11' of tm, expected a number from -1e30 to 1e30"),
        ("0 ||| a ||| lm= 1", "0 ||| a ||| lm= 1_0", "found value '1_0' of lm, expected a number from -1e30 to 1e30"),
        (CDEC, "\u0661 ||| a ||| lm=1", "found '\u0661', expected the number of a sentence, from 0"),
        (CDEC, "0 ||| a ||| lm=1\r1 ||| b ||| lm=2", "found a carriage return within a line, expected lines that end"),
        (JSON, '{"id": 0, "text": "", "features": {"lm": 1e300}}', "found value 1e+300 of lm, expected a number from"),
        (CDEC, "0 ||| a ||| lm=1 lm=2", "found a second value of lm, expected each name once"),
        (CDEC, JSON, "found 1 field, expected number"),
        (MOSES, "0 ||| a ||| lm= 1 tm= 1 2 3", "found 3 values of tm, expected 2, as in the first entry that has it"),
        (MOSES, "0 ||| a ||| lm= 1 tm= 1 x", "found value '1 x' of tm, expected a number from -1e30 to 1e30"),
        (MOSES, "0 ||| a ||| tm= lm= 1", "found 0 values of tm, expected 2"),
        (MOSES, "0 ||| a ||| new= lm= 1", "found no value of new, expected name= value ..."),
        (MOSES, "0 ||| a ||| lm= 1 lm= 1", "found a second value of lm, expected each name once"),
        (MOSES, "0 ||| a ||| lm=1 tm=2", "found 'lm=1 tm=2', expected name= value ..."),
        (
            "0 ||| a ||| 0-0 ||| F0= -1",
            "0 ||| a ||| 0-0",
            "found 3 fields, expected features in field 4, as in the first",
        ),
        ("0 ||| a ||| 0-0 ||| F0= -1", "0 ||| a ||| F0= -1 ||| -2", "found '-2', expected name= value ..."),
        ("0 ||| a ||| F0= -1 ||| -1", "0 ||| a ||| 0-0 ||| F0= -1", "found '0-0', expected name= value ..."),
        (CDEC, "0 ||| a ||| b=1 c=2 c=3 b=4", "found a second value of b, expected each name once"),
        ("0 ||| a ||| lm= 1", "0 ||| a ||| lm= 1 2", "found 2 values of lm, expected 1"),
        (JSON, "{", "found no JSON (Expecting property name"),
        (JSON, "[1]", "found no JSON object, expected "),
        (JSON, '{"id": true, "text": ""}', "found id true, expected the number of a sentence, from 0"),
        (JSON, '{"id": 9999999999999999999, "text": ""}', "found id 9999999999999999999, expected the number of"),
        (JSON, "[" * 100_000, "found no JSON (maximum recursion depth exceeded"),
        (JSON, '{"id": 0, "text": "a\\nb"}', r"found the character '\n' in 'a\nb', expected neither line ends nor NUL"),
        (JSON, '{"id": 0, "text": "\\u0000"}', r"found the character '\x00' in"),
        (JSON, '{"id": 0, "text": "\\ud800"}', r"found the character '\ud800' in"),
        (JSON, '{"id": 0, "text": "", "features": {"\\udc00": 1}}', r"found the character '\udc00' in"),
        (
            JSON,
            '{"id": 0, "text": "", "features": {"lm": 1, "lm": 2}}',
            "found a second value of lm, expected each name once",
        ),
        (JSON, '{"id": 0}', "found text null, expected a string"),
        (JSON, '{"id": 0, "text": "", "features": [1]}', "found features [1], expected an object of names and numbers"),
        (
            JSON,
            '{"id": 0, "text": "", "features": {"lm": "1"}}',
            'found value "1" of lm, expected a number from -1e30 to 1e30',
        ),
        (
            JSON,
            '{"id": 0, "text": "", "features": {"lm": NaN}}',
            "found value nan of lm, expected a number from -1e30 to 1e30",
        ),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, first: str, bad: str, found: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path / "lists", first, bad)
    assert str(error.value).startswith(f"{tmp_path / 'lists'}:2: {found}")
