"""Folders that a decoder writes to."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from mpitune.api import opened
from mpitune.config.spec import Job, RunKeys


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(run=RunKeys(dir=tmp_path / "runs" / "job", store=tmp_path / "runs" / "job" / "store"))


def test_files_lie_in_the_run_folder(job: Job) -> None:
    with opened._input_folder(job) as folder:
        assert folder == job.run.dir / "store" / "decode"
    assert opened._decoder_folder(job).is_relative_to(job.run.dir / "cdec")


def test_two_at_a_time_have_two_folders(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened._input_folder(job) as first, opened._input_folder(job) as second:
        assert first != second and second.parent == first.parent
        second.mkdir()
    assert first.exists() and not second.exists(), "the next one finds the grammars of the same text in the first"
    with opened._input_folder(job) as again:
        assert again == first

    def no_locks(*_: object) -> None:
        raise OSError("no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with opened._input_folder(job) as alone:
        assert alone == second, "where locks do not work, the first may be in use"


def test_beside_a_read_only_run_they_are_temporary(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    opened._temporary_folder.cache_clear()
    with opened._input_folder(job) as inputs:
        folder = inputs.parent
        assert folder.parent == tmp_path and opened._decoder_folder(job).is_relative_to(folder)
    opened._temporary_folder.cache_clear()
