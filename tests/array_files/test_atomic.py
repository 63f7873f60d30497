from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpitune.array_files.atomic import atomic_replace, write_text


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with atomic_replace(path) as aside:
        aside.write_text("one")
        assert not path.exists()
    assert path.read_text() == "one" and os.listdir(path.parent) == ["file"]


def test_a_failure_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    (tmp_path / ".file.mpitune-part").write_text("left behind by a kill")
    with pytest.raises(KeyError), atomic_replace(path) as aside:
        aside.write_text("half")
        raise KeyError
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["file"]


def test_what_lies_under_the_temporary_name_is_not_written_to(tmp_path: Path) -> None:
    target, planted, path = tmp_path / "target", tmp_path / ".file.mpitune-part", tmp_path / "file"
    target.write_text("precious")
    planted.symlink_to(target)
    write_text(path, "one")
    planted.hardlink_to(target)
    write_text(path, "two")
    assert (target.read_text(), path.read_text()) == ("precious", "two")
    assert sorted(os.listdir(tmp_path)) == ["file", "target"]
    planted.mkdir()
    write_text(path, "three")
    assert path.read_text() == "three" and sorted(os.listdir(tmp_path)) == [".file.mpitune-part", "file", "target"]


def test_two_writers_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_replace(path) as first:
        with atomic_replace(path) as second:
            assert first != second
            second.write_text("second")
        first.write_text("first")
        assert path.read_text() == "second"
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    path.chmod(mode)
    with atomic_replace(path) as aside:
        assert aside.stat().st_mode & 0o077 == 0
        aside.write_text("after")
    assert path.read_text() == "after" and path.stat().st_mode & 0o777 == mode


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "file").symlink_to("elsewhere/file")
    for text in ("one", "two"):
        write_text(tmp_path / "file", text)
        assert (tmp_path / "elsewhere" / "file").read_text() == text
    assert (tmp_path / "file").is_symlink() and os.listdir(tmp_path / "elsewhere") == ["file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user")
def test_a_symbolic_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "file").symlink_to("target")
    os.lchown(tmp_path / "file", 1, 1)
    with pytest.raises(PermissionError, match="a symbolic link of another user"):
        write_text(tmp_path / "file", "")
    assert (tmp_path / "target").read_text() == "precious"


def test_a_folder_that_was_removed_does_not_come_back(tmp_path: Path) -> None:
    with atomic_replace(tmp_path / "folder" / "file") as aside:
        aside.touch()
    for write in (lambda path: write_text(path, ""), lambda path: atomic_replace(path).__enter__()):
        with pytest.raises(FileNotFoundError):
            write(tmp_path / "removed" / "folder" / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
