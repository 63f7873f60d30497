"""The guide, jobs/api.md: its examples run, one after the other, on the tiny task."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.commands import Cli
from support.mpi import ROOT
from support.tiny import DEVTEST, Tiny

import mpitune

GUIDE = ROOT / "jobs" / "api.md"


def test_its_examples(tiny: Tiny, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("train.de", "train.en", "dev.de", "dev.en", "grammar", "lm.arpa"):
        (tmp_path / file).write_bytes((tiny.folder / file).read_bytes())
    job = mpitune.Job(tiny.job_file(tmp_path / "runs" / "job", **DEVTEST))
    (tmp_path / "job.toml").write_text(job.to_toml())
    monkeypatch.chdir(tmp_path)
    warm = ("--weights", tiny.folder / "warm", "--nbest", 20, "--format", "moses", "--output", "lists.gz")
    assert cli("decode", "job.toml", "--input", "dev.de", *warm).code == 0
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    assert {"run", "mean", "page", "weights", "other", "scores"} <= names.keys()
    assert isinstance(names["page"], Path) and names["page"].exists()


def test_it_names_all_names() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in mpitune.__all__ if f"`{name}`" not in text] == []
