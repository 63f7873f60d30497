"""mpitune as it is installed: from a wheel, in an environment and a folder that know nothing of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from support.mpi import ROOT
from support.run_folders import make_run

Run = Callable[..., str]
"""Runs a command of the environment, by default in the empty folder; returns its output."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, built from the repository, and the sdist."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def run(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An environment with the wheel. Its dependencies are those of this one, but not the mpitune installed here."""
    folder, empty = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("empty")
    venv.create(folder, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    # Packages installed as links to their sources are not found by way of another environment's .pth file.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    [wheel] = packages.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True, timeout=120)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = f"{folder}/bin:{environment['PATH']}"

    def run(*command: str | Path, cwd: Path = empty) -> str:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_job_from_the_wheel(run: Run, tmp_path: Path) -> None:
    assert "environment" in run("python", "-c", "import mpitune; print(mpitune.__file__)")
    output = run("mpitune", "init", tmp_path / "new", "--template", "dev", "--slurm")
    assert "sbatch slurm/train.sbatch job.toml" in output
    assert "algorithm" in run("mpitune", "train", "job.toml", "--dry-run", cwd=tmp_path / "new")
    for name in ("train.sbatch", "decode.sbatch"):
        assert (tmp_path / "new" / "slurm" / name).read_bytes() == (ROOT / "slurm" / name).read_bytes()


def test_a_report_from_the_wheel(run: Run, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run").path
    assert run("mpitune", "report", folder) == f"the report: {folder}/report.html\n"
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_demo_from_the_wheel(run: Run, tmp_path: Path) -> None:
    run("mpitune", "init", tmp_path / "new", "--template", "demo")
    corpus = ROOT / "mpitune" / "templates" / "demo"
    assert {path.name: path.read_bytes() for path in (tmp_path / "new" / "data").iterdir()} == {
        path.name: path.read_bytes() for path in corpus.iterdir()
    }


def test_the_sdist_has_every_file_of_the_repository(packages: Path) -> None:
    """With them, its tests run. .git itself and what it ignores are left out."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs the repository, which lists its files")
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    with tarfile.open(next(packages.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in listed if (ROOT / name).exists()} - names == set()
    assert not [name for name in names if name.startswith((".git/", ".venv/")) or "/runs/" in name]
