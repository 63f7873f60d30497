"""`mpitune extract`: files in, grammars out."""

from __future__ import annotations

import gzip
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from support.mpi import mpirun
from support.naive_extract import naive_grammar, random_pairs, read_grammar

from mpitune.api.extraction import WORK
from mpitune.cli.parser import main
from mpitune.corpus.text import read_bitext, read_sentences
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.errors import DataError, MachineError
from mpitune.extraction import sentences
from mpitune.extraction.rule_arrays import TablePart, part_of
from mpitune.grammar.rules import RuleReader
from mpitune.store.compile_data import ExtractedParts
from mpitune.store.extract_grammars import GrammarExtractor

PAIRS = [pair for seed in (3, 8, 9) for pair in random_pairs(seed) if pair[0] and pair[1]]
SOURCES, TARGETS = ([" ".join(pair[side]) for pair in PAIRS] for side in (0, 1))


@pytest.fixture
def bitext(tmp_path: Path) -> list[str]:
    """The bitext's files, as options."""
    write(tmp_path / "f", SOURCES)
    write(tmp_path / "e", TARGETS)
    write(tmp_path / "fe", list(map(" ||| ".join, zip(SOURCES, TARGETS, strict=True))))
    write(tmp_path / "a", [" ".join(f"{i}-{j}" for i, j in pair[2]) for pair in PAIRS])
    return ["--source", f"{tmp_path}/f", "--target", f"{tmp_path}/e", "--alignment", f"{tmp_path}/a"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def extract(bitext: list[str], file: Path, output: Path, *more: str) -> int:
    return main(["extract", *bitext, "--input", str(file), "--output", str(output), *more])


def contents(folder: Path) -> dict[str, bytes]:
    """The grammars and the sentences; the lock names the process."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def assert_grammar(path: Path, words: list[str], without: int | None = None) -> None:
    expected = naive_grammar(PAIRS, words, without)
    found = read_grammar(path)
    assert found.keys() == expected.keys()
    for key, rule in found.items():
        assert rule.alignment == expected[key].alignment
        assert rule.features == pytest.approx(expected[key].features, rel=1e-10, abs=1e-10)


def test_a_grammar_for_each_sentence(bitext: list[str], tmp_path: Path) -> None:
    texts = ["a b c", "", "zzz a", "f e d c b a"]
    output = tmp_path / "new/out"
    assert extract(bitext, write(tmp_path / "in", texts), output) == 0
    read = read_sentences(output / "input.sgm")
    assert [" ".join(sentence.words) for sentence in read] == texts
    assert [sentence.grammar for sentence in read] == [output / f"grammar.{i}.gz" for i in range(4)]
    assert {path.name for path in output.iterdir()} == {"input.sgm", "lock", *(f"grammar.{i}.gz" for i in range(4))}
    for i, sentence in enumerate(read):
        assert_grammar(output / f"grammar.{i}.gz", sentence.words)


def test_references_begin_at_a_separator(bitext: list[str], tmp_path: Path) -> None:
    """Not at a word that begins with one."""
    texts = ["a |||b c ||| r", "a b\t|||\ts ||| t", "||| u"]
    assert extract(bitext, write(tmp_path / "in", texts), tmp_path / "out") == 0
    read = read_bitext(tmp_path / "out/input.sgm")
    assert [(pair.source.words, pair.references) for pair in read] == [
        (["a", "|||b", "c"], [["r"]]),
        (["a", "b"], [["s"], ["t"]]),
        ([], [["u"]]),
    ]


def test_words_that_look_like_gaps_are_in_no_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["a [1] b", "a [X,1] b", "a [] b"]
    for name in ("f", "e"):
        write(tmp_path / name, texts)
    write(tmp_path / "a", ["0-0 1-1 2-2"] * 3)
    bitext = ["--source", f"{tmp_path}/f", "--target", f"{tmp_path}/e", "--alignment", f"{tmp_path}/a"]
    assert extract(bitext, write(tmp_path / "in", texts), tmp_path / "out") == 0
    assert "rules left out: words such as [1] are gaps in a grammar file" in capsys.readouterr().err
    reader = RuleReader(vocabulary := Vocabulary())
    for i in range(3):
        reader.read(tmp_path / f"out/grammar.{i}.gz")
    assert set(vocabulary.words) == {"a", "b", "[]"}
    assert (np.diff(reader.grammar_ptr) > [3, 3, 10]).all()


def test_leaving_one_out_leaves_the_sentence_out(bitext: list[str], tmp_path: Path) -> None:
    lines = [f"{' '.join(pair[0])} ||| {' '.join(pair[1])}" for pair in PAIRS[:5]]
    file = write(tmp_path / "in", lines)
    assert extract(bitext, file, tmp_path / "out", "--leave-one-out") == 0
    for i, pair in enumerate(read_bitext(tmp_path / "out/input.sgm")):
        assert (pair.source.words, pair.references) == (PAIRS[i][0], [PAIRS[i][1]])
        assert_grammar(tmp_path / f"out/grammar.{i}.gz", PAIRS[i][0], without=i)


def test_several_alignments_are_those_of_a_bitext_that_has_each_pair_as_often(
    bitext: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = [[f"{i}-{j}" for i, j in pair[2]] for pair in PAIRS]
    write(tmp_path / "b", [" ".join(of_pair[::2]) for of_pair in links])
    for name in ("f", "e"):
        write(tmp_path / f"{name}2", (tmp_path / name).read_text().splitlines() * 2)
    write(tmp_path / "ab", [*(tmp_path / "a").read_text().splitlines(), *(tmp_path / "b").read_text().splitlines()])
    file = write(tmp_path / "in", SOURCES[:5])
    assert extract([*bitext, f"{tmp_path}/b"], file, tmp_path / "joined") == 0
    twice = ["--source", f"{tmp_path}/f2", "--target", f"{tmp_path}/e2", "--alignment", f"{tmp_path}/ab"]
    assert extract(twice, file, tmp_path / "twice") == 0
    assert extract(bitext, file, tmp_path / "one") == 0
    for i in range(5):
        joined, expected, one = (
            read_grammar(tmp_path / name / f"grammar.{i}.gz") for name in ("joined", "twice", "one")
        )
        assert joined == expected and joined != one
    write(tmp_path / "b", [""])
    assert extract([*bitext, f"{tmp_path}/b"], file, tmp_path / "bad") == 3
    assert f"{tmp_path}/b: found 1 line, expected as many as {tmp_path}/f has" in capsys.readouterr().err
    assert extract([*bitext, *[f"{tmp_path}/a"] * 100], file, tmp_path / "many") == 2
    assert "found 101 alignments of a bitext, expected 100 at most" in capsys.readouterr().err


def test_an_interrupted_extraction_goes_on(bitext: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALLEST_ITEM", "LARGEST_ITEM"):
        monkeypatch.setattr(sentences, name, 1)
    file, part, items = write(tmp_path / "in", SOURCES), GrammarExtractor.part, list[range]()
    assert extract(bitext, file, tmp_path / "unbroken", "--leave-one-out") == 0

    def failing(self: GrammarExtractor, item: range) -> TablePart:
        if self.words_of(item) > 3:  # the kernels are warmed up by fewer
            items.append(item)
            if len(items) == 3:
                raise MachineError("the disk is full")
        return part(self, item)

    monkeypatch.setattr(GrammarExtractor, "part", failing)
    assert extract(bitext, file, tmp_path / "out", "--leave-one-out") == 4
    assert {path.name for path in (tmp_path / "out").iterdir()} == {WORK, "lock"}
    assert extract(bitext, file, tmp_path / "out", "--leave-one-out") == 0
    # Of six items, only the third was worked at twice.
    assert len(items) == 7 and items[2] == items[3] and len(set(items)) == 6
    assert contents(tmp_path / "out") == contents(tmp_path / "unbroken")


def test_work_of_another_input_is_not_kept(bitext: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, output = write(tmp_path / "in", ["a b c"]), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("mpitune.api.extraction._merge", Mock(side_effect=MachineError("the disk is full")))
        assert extract(bitext, file, output) == 4
    assert len(list((output / WORK).glob("part-*.npz"))) == 1
    assert extract(bitext, write(file, ["f e d", "c b a"]), output) == 0
    for i, words in enumerate((["f", "e", "d"], ["c", "b", "a"])):
        assert_grammar(output / f"grammar.{i}.gz", words)
    assert not (output / WORK).exists()


@pytest.mark.mpi
def test_one_file_or_two_and_any_number_of_ranks(bitext: list[str], tmp_path: Path) -> None:
    file = write(tmp_path / "in", SOURCES)
    assert extract(bitext, file, tmp_path / "one", "--leave-one-out") == 0
    both = ["--bitext", f"{tmp_path}/fe", *bitext[4:]]
    assert extract(both, file, tmp_path / "both", "--leave-one-out") == 0
    command = ["-m", "mpitune", "extract", *bitext, "--input", file, "--output", tmp_path / "three", "--leave-one-out"]
    run = mpirun(3, command)
    assert run.returncode == 0, run.stderr
    assert contents(tmp_path / "one") == contents(tmp_path / "both") == contents(tmp_path / "three")
    assert gzip.decompress(contents(tmp_path / "one")["grammar.0.gz"])


@pytest.mark.parametrize(
    ("name", "lines", "told"),
    [
        ("a", ["0-0 1-x"], "a:1: found '1-x', expected i-j with i below"),
        ("a", ["0-99"], "a:1: found '0-99', expected i-j with i below"),
        ("a", [f"0-{'9' * 5000}"], "a:1: found '0-999"),
        ("a", [""] * (len(PAIRS) - 1), f"a: found {len(PAIRS) - 1} lines, expected as many as "),
        ("a", [""] * (len(PAIRS) + 1), f"a:{len(PAIRS) + 1}: found a line more, expected as many as "),
        ("e", TARGETS[:-1], f"e: found {len(PAIRS) - 1} lines, expected as many as "),
        ("f", [*SOURCES, "a"], f"e: found {len(PAIRS)} lines, expected as many as "),
        ("in", ['<seg grammar="g">a</seg>'], "in:1: found a <seg> tag, expected words alone"),
        ("in", ["a ||| b", "a</seg> ||| b"], "in:2: found a <seg> tag, expected words alone"),
        ("in", ["a " * 5001], "in:1: found 5001 words, expected a sentence of at most 5000"),
        ("in", ["no such sentence"], "in:1: found another sentence, expected that of "),
        ("in", [*SOURCES, "a"], f"in:{len(PAIRS) + 1}: found more sentences, expected that"),
    ],
)
def test_bad_files_are_refused(
    bitext: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, lines: list[str], told: str
) -> None:
    write(tmp_path / "in", [" ".join(PAIRS[0][0])])
    write(tmp_path / name, lines)
    assert extract(bitext, tmp_path / "in", tmp_path / "out", "--leave-one-out") == 3
    assert f"mpitune: {tmp_path}/{told}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_bad_usage_is_refused(bitext: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "in", ["a"])
    for options in (bitext[2:], bitext[:2] + bitext[4:], ["--bitext", "fe", *bitext], bitext[4:]):
        assert extract(options, file, tmp_path / "out") == 2
        assert "expected --source F and --target E, or --bitext FE" in capsys.readouterr().err
    write(tmp_path / "file", [])
    assert extract(bitext, file, tmp_path / "file/out") == 2
    for name in ("f", "e", "a"):
        write(tmp_path / name, [])
    assert extract(bitext, file, tmp_path / "out") == 3
    assert "f: found no sentences, expected a bitext" in capsys.readouterr().err


def test_parts_are_checked_when_they_are_read_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ExtractedParts(tmp_path)
    for item in (range(7, 30), range(30, 31)):
        parts.write(item, part_of([]), {})
    damaged = parts.file(range(30, 31))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match=r"part-000000000030\.npz: found a damaged"):
        list(parts)
    damaged.write_bytes(content)
    assert len(list(parts)) == 2
    monkeypatch.setattr("mpitune.array_files.arrays._digest", lambda file: pytest.fail("hashed again"))
    assert len(list(parts)) == 2
