"""Runs in which each sentence is left out of the language model while it is learned from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.naive_extract import random_pairs
from support.naive_kenlm import write_kenlm

from mpitune.cli.parser import main
from mpitune.decoder.base import Sentence
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.lm.kneser_ney import estimate

PAIRS = [pair for seed in (3, 8, 9, 11) for pair in random_pairs(seed) if pair[0] and pair[1]]
JOB = """
[data]
source = "f"
references = ["e"]
[grammar]
source = "f"
target = "e"
alignment = "a"
[[lm]]
file = "lm.arpa"
text = ["e"]
[learner]
algorithm = "itersel"
epochs = 2
[parallel]
shards = 2
"""
ON, OFF = "learner.lm_leave_one_out=true", "learner.lm_leave_one_out=false"
Train = Callable[..., int]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Tunes on a bitext, with a language model of its target side, in the run folder of the name given."""
    texts = {
        "f": [" ".join(pair[0]) for pair in PAIRS],
        "e": [" ".join(pair[1]) for pair in PAIRS],
        "a": [" ".join(f"{i}-{j}" for i, j in pair[2]) for pair in PAIRS],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    estimate(tmp_path / "e", 3, tmp_path / "lm.arpa")
    (tmp_path / "job.toml").write_text(JOB)

    def run(name: str, *overrides: str) -> int:
        given = [f"run.dir={tmp_path / name}", f"run.store={tmp_path}/store-{name}", *overrides]
        return main(["train", f"{tmp_path}/job.toml", *(word for one in given for word in ("--set", one))])

    return run


def weights(folder: Path) -> bytes:
    return (folder / "weights.txt.gz").read_bytes()


def test_a_binary_is_left_out_of_like_the_arpa_file(
    tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    write_kenlm(tmp_path / "lm.arpa", tmp_path / "lm.binary")
    assert train("arpa") == 0
    told = capsys.readouterr().err
    assert f"its text has {len(PAIRS)} of the {len(PAIRS)} references: each is left out" in told
    assert train("binary", "lm.0.file=lm.binary") == 0
    assert f"its text has {len(PAIRS)} of the {len(PAIRS)} references" in capsys.readouterr().err
    assert weights(tmp_path / "binary") == weights(tmp_path / "arpa")
    assert train("seen", OFF) == 0
    assert weights(tmp_path / "seen") != weights(tmp_path / "arpa")


def test_a_run_that_goes_on_leaves_out_the_same(tmp_path: Path, train: Train) -> None:
    assert train("whole") == 0
    assert train("parts", "learner.epochs=1") == 0
    assert train("parts") == 0
    assert len((tmp_path / "parts/metrics.jsonl").read_text().splitlines()) == 2
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


@pytest.mark.parametrize(("before", "now", "verb"), [(OFF, ON, "was not there"), (ON, OFF, "is not there")])
def test_a_run_does_not_go_on_with_what_it_left_in(
    tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str], before: str, now: str, verb: str
) -> None:
    assert train("run", "learner.epochs=1", before) == 0
    kept = weights(tmp_path / "run")
    capsys.readouterr()
    assert train("run", now) == 2
    told = capsys.readouterr().err
    assert "lm.0.text" in told and verb in told
    assert weights(tmp_path / "run") == kept


def test_other_texts_of_a_model_are_another_run(
    tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("run", "learner.epochs=1") == 0
    lines = (tmp_path / "e").read_text().splitlines(keepends=True)
    (tmp_path / "e2").write_text("".join(lines[: len(lines) // 2]))
    capsys.readouterr()
    assert train("run", 'lm.0.text=["e2"]') == 2
    assert "lm.0.text" in capsys.readouterr().err


@pytest.mark.parametrize("search", ["kbest", "hypergraph"])
def test_mert_leaves_out_what_it_learns_from(
    tmp_path: Path, train: Train, monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    left = list[int]()
    name = "decode" if search == "kbest" else "decode_all"
    decode = getattr(EmbeddedDecoder, name)

    def spy(self: EmbeddedDecoder, sentence: Sentence, *rest: Any) -> Any:
        left.append(len(sentence.left_out))
        return decode(self, sentence, *rest)

    monkeypatch.setattr(EmbeddedDecoder, name, spy)
    mert = "learner.method=mert", f"learner.mert.search={search}", "learner.epochs=1"
    assert train("left", *mert) == 0
    assert len(left) >= len(PAIRS) and set(left) == {1}
    left.clear()
    assert train("seen", *mert, OFF) == 0
    assert len(left) >= len(PAIRS) and set(left) == {0}


def test_local_training_leaves_out_what_it_learns_from(
    tmp_path: Path, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists of training sentences are made without their references; the input is translated with all of them."""
    assert train("weights") == 0
    lengths, left, decode = list[int](), list[int](), EmbeddedDecoder.decode

    def spy(self: EmbeddedDecoder, sentence: Sentence, *rest: Any, **more: Any) -> Any:
        lengths.append(len(sentence.words))
        left.append(len(sentence.left_out))
        return decode(self, sentence, *rest, **more)

    monkeypatch.setattr(EmbeddedDecoder, "decode", spy)
    # Longer than any training sentence, which tells them apart.
    long = max(len(f) for f, _, _ in PAIRS) + 1
    (tmp_path / "input").write_text("".join(f"{' '.join((f * long)[:long])}\n" for f, _, _ in PAIRS[:3]))
    given = ["--weights", str(tmp_path / "weights/weights.txt.gz"), "--set", f"run.dir={tmp_path}/local"]
    given += ["--set", f"run.store={tmp_path}/store-local", "--output", f"{tmp_path}/out"]
    assert main(["local", f"{tmp_path}/job.toml", "--input", f"{tmp_path}/input", *given]) == 0
    assert {n for n in lengths if n < long} == {len(f) for f, _, _ in PAIRS}
    assert lengths.count(long) >= 3
    assert left == [0 if n == long else 1 for n in lengths]
    given += ["--set", "learner.lm_leave_one_out=false", "--set", f"run.dir={tmp_path}/seen"]
    left.clear()
    assert main(["local", f"{tmp_path}/job.toml", "--input", f"{tmp_path}/input", *given]) == 0
    assert left and not any(left), "nothing is left out of a job that wants it so"
