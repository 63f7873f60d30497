from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpitune.array_files.arrays import write_lock
from mpitune.array_files.atomic import atomic_replace, write_text
from mpitune.errors import UsageError


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with atomic_replace(path) as aside:
        aside.write_text("one")
        assert not path.exists()
    assert path.read_text() == "one" and os.listdir(path.parent) == ["file"]


def test_a_failure_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    (tmp_path / ".file.part").write_text("left behind by a kill")
    with pytest.raises(KeyError), atomic_replace(path) as aside:
        aside.write_text("half")
        raise KeyError
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["file"]


def test_a_folder_that_was_removed_does_not_come_back(tmp_path: Path) -> None:
    with atomic_replace(tmp_path / "folder" / "file") as aside:
        aside.touch()
    for write in (lambda path: write_text(path, ""), lambda path: atomic_replace(path).__enter__()):
        with pytest.raises(FileNotFoundError):
            write(tmp_path / "removed" / "folder" / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_one_process_at_a_time_writes_to_a_store(tmp_path: Path) -> None:
    with write_lock(tmp_path / "store"):
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
    with pytest.raises(UsageError, match="cannot write to the store"), write_lock(tmp_path / "file" / "store"):
        pass
