"""`mpitune decode --explain` and `mpitune decode --forest`."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from support.commands import Arguments, Cli, Trained
from support.forest_json import check_json, close, translation_of
from support.mpi import mpirun
from support.tiny import Tiny

from mpitune.cli.parser import main


def test_explanations_go_with_the_kbest_list(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    done = cli("decode", trained.job, "--input", trained.source, "--explain", "3")
    assert (done.code, done.errors) == (0, "")
    lists = cli("decode", trained.job, "--input", trained.source, "--nbest", "3", "--format", "cdec").output
    expected = [line.split(" ||| ") for line in lists.splitlines()]
    explained = re.findall(r"^translation \d: (.*)\nscore: (.*)$", done.output, re.MULTILINE)
    assert [text for text, _ in explained] == [text for _, text, _, _ in expected]
    assert [float(score) for _, score in explained] == [close(float(score)) for *_, score in expected]
    sentences = trained.source.read_text().splitlines()
    assert re.findall(r"^sentence (\d): (.*)$", done.output, re.MULTILINE) == [
        (str(i), sentence) for i, sentence in enumerate(sentences)
    ]
    assert cli("decode", trained.job, "--input", trained.source, "--explain", "3", "--output", tmp_path / "x").code == 0
    assert (tmp_path / "x").read_text() == done.output


def test_the_forest_file_describes_each_sentence(cli: Cli, trained: Trained, tmp_path: Path) -> None:
    plain = cli("decode", trained.job, "--input", trained.source)
    done = cli("decode", trained.job, "--input", trained.source, "--forest", tmp_path / "forest.gz")
    assert done == plain
    lines = gzip.decompress((tmp_path / "forest.gz").read_bytes()).decode().splitlines()
    sentences = trained.source.read_text().splitlines()
    assert len(lines) == len(sentences)
    for i, (line, sentence, text) in enumerate(zip(lines, sentences, plain.output.splitlines(), strict=True)):
        described = json.loads(line)
        assert described["sentence"] == i
        check_json(described, sentence.split(), described["weights"])
        assert [" ".join(translation_of(described, iter(edges))) for edges in described["derivations"]] == [text]
    both: Arguments = ["--explain", "2", "--forest", tmp_path / "again", "--output", tmp_path / "text"]
    assert cli("decode", trained.job, "--input", trained.source, *both).code == 0
    again = [json.loads(line) for line in (tmp_path / "again").read_text().splitlines()]
    assert [len(described["derivations"]) for described in again] == [2, 1, 1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "forest.gz", "text"]


def test_explain_with_a_grammar_for_each_sentence(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", grammar={"file": None, "per_sentence": True}, data=None)
    shared: Arguments = ["--input", tiny.folder / "own.de", "--weights", trained.run]
    done = cli("decode", job, *shared, "--explain", "1", "--forest", tmp_path / "forest")
    texts = cli("decode", job, *shared).output.splitlines()
    assert re.findall(r"^translation 1: (.*)$", done.output, re.MULTILINE) == texts
    for line, text in zip((tmp_path / "forest").read_text().splitlines(), texts, strict=True):
        described = json.loads(line)
        check_json(described, described["source"], described["weights"])
        assert [" ".join(translation_of(described, iter(edges))) for edges in described["derivations"]] == [text]


def test_bad_usage_is_refused(cli: Cli, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual: Arguments = ["decode", trained.job, "--input", trained.source]
    for bad in ("0", "-1", "many", "9" * 20):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, usual), "--explain", bad])
        assert ended.value.code == 2
        assert (
            f"argument --explain: found '{bad}', expected a whole number from 1 to 1000000" in capsys.readouterr().err
        )
    line = "--explain has a fixed output format: leave out --nbest and --format"
    assert cli.refused(2, *usual, "--explain", "2", "--nbest", "2") == line
    assert cli.refused(2, *usual, "--explain", "2", "--format", "cdec") == line
    missing = tmp_path / "no" / "forest"
    assert cli.refused(2, *usual, "--forest", missing) == f"{missing}: cannot be written: No such file or directory"


@pytest.mark.mpi
def test_two_ranks_explain_as_one_does(cli: Cli, tiny: Tiny, trained: Trained, tmp_path: Path) -> None:
    usual: Arguments = ["decode", trained.job, "--input", tiny.folder / "train.de", "--explain", "2"]
    alone = cli(*usual, "--forest", tmp_path / "alone")
    done = mpirun(2, ["-m", "mpitune", *usual, "--forest", tmp_path / "together"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == alone.output
    assert (tmp_path / "together").read_bytes() == (tmp_path / "alone").read_bytes()
    done = mpirun(2, ["-m", "mpitune", *usual, "--forest", tmp_path / "no" / "forest"])
    assert (done.returncode, done.stdout) == (2, "")
    # Open MPI's mpirun adds lines of its own.
    told = [line for line in done.stderr.splitlines() if line.startswith("mpitune:")]
    assert told == [f"mpitune: {tmp_path}/no/forest: cannot be written: No such file or directory"]
