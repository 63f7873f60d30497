"""Inputs that are never replaced; the lock of a folder, which marks it as this program's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mpitune import ownership
from mpitune.array_files.atomic import atomic_replace, write_text
from mpitune.errors import MachineError, UsageError
from mpitune.ownership import FolderLock, dissolve, locked, of_command, reads, remove, replaces


def test_lock_is_for_one_and_is_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "nc"
    first, second = FolderLock(folder, "run"), FolderLock(folder, "run")
    first.acquire(wait=False)
    with pytest.raises(UsageError, match=f"in use by process {os.getpid()} on "):
        second.acquire(wait=False)
    first.release()
    first.release()
    second.acquire(wait=False)
    second.release()


def test_lock_is_released_by_death(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from mpitune.ownership import FolderLock\n"
        "lock = FolderLock(pathlib.Path(sys.argv[1]), 'run'); lock.acquire(wait=False); print('locked', flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "locked\n"
        with pytest.raises(UsageError, match=f"in use by process {child.pid} on "):
            FolderLock(tmp_path, "run").acquire(wait=False)
        child.kill()
    lock = FolderLock(tmp_path, "run")
    lock.acquire(wait=False)
    lock.release()


def test_a_lock_whose_folder_is_gone(tmp_path: Path) -> None:
    lock, of_another_rank = FolderLock(tmp_path / "run", "run"), FolderLock(tmp_path / "run", "run")
    lock.check()
    of_another_rank.inode = lock.acquire(wait=False)
    for one in (lock, of_another_rank):
        one.check()
    (tmp_path / "run").rename(tmp_path / "away")
    for _ in ("removed", "replaced"):
        for one in (lock, of_another_rank):
            with pytest.raises(MachineError, match="run: the run folder has been removed or replaced"):
                one.check()
        second = FolderLock(tmp_path / "run", "run")
        second.acquire(wait=False)
        second.check()
        second.release()
    lock.release()


def test_an_unwritable_run_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file/run: cannot be written: Not a directory"):
        FolderLock(tmp_path / "file" / "run", "run").acquire(wait=False)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(MachineError, match="No space left on device"):
        FolderLock(tmp_path / "run", "run").acquire(wait=False)


def test_a_file_system_without_locks_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(ownership.fcntl, "flock", none)
    lock = FolderLock(tmp_path, "run")
    lock.acquire(wait=False)
    lock.release()
    assert lock.fault == f"{tmp_path}: no lock (No locks available): make sure that no other run writes to it"


def test_one_process_at_a_time_writes_to_a_store(tmp_path: Path) -> None:
    with locked(tmp_path / "store", "store"):
        child = os.fork()
        if child == 0:
            import fcntl

            with open(tmp_path / "store" / "lock") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os._exit(7)
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/store: cannot be written"), locked(tmp_path / "file" / "store", "store"):
        pass


def test_folders_of_earlier_versions_are_known(tmp_path: Path) -> None:
    """Their stores have an empty lock, or none beside files that begin as this program's do."""
    for name, lock in (("empty", b""), ("none", None), ("run", b"process 12 on host\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.npz").write_bytes(b"mpitune: HDF5 data follow, digest ...")
        (tmp_path / name / "lm-0.npz").write_bytes(b"cut")
        if lock is not None:
            (tmp_path / name / "lock").write_bytes(lock)
        with locked(tmp_path / name, "store"):
            assert (tmp_path / name / "lock").read_bytes().startswith(b"process ")


def test_a_folder_that_was_refused_has_no_mark(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("mine")
    for _ in range(2):
        with pytest.raises(UsageError, match="config.toml: found a file that no run has written"):
            FolderLock(tmp_path, "run").acquire(wait=False)
        assert os.listdir(tmp_path) == ["config.toml"]
    # Names of other kinds of folders are free.
    with locked(tmp_path, "store"):
        pass


def test_inputs_are_known_by_all_their_names_while_the_command_runs(tmp_path: Path) -> None:
    given, link, hard = tmp_path / "given", tmp_path / "link", tmp_path / "hard"
    given.write_text("mine")
    link.symlink_to(given)
    hard.hardlink_to(given)
    with of_command():
        reads([link, None, tmp_path / "absent"])
        for name in (given, link, hard):
            for write in (lambda path: write_text(path, ""), lambda path: atomic_replace(path).__enter__(), replaces):
                with pytest.raises(UsageError, match=f"{name}: found as input and as output"):
                    write(name)
        with pytest.raises(UsageError, match="given: found as input and as output"):
            remove(tmp_path, "g*n")
    assert given.read_text() == "mine"
    with of_command():
        replaces(hard)
        with pytest.raises(UsageError, match=f"{hard}: found as input and as output"):
            reads([given])
    write_text(given, "other")


def test_only_files_of_the_names_are_removed(tmp_path: Path) -> None:
    names = ["a/1.x", "a/.1.x.mpitune-part", "a/.1.x.0f.mpitune-part", "a/.1.x.part", "a/mine", "b/2.x", "1.x"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    remove(tmp_path, "*/*.x")
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["1.x", "a", "a/.1.x.part", "a/mine"]


@pytest.mark.parametrize("name", ["config.toml", "weights.txt.gz", "checkpoints/epoch-0001.h5"])
def test_an_empty_lock_is_no_mark_beside_files_of_others(tmp_path: Path, name: str) -> None:
    """As ``flock lock COMMAND`` leaves one."""
    (tmp_path / "lock").touch()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=f"{name}: found a file that no run has written"):
        FolderLock(tmp_path, "run").acquire(wait=False)
    assert (tmp_path / "lock").read_text() == "" and (tmp_path / name).read_text() == "mine"


def test_links_and_pipes_are_nobodys_own(tmp_path: Path) -> None:
    for mark in ("", "process 1 on here\n"):
        (tmp_path / "lock").write_text(mark)
        for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo):
            make(tmp_path / "config.toml")
            with pytest.raises(UsageError, match="config.toml: found a file that no run has written"):
                FolderLock(tmp_path, "run").acquire(wait=False)
            (tmp_path / "config.toml").unlink()
    (tmp_path / "lock").unlink()
    os.mkfifo(tmp_path / "lock")
    with pytest.raises((UsageError, MachineError), match="cannot be written"):
        FolderLock(tmp_path, "run").acquire(wait=False)


def test_folders_without_the_mark_are_not_dissolved(tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_text("mine")
    dissolve(tmp_path, "store")
    assert os.listdir(tmp_path) == ["data.npz"]
    (tmp_path / "lock").write_text("process 1 on here\n")
    dissolve(tmp_path, "store")
    assert not tmp_path.exists()
