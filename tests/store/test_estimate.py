"""Estimates of what building a store takes, against what it took, and the refusal where the disk is too small."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from support.commands import Cli

from mpitune.corpus.progress import no_progress
from mpitune.errors import MachineError
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kneser_ney import estimate
from mpitune.store import estimate as estimates
from mpitune.store.build import build_store
from mpitune.store.estimate import Estimate, announce, of_grammars, of_lm
from mpitune.store.inputs import StoreInputs, Texts


class Disk(NamedTuple):
    free: int


def rules(first: int, last: int) -> str:
    """Rules like those of an extracted grammar."""
    names = [
        "EgivenFCoherent",
        "SampleCountF",
        "CountEF",
        "MaxLexFgivenE",
        "MaxLexEgivenF",
        "IsSingletonF",
        "IsSingletonFE",
    ]
    lines = []
    for i in range(first, last):
        scores = " ".join(f"{name}={1.5 + i / 7:.11g}" for name in names)
        lines.append(f"[X] ||| [X,1] w{i % 90} v{i} ||| [X,1] u{i} t{i % 50} ||| {scores} ||| 1-1 2-2\n")
    return "".join(lines)


@pytest.mark.parametrize("zipped", [False, True])
def test_grammars_take_about_what_is_estimated(tmp_path: Path, zipped: bool) -> None:
    for n in range(3):
        content = rules(5000 * n, 5000 * (n + 1)).encode()
        (tmp_path / f"g{n}").write_bytes(gzip.compress(content) if zipped else content)
    (tmp_path / "in").write_text("".join(f'<seg grammar="g{n}">w1</seg>\n' for n in range(3)))
    build_store(StoreInputs(train=Texts(tmp_path / "in")), tmp_path / "store", print, no_progress)
    expected = of_grammars([tmp_path / f"g{n}" for n in range(3)])
    assert 0.5 < expected.disk / (tmp_path / "store" / "data.h5").stat().st_size < 2
    assert expected.seconds == pytest.approx(15_000 * 4e-6, rel=0.2)


def test_a_language_model_takes_about_what_is_estimated(tmp_path: Path) -> None:
    draw = random.Random(1)
    (tmp_path / "text").write_text(
        "".join(f"{' '.join(f'w{draw.randrange(300)}' for _ in range(9))}\n" for _ in range(900))
    )
    estimate(tmp_path / "text", 3, tmp_path / "lm", lambda _: None)
    size = sum(array.nbytes for array in read_arpa(tmp_path / "lm").values())
    assert 0.8 < of_lm(tmp_path / "lm").disk / size < 1.25


def test_nothing_is_estimated_for_damaged_or_empty_grammars(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"\x1f\x8bno gzip data")
    (tmp_path / "empty").touch()
    assert of_grammars([tmp_path / "damaged"]) == of_grammars([tmp_path / "empty"]) == of_grammars([]) == (0, 0)


def test_long_work_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates.shutil, "disk_usage", lambda _: Disk(8_000_000_000))
    told: list[str] = []
    announce(tmp_path, [Estimate(4, 10_000_000)], told.append)
    assert told == []
    announce(tmp_path, [Estimate(4, 10_000_000), Estimate(61, 1_500_000_000)], told.append)
    assert told == [f"{tmp_path}: building takes about 1:05 and 1.5 GB of disk (8.0 GB are free)"]


def test_a_disk_that_is_too_small_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    (tmp_path / "in").write_text('<seg grammar="g">w1</seg> ||| u1\n')
    (tmp_path / "g").write_text(rules(0, 20_000))
    (tmp_path / "lm").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-1\tw\n\n\\end\\\n")
    job = tmp_path / "job.toml"
    job.write_text('[data]\nbitext = "in"\n[grammar]\nper_sentence = true\n[[lm]]\nfile = "lm"\n')
    monkeypatch.setattr(estimates.shutil, "disk_usage", lambda _: Disk(2_000_000))
    command = ["prepare", job, "--set", f"run.store={tmp_path / 'store'}"]
    done = cli(*command)
    assert done.code == MachineError.exit_code
    expected = "about 3 MB for the files to be built: free some, or name another folder in run.store"
    told = done.errors.splitlines()[-1]
    assert told == f"mpitune: {tmp_path / 'store'}: found 2 MB of free disk, expected {expected}"
    assert not (tmp_path / "store").exists()
    monkeypatch.setattr(estimates.shutil, "disk_usage", lambda _: Disk(4_000_000))
    assert cli(*command).code == 0
    # What is up to date takes nothing.
    monkeypatch.setattr(estimates.shutil, "disk_usage", lambda _: Disk(0))
    assert cli(*command).code == 0
