"""Lists as their programs write them: lines of each, and what is read from them; recognised, compiled and rewritten."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.lists.compiled_reader import CompiledReader, FeatureNumbers
from mpitune.decoder.lists.formats import ListReader, read_sentences
from mpitune.decoder.lists.notation import AS_FOUND, FORMATS, Notation
from mpitune.decoder.lists.stream import line_with_score, read_lists
from mpitune.errors import DataError

Read = list[tuple[int, str, dict[str, float]]]


class Sample(NamedTuple):
    format: str
    lines: str
    read: Read
    with_score: str
    """The first entry with the score 0.25."""


def as_json(id: int, text: str, **features: float) -> str:
    return json.dumps({"id": id, "text": text, "features": features, "score": 0.25}, ensure_ascii=False)


SAMPLES = {
    "fairseq generate": Sample(
        "fairseq",
        "2020-01-01 09:00:00 | INFO | fairseq_cli.generate | loading model(s)\n"
        "S-2\tdas haus\nT-2\tthe house\n"
        "H-2\t-0.25\tthe  home\nD-2\t-0.25\tThe home\nP-2\t-0.2 -0.3\nA-2\t0-0 1-1\n"
        "H-2\t-1e-1\tthe house\nD-2\t-0.5\tThe house\nP-2\t-0.5 -0.5\n"
        "S-0\tja\nT-0\tyes\nH-0\t-0.5\t\nD-0\t-0.5\t\nP-0\t-0.5\n"
        "Generate test with beam=2: BLEU4 = 20.00\n",
        [(2, "the home", {"score": -0.25}), (2, "the house", {"score": -0.1}), (0, "", {"score": -0.5})],
        "H-2\t0.25\tthe  home",
    ),
    "sockeye --nbest-size 2 --output-type json": Sample(
        "json-lists",
        '{"sentence_id": 1, "translation": "a", "score": -0.5, "scores": [[-0.5], [-0.7]], '
        '"translations": ["a", "b c"]}\n{"sentence_id": 2, "translations": ["d"], "scores": [[-1]]}\n',
        [(0, "a", {"score": -0.5}), (0, "b c", {"score": -0.7}), (1, "d", {"score": -1.0})],
        as_json(0, "a", score=-0.5),
    ),
    "CTranslate2's results": Sample(
        "json-lists",
        '{"id": 0, "hypotheses": [["a", "b"], ["\\u00e4"]], "scores": [-1, [-2, 3]]}\n',
        [(0, "a b", {"score": -1.0}), (0, "ä", {"score_0": -2.0, "score_1": 3.0})],
        as_json(0, "a b", score=-1.0),
    ),
    "Transformers' generate": Sample(
        "json-lists",
        '{"id": 3, "sequences": ["a"], "sequences_scores": [-0.125]}\n{"id": 2, "sequences": ["b"]}\n',
        [(3, "a", {"score": -0.125}), (2, "b", {})],
        as_json(3, "a", score=-0.125),
    ),
    "a table": Sample(
        "table",
        "lm\tid\ttext\tlength%\n-2.5\t0\ta b\t2\n-3\t1\tc\t1\n",
        [(0, "a b", {"lm": -2.5, "length%": 2.0}), (1, "c", {"lm": -3.0, "length%": 1.0})],
        as_json(0, "a b", **{"lm": -2.5, "length%": 2.0}),
    ),
    "Kaldi's nbest-to-linear": Sample(
        "kaldi",
        "spk-a-1 the house\nspk-a-2\nutt7-1 yes\nutt7-2 yeah\n",
        [(0, "the house", {}), (0, "", {}), (1, "yes", {}), (1, "yeah", {})],
        as_json(0, "the house"),
    ),
    "Moses before 2012": Sample(
        "fields",
        "0 ||| the house  ||| d: 0 -0.5 lm: -20.5 tm: -1 -2 w: -3 ||| -12.3\n",
        [(0, "the house", {"d_0": 0.0, "d_1": -0.5, "lm": -20.5, "tm_0": -1.0, "tm_1": -2.0, "w": -3.0})],
        "0 ||| the house  ||| d: 0 -0.5 lm: -20.5 tm: -1 -2 w: -3 ||| 0.25",
    ),
    "Phrasal": Sample(
        "fields",
        "0 ||| a : b ||| LM: -20.5 LexR:monotone: -1e-1 TM:phrasePenalty: 2 ||| -1.5 ||| 17\n",
        [(0, "a : b", {"LM": -20.5, "LexR:monotone": -0.1, "TM:phrasePenalty": 2.0})],
        "0 ||| a : b ||| LM: -20.5 LexR:monotone: -1e-1 TM:phrasePenalty: 2 ||| 0.25 ||| 17",
    ),
    "Travatar": Sample(
        "fields",
        "0 ||| a b ||| -13.58 ||| egfp=-2.5 lm=-3 unk=1\n",
        [(0, "a b", {"egfp": -2.5, "lm": -3.0, "unk": 1.0})],
        "0 ||| a b ||| -13.58 ||| egfp=-2.5 lm=-3 unk=1 ||| 0.25",
    ),
    "Joshua": Sample(
        "fields",
        "0 ||| a b ||| tm_pt_0=-2.5 lm_0=-3 WordPenalty=-0.434 ||| -8.1\n",
        [(0, "a b", {"tm_pt_0": -2.5, "lm_0": -3.0, "WordPenalty": -0.434})],
        "0 ||| a b ||| tm_pt_0=-2.5 lm_0=-3 WordPenalty=-0.434 ||| 0.25",
    ),
}
EACH = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


def written(folder: Path, text: str) -> Path:
    (folder / "lists").write_text(text, encoding="utf-8")
    return folder / "lists"


def read(path: Path, notation: Notation = AS_FOUND) -> Read:
    return [(e.sentence, " ".join(e.words), e.features) for e in ListReader().entries(path, notation)]


def compiled(path: Path, notation: Notation = AS_FOUND, *, plain: bool = True) -> Read:
    words, names, found = Vocabulary(), FeatureNumbers(), []
    for entries in CompiledReader(words, names).read(path, 100, lambda entry: True, plain=plain, notation=notation):
        for j, sentence in enumerate(entries.sentence.tolist()):
            one = entries.between(j, j + 1)
            features = dict(zip(np.array([*names])[one.feature].tolist(), one.value.tolist(), strict=True))
            found.append((sentence, " ".join(words.decode(one.word)), features))
    return found


@EACH
def test_lines_of_other_systems(tmp_path: Path, sample: Sample) -> None:
    path = written(tmp_path, sample.lines)
    for notation in (AS_FOUND, Notation(sample.format)):
        assert read(path, notation) == sample.read
        assert compiled(path, notation) == sample.read
    first = next(ListReader().entries(path))
    assert line_with_score(first, 0.25) == sample.with_score


@EACH
def test_whatever_stands_in_a_file_is_read_or_named(sample: Sample) -> None:
    """Never a traceback; compiled as line by line, with the same error."""
    words = sorted({*sample.lines.split(" "), "", "a", "1", "nan", "|||", "x=1"})

    def outcome(path: Path, *, plain: bool) -> object:
        try:
            return compiled(path, Notation(sample.format), plain=plain)
        except DataError as error:
            return str(error)

    @settings(max_examples=20)
    @given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(words)), max_size=2))
    def alike(changes: list[tuple[int, str]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            parts = sample.lines.split(" ")
            for place, word in changes:
                parts[place % len(parts)] = word
            path = written(Path(folder), " ".join(parts))
            assert outcome(path, plain=True) == outcome(path, plain=False)

    alike()


PLAIN = "a b\nc\nd\n\ne  f\ng\n"


@pytest.mark.parametrize(
    ("notation", "lists"),
    [
        (Notation(nbest=2), ["a b", "c"] + ["d", ""] + ["e f", "g"]),
        (Notation("plain", nbest=3), ["a b", "c", "d"] + ["", "e f", "g"]),
        (Notation("plain"), ["a b", "c", "d", "e f", "g"]),
        (Notation(counts=Path("counts")), ["a b", "c", "d", "", "e f", "g"]),
    ],
)
def test_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notation: Notation, lists: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("counts").write_text("0\n4\n0\n2\n0\n")
    numbers = {0: [0, 0, 0, 1, 1], 2: [0, 0, 1, 1, 2, 2], 3: [0, 0, 0, 1, 1, 1]}[notation.nbest]
    if notation.counts:
        numbers = [1, 1, 1, 1, 3, 3]
    path = written(tmp_path, PLAIN)
    expected = [(number, text, {}) for number, text in zip(numbers, lists, strict=True)]
    assert read(path, notation) == compiled(path, notation) == expected
    count = 5 if notation.counts else numbers[-1] + 1
    assert read(path, notation._replace(sentences=count)) == expected
    with pytest.raises(
        DataError, match=f"lists: found {count} lists, expected 9, one for each sentence, as they have no"
    ):
        compiled(path, notation._replace(sentences=9))


@pytest.mark.parametrize(
    ("notation", "told"),
    [
        (Notation(), "lists:1: found 'a b', expected number ||| hypothesis ||| features, or another format of"),
        (Notation(nbest=4), "lists:6: found the end, expected 2 further lines of list 1"),
        (Notation(counts=Path("few")), "lists:6: found a further line, expected the end after 2 lists, as few has"),
        (Notation(counts=Path("many")), "lists:6: found the end, expected 1 further line of list 1"),
        (Notation(counts=Path("bad")), "bad:2: found 'x', expected the number of lines of a list"),
        (Notation("kaldi"), "lists:1: found 'a', expected utterance-number and words"),
        (Notation("table"), "lists:1: found the columns 'a b', expected id, text and features, with tabs between"),
        (Notation("json-lists"), "lists:1: found no JSON ("),
    ],
)
def test_other_text_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notation: Notation, told: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name, counts in (("few", "1\n4\n"), ("many", "5\n2\n"), ("bad", "3\nx\n")):
        Path(name).write_text(counts)
    path = written(tmp_path, PLAIN)
    for reader in (read, compiled):
        with pytest.raises(DataError) as error:
            reader(path, notation)
        assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("H-0\t-1\ta\nH-1\t-1\n", "lists:2: found 'H-1\\t-1', expected H-number, score and hypothesis, with tabs"),
        ("H-0\t-1\ta\nH-x\t-1\ta\n", "lists:2: found 'x', expected the number of a sentence, from 0"),
        ("H-0\t-1\ta\nH-0\tnan\ta\n", "lists:2: found value nan of score, expected a number from -1e30 to 1e30"),
        ("H-0\t-1\ta\nH-0\t1 x=2\ta\n", "lists:2: found value '1 x=2' of score, expected a number from"),
        ("H-0\t-1\ta ||| b\n", "lists:1: found the separator |||, expected a hypothesis without it"),
        ("id\ttext\tlm\n0\ta\n", "lists:2: found 2 columns, expected 3, as the first line has"),
        ("id\ttext\tlm\tlm\n", "lists:1: found a second value of lm, expected each name once"),
        ("id\ttext\tmy lm\n", "lists:1: found the column 'my lm', expected a name without blanks"),
        ("id\ttext\tlm\n0\ta\tx\n", "lists:2: found value 'x' of lm, expected a number from -1e30 to 1e30"),
        ("u-1 a\nv-1 b\nu-2 c\n", "lists:1: found 'u-1 a', expected number |||"),
        ('{"sentence_id": 0, "translations": ["a"], "scores": []}\n', "lists:1: found 0 scores, expected 1, one for"),
        ('{"id": null, "translations": ["a"]}\n', "lists:1: found id null, expected the number of a sentence, from 0"),
        ('{"id": 0, "translations": [1], "scores": [1]}\n', "lists:1: found hypothesis 1, expected a string or a list"),
        ('{"id": 0, "translations": "a"}\n', 'lists:1: found translations "a", expected a list, as translations or'),
        ('{"id": 0, "translations": ["a"], "scores": ["x"]}\n', 'lists:1: found value "x" of score, expected a number'),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    for reader in (read, compiled):
        with pytest.raises(DataError) as error:
            reader(path)
        assert told in str(error.value)


def test_an_utterance_has_one_place(tmp_path: Path) -> None:
    path = written(tmp_path, "u-1 a\nv-1 b\nu-2 c\n")
    with pytest.raises(DataError, match="lists:3: found 'u' again, expected all hypotheses of an utterance together"):
        read(path, Notation("kaldi"))


def test_lists_of_fairseq_are_sorted(tmp_path: Path) -> None:
    path = written(tmp_path, SAMPLES["fairseq generate"].lines)
    assert [(n, len(entries)) for n, entries in read_lists([path])] == [(0, 1), (2, 2)]


def test_fairseq_brings_sources_and_references_along(tmp_path: Path) -> None:
    path = written(tmp_path, "S-1\tdas ha@@ us\nT-1\tthe hou@@ se\nH-1\t-1\ta\nT-0\tyes\n")
    sentences = read_sentences(path, Notation("fairseq", join="bpe"))
    assert [(pair.source.words, pair.references) for pair in sentences] == [
        ([], [["yes"]]),
        (["das", "haus"], [["the", "house"]]),
    ]
    path = written(tmp_path, "S-0\ta\nS-1\tb\nT-1\tb\n")
    with pytest.raises(DataError, match="lists: found no line T-0, expected a reference for each of 2 sentences"):
        read_sentences(path, Notation("fairseq"))


def test_marks_are_taken_out(tmp_path: Path) -> None:
    for kind, text, expected in (
        ("bpe", "the hou@@ se @@ s l@@", "the house s l"),
        ("spm", "▁the ▁hou se", "the house"),
        ("moses", "the house |0-1| is |2-2,wa=0-0 1-1 ,total=-3| x|3-4|", "the house is x|3-4|"),
    ):
        for line, features in ((f"0 ||| {text} ||| lm= -1 ||| 0", True), (f'{{"id": 0, "text": "{text}"}}', False)):
            path = written(tmp_path, f"{line}\n")
            for reader in (read, compiled):
                [(_, words, found)] = reader(path, Notation(join=kind))
                assert (words, found) == (expected, {"lm": -1.0} if features else {}), kind


def test_every_format_has_a_sample() -> None:
    assert {*FORMATS} == {sample.format for sample in SAMPLES.values()} | {"json", "plain"}
