"""The jobs that the project ships, on the real data that they name."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from support.mpi import ROOT, mpirun

from mpitune.cli.parser import main
from mpitune.training import job_inputs

pytestmark = pytest.mark.slow

ALL = sorted((ROOT / "jobs").glob("*.toml"))
JOBS = [path for path in ALL if "${MPITUNE_DATA}" in path.read_text(encoding="utf-8")]


@pytest.fixture
def data(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MPITUNE_DATA", str(shared / "data"))
    return shared / "data"


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_every_job_is_sound(data: Path, path: Path) -> None:
    job = job_inputs.load_job(path, [])
    for texts in job_inputs.sources(job).texts.values():
        assert all(file.is_file() for file in texts.files)


@pytest.mark.parametrize("path", [path for path in ALL if path not in JOBS], ids=lambda path: path.stem)
def test_jobs_without_real_data_have_known_keys(path: Path) -> None:
    assert job_inputs.load_job(path, []).file == path


@pytest.mark.mpi
def test_a_part_of_nc_gets_better_with_any_number_of_ranks(data: Path, tmp_path: Path) -> None:
    def arguments(run: str) -> list[str]:
        settings = {
            "data.limit": 24,
            "parallel.shards": 4,
            "learner.preset": "simianer2012",
            "learner.epochs": 2,
            "select.k": 500,
            "run.dir": tmp_path / run,
            "run.store": tmp_path / "store",
        }
        given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return ["train", os.fspath(ROOT / "jobs" / "nc.toml"), "--quiet", *given]

    assert main(arguments("one")) == 0
    gold = [json.loads(line)["gold"] for line in (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()]
    assert gold[1] > gold[0]
    done = mpirun(2, ["-m", "mpitune", *arguments("two")])
    assert done.returncode == 0
    assert all(" WARNING epoch " in line for line in done.stderr.splitlines()), done.stderr
    one, two = (gzip.decompress((tmp_path / run / "weights.txt.gz").read_bytes()) for run in ("one", "two"))
    assert one == two
    # A selected column may have a mean of 0.
    assert 400 < one.count(b"\n") <= 500


def test_sentences_with_grammars_of_their_own(data: Path, tmp_path: Path) -> None:
    settings = ["--set", f"run.dir={tmp_path}", "--set", "learner.epochs=1", "--quiet"]
    assert main(["train", os.fspath(ROOT / "jobs" / "nc-persent.toml"), *settings]) == 0
    [epoch] = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(epoch)["sentences"] == 10
