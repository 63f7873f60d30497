"""A finished run in a folder of somebody else, which may only be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.mpi import ROOT
from support.sharing import read_only
from support.tiny import DEVTEST, Tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"))


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


def mpitune(rights: list[str], temporary: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    temporary.mkdir(exist_ok=True)
    return subprocess.run(
        [*rights, sys.executable, "-m", "mpitune", *map(str, arguments)],
        cwd=temporary,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_run_of_somebody_else_is_used_without_writing_to_it(tiny: Tiny, tmp_path: Path) -> None:
    run, own = tiny.folder / "run", tmp_path / "own"
    job = tiny.job_file(run, **DEVTEST, run={"store": None})
    tiny.train(run, **DEVTEST, run={"store": None})
    before = contents(tiny.folder)
    with read_only(tiny.folder) as rights:
        decode = ["decode", job, "--input", tiny.folder / "dev.de"]
        for arguments in (
            [*decode, "--output", own / "out"],
            [*decode, "--weights", run / "checkpoints" / "epoch-0002.h5", "--explain", "1", "--output", own / "why"],
            ["weights", run, "--top", "3"],
            ["report", run, "--output", own / "report"],
            ["prepare", job],
        ):
            done = mpitune(rights, own, *arguments)
            assert done.returncode == 0, done.stderr
        refused = mpitune(rights, own, "train", job)
        assert (refused.returncode, refused.stderr) == (
            2,
            f"mpitune: {run}: cannot be written: Permission denied\n",
        )
        (tiny.folder / "lm.arpa").chmod(0o644)
        (tiny.folder / "lm.arpa").write_text((tiny.folder / "lm.arpa").read_text().replace("-2.5", "-2.4"))
        refused = mpitune(rights, own, *decode)
        assert refused.returncode == 2
        assert f"{run}/store/lm-0.npz: stale, and cannot be built: " in refused.stderr
        assert refused.stderr.endswith("cannot be written: Permission denied\n")
    assert len((own / "out").read_text().splitlines()) == 8
    assert (own / "report" / "report.html").is_file() and (own / "why").stat().st_size > 0
    after = contents(tiny.folder)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == {"lm.arpa"}


def test_input_with_grammars_is_compiled_elsewhere(tiny: Tiny, tmp_path: Path) -> None:
    run, own = tiny.folder / "own-run", tmp_path / "own"
    pairs = zip(*((tiny.folder / name).read_text().splitlines() for name in ("own.de", "train.en")), strict=False)
    (tiny.folder / "own.bitext").write_text("".join(f"{source} ||| {target}\n" for source, target in pairs))
    tables = {
        "data": {"source": None, "references": None, "bitext": "own.bitext"},
        "grammar": {"file": None, "per_sentence": True},
        "run": {"store": None},
    }
    job = tiny.job_file(run, **tables)
    tiny.train(run, **tables)
    with read_only(tiny.folder) as rights:
        done = mpitune(rights, own, "decode", job, "--input", tiny.folder / "own.de", "--output", own / "out")
        assert done.returncode == 0, done.stderr
    assert len((own / "out").read_text().splitlines()) == 6
    assert list(own.glob("mpitune-decode-*")) == []
