"""The Makefile in a folder with a blank in its name."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.mpi import ROOT

PROGRAMS = ("python", "pytest", "ruff", "mypy")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As `make setup` leaves it, with programs that print how they were called."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    folder = tmp_path / "a b"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / "tests" / "bench").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "tests/bench/one.py", ".venv/.setup-index"):
        (folder / name).touch()
    for name in PROGRAMS:
        program = folder / ".venv" / "bin" / name
        program.write_text(f'#!/bin/sh\necho "called: {name} $1 $PYTHONPATH"\n')
        program.chmod(0o755)
    return folder


def make(folder: Path, *words: str) -> str:
    # Whatever MPI there is, or options of a make that runs the tests.
    command = ["make", "MPI=index", "MAKEFLAGS=", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_targets_find_their_programs(folder: Path) -> None:
    printed = make(folder, "test", "format", "bench", "test-faults", "PYTHONPATH=")
    called = [line.removeprefix("called: ") for line in printed.splitlines() if line.startswith("called: ")]
    assert {line.partition(" ")[0] for line in called} == set(PROGRAMS)
    assert called[-1] == f"python -m {folder}:{folder}/tests"


def test_the_environment_is_made_there(folder: Path) -> None:
    printed = make(folder, "--dry-run", "--what-if=pyproject.toml", "setup")
    places = [match.start() for match in re.finditer(re.escape(str(folder)), printed)]
    assert len(places) > 5 and all(printed[place - 1] in "'\"" for place in places)
