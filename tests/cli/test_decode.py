"""Folders that `mpitune decode` writes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpitune.cli import decode
from mpitune.config.spec import Job, RunKeys


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(run=RunKeys(dir=tmp_path / "runs" / "job", store=tmp_path / "runs" / "job" / "store"))


def test_files_lie_in_the_run_folder(job: Job) -> None:
    assert decode._input_folder(job) == job.run.dir / "store" / "decode"
    assert decode._decoder_folder(job).is_relative_to(job.run.dir / "cdec")


def test_beside_a_read_only_run_they_are_temporary(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    decode._temporary_folder.cache_clear()
    folder = decode._input_folder(job).parent
    assert folder.parent == tmp_path and decode._decoder_folder(job).is_relative_to(folder)
    decode._temporary_folder.cache_clear()
