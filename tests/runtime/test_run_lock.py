"""The lock of a run folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mpitune.errors import MachineError, UsageError
from mpitune.runtime import run_lock
from mpitune.runtime.run_lock import RunLock


def test_lock_is_for_one_and_is_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "nc"
    first, second = RunLock(folder), RunLock(folder)
    first.acquire()
    with pytest.raises(UsageError, match=f"in use by process {os.getpid()} on "):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_lock_is_released_by_death(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from mpitune.runtime.run_lock import RunLock\n"
        "lock = RunLock(pathlib.Path(sys.argv[1])); lock.acquire(); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "locked\n"
        with pytest.raises(UsageError, match=f"in use by process {child.pid} on "):
            RunLock(tmp_path).acquire()
        child.kill()
    lock = RunLock(tmp_path)
    lock.acquire()
    lock.release()


def test_a_lock_whose_folder_is_gone(tmp_path: Path) -> None:
    lock, of_another_rank = RunLock(tmp_path / "run"), RunLock(tmp_path / "run")
    lock.check()
    of_another_rank.inode = lock.acquire()
    for one in (lock, of_another_rank):
        one.check()
    (tmp_path / "run").rename(tmp_path / "away")
    for _ in ("removed", "replaced"):
        for one in (lock, of_another_rank):
            with pytest.raises(MachineError, match="run: the run folder has been removed or replaced"):
                one.check()
        second = RunLock(tmp_path / "run")
        second.acquire()
        second.check()
        second.release()
    lock.release()


def test_an_unwritable_run_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write to the run folder"):
        RunLock(tmp_path / "file" / "run").acquire()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(MachineError, match="No space left on device"):
        RunLock(tmp_path / "run").acquire()


def test_a_file_system_without_locks_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(run_lock.fcntl, "flock", none)
    lock = RunLock(tmp_path)
    lock.acquire()
    lock.release()
    assert lock.fault == f"{tmp_path}: no lock (No locks available): make sure that no other run writes to it"
