"""The compiled reader against the reader of single lines: same entries, same numbers, same errors."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.lists.compiled_reader import CompiledReader, FeatureNumbers
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.formats.line_format import LineFormat
from mpitune.errors import DataError

pytestmark = pytest.mark.kernel

SENTENCES = 30
Result = tuple[list[tuple[object, ...]], list[str], list[str], str]


def result(path: Path, *, plain: bool) -> Result:
    """The entries, words and features of a file, the rows by their bits; the error, if any."""
    words, features = Vocabulary(), FeatureNumbers()
    rows: list[tuple[object, ...]] = []
    try:
        for entries in CompiledReader(words, features).read(path, SENTENCES, below_sentences, plain=plain):
            for j, sentence in enumerate(entries.sentence.tolist()):
                word = slice(*entries.word_ptr[j : j + 2])
                row = slice(*entries.feature_ptr[j : j + 2])
                arrays = entries.word[word], entries.feature[row], entries.value[row]
                rows.append((sentence, *((array.dtype.str, array.tobytes()) for array in arrays)))
    except DataError as error:
        return [], [], [], str(error)
    return rows, words.words, list(features), ""


def below_sentences(entry: Entry) -> bool:
    return entry.sentence < SENTENCES


def same(*lines: str) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists"
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        expected = result(path, plain=False)
        assert result(path, plain=True) == expected
    return expected


NUMBER = st.sampled_from(
    ["1", "-0", "2.5", "1e-3", "0.1000000000000000055511151231257827", "-7.3212345678901234", "1e30", "1e308", "1e309"]
    + ["nan", "-inf", "1_0", "\u0661", "\u00a01", "1\x0b", "x", "", "+", "1e", "0x1"]
)
NAME = st.sampled_from(["lm", "tm", "tm_0", "tm_1", "R:a=b", "\u00fc", "#c", "a\u3000b", "=", ""])
TEXT = st.lists(st.sampled_from(["a", "b", "lm", "lm=", "||", "||||", "\u00a0", "\v"]), max_size=4).map(" ".join)
LIST = st.sampled_from(["0", "1", "2", "29", "30", "07", "-1", "", "1 2", "\u0661", "9" * 19, "0" * 19])
BLANKS = st.sampled_from([" ", " ", "\t", "  ", ""])


BEFORE = st.sampled_from(["0-0 1-1", "0.5,0.5", "", "-3.5", "W= 1 2", "W= 1", "x=1", "W= 1 V= 2", "x=y", "= 1"])
"""Fields before that of the features."""


@st.composite
def files(draw: st.DrawFn) -> list[str]:
    moses, before = draw(st.booleans()), draw(st.lists(BEFORE, max_size=2))
    written = [draw(lines(moses)).split(" ||| ") for _ in range(draw(st.integers(0, 6)))]
    own = st.sampled_from([before, before, before, [], ["0-0"]])
    return [" ||| ".join([*fields[:2], *(draw(own) if before else []), *fields[2:]]) for fields in written]


@st.composite
def lines(draw: st.DrawFn, moses: bool) -> str:
    good = draw(st.booleans())
    if good:
        values = st.floats(-1e9, 1e9).map(repr) | st.floats(-9, 9).map("{:.4f}".format)
        names = draw(st.lists(st.sampled_from(["lm", "tm", "R:a=b", "s1", "s2"]), unique=True))
        pairs = [(name, draw(st.lists(values, min_size=n, max_size=n))) for name in names for n in [1 + (name == "tm")]]
        fields = [draw(st.sampled_from("01234")), draw(TEXT), " ".join(written(pairs, moses)), "0"]
        return " ||| ".join(fields)
    pairs = draw(st.lists(st.tuples(NAME, st.lists(NUMBER, max_size=3)), max_size=4))
    fields = [draw(LIST), draw(TEXT), draw(BLANKS).join(written(pairs, moses)), draw(TEXT), draw(TEXT)]
    separator = f"{draw(BLANKS)}|||{draw(BLANKS)}"
    return separator.join(fields[: draw(st.integers(1, 5))]) + draw(st.sampled_from(["", "", "\r", " \r"]))


def written(pairs: list[tuple[str, list[str]]], moses: bool) -> list[str]:
    if moses:
        return [f"{name}= {' '.join(values)}" for name, values in pairs]
    return [f"{name}={value}" for name, values in pairs for value in values[:1]]


@given(files())
@example(["0 ||| a ||| tm= 1 2 lm= 1", "0 ||| b ||| tm_0= 1 tm= 2 3"])
@example(["0 ||| a ||| tm_1= 2 lm= 1", "0 ||| b ||| tm= 2 3 tm_1= 1"])
@example(["0 ||| a ||| lm= 1 lm= 2"])
@example(["0 ||| a ||| x=1 y=2 x=2"])
@example(["0 ||| a ||| #c=1", "0"])
@example(["0 ||| a b ||| 0-0 ||| lm= 1", "0 ||| c ||| ||| lm= 2 tm= 1 2 ||| 0", "1 ||| a ||| 0-0 |||", "1 ||| a"])
@example(["0 ||| a b ||| W= 1 2 ||| lm=1 ||| 0", "0 ||| a |||  ||| lm=2", "0 ||| a ||| W= 1 2"])
def test_any_file_is_read_as_line_by_line(given_lines: list[str]) -> None:
    same(*given_lines)


@given(st.lists(st.floats(-1e12, 1e12).map(repr) | st.decimals(-10, 10, allow_nan=False).map(str), max_size=20))
def test_any_number_is_rounded_as_by_python(numbers: list[str]) -> None:
    same("0 ||| a ||| " + " ".join(f"f{n}={number}" for n, number in enumerate(numbers)))


@pytest.mark.parametrize("equals", ["= ", "="])
def test_usual_lines_need_no_reader_of_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, equals: str) -> None:
    group = " tm= 1 2.5 -3e2" if equals == "= " else ""
    rows = [f"{i} ||| a b{i} ||| lm{equals}{-i / 7!r} R:x=y{i}{equals}1{group} ||| -3 ||| 0-0\r" for i in range(20)]
    rows += ["3 ||| ||| ||| 0", "4 ||| \u00fc\t. |||"]
    expected = same(*rows)
    assert len(expected[0]) == 22 and not expected[3]
    (tmp_path / "lists").write_text("".join(f"{row}\n" for row in rows), newline="")
    monkeypatch.delattr(LineFormat, "entry")
    assert result(tmp_path / "lists", plain=True) == expected


@pytest.mark.large
def test_the_first_features_of_a_long_file_tell_its_format(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text("0 ||| a |||\n" * 120_000 + "0 ||| b ||| tm= 1 2\n")
    last = list(CompiledReader(Vocabulary(), FeatureNumbers()).read(tmp_path / "lists", 1, below_sentences))[-1]
    assert last.value.tolist() == [1.0, 2.0]


def test_several_files_have_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0 ||| a ||| tm= 1 2\n")
    (tmp_path / "b").write_text("0 ||| a ||| tm= 1\n")
    reader = CompiledReader(Vocabulary(), FeatureNumbers())
    assert [entries.value.tolist() for entries in reader.read(tmp_path / "a", 1, below_sentences)] == [[1.0, 2.0]]
    with pytest.raises(DataError, match="b:1: found 1 value of tm, expected 2, as in the first entry that has it"):
        list(reader.read(tmp_path / "b", 1, below_sentences))


def test_a_carriage_return_is_no_feature(tmp_path: Path) -> None:
    rows, _, features, error = same("0 ||| a ||| \r", "0 ||| b ||| lm= 1 ||| 0\r")
    assert (len(rows), features, error) == (2, ["lm"], "")


def test_words_that_are_names_too(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text("0 ||| lm x lm ||| x=1 lm=2\n")
    words, features = Vocabulary(["x"]), FeatureNumbers()
    [entries] = CompiledReader(words, features).read(tmp_path / "lists", 1, below_sentences)
    assert (words.words, list(features)) == (["x", "lm"], ["x", "lm"])
    assert entries.word.tolist() == [1, 0, 1] and entries.feature.tolist() == [0, 1]
    assert np.array_equal(entries.value, [1.0, 2.0])
