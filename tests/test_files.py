"""The door to the file system: errors have the file, the direction, and the code of who can help."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mpitune import files
from mpitune.errors import DataError, MachineError, MpituneError, UsageError


@pytest.mark.parametrize(
    "number,read,written",
    [
        (errno.EACCES, DataError, UsageError),
        (errno.ENAMETOOLONG, DataError, UsageError),
        (errno.ELOOP, DataError, UsageError),
        (errno.EROFS, DataError, UsageError),
        (errno.EIO, MachineError, MachineError),
        (errno.ESTALE, MachineError, MachineError),
        (errno.ENOSPC, MachineError, MachineError),
        (errno.EMFILE, MachineError, MachineError),
    ],
)
def test_errors_of_the_system(number: int, read: type[MpituneError], written: type[MpituneError]) -> None:
    error, text = OSError(number, os.strerror(number)), os.strerror(number)
    told = f"x: found {text.lower()}, expected a readable file" if read is DataError else f"x: cannot be read: {text}"
    with pytest.raises(read, match=f"^{told}$"), files.reading(Path("x")):
        raise error
    with pytest.raises(written, match=f"^x: cannot be written: {text}$"), files.writing(Path("x")):
        raise error


def test_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    looks = (files.exists, files.is_file, files.is_folder)
    names = ("file", "", "no", "file/x", "dangling", "\0", "y" * 300)
    assert [[look(tmp_path / name) for look in looks] for name in names] == [
        *([True, True, False], [True, False, True]),
        *(5 * [[False, False, False]]),
    ]
    for look in looks:
        with pytest.raises(DataError, match="expected a readable file"):
            look(tmp_path / "loop")


def test_entries_are_sorted_and_may_be_in_sub_folders(tmp_path: Path) -> None:
    for name in ("b/2.x", "b/1.x", "a/3.x", "a/y", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in files.matching(tmp_path, "*/*.x")]
    assert found == ["a/3.x", "b/1.x", "b/2.x"]
    assert files.matching(tmp_path, "c/*") == files.matching(tmp_path / "no", "*") == []


def test_files_without_an_end_are_not_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(DataError, match="found a pipe or a device, expected a regular file"):
            files.open_regular(path)
    with pytest.raises(DataError, match="/dev/zero: found more than 1 MB"):
        files.read_bytes(Path("/dev/zero"), 1 << 20)


def test_an_error_while_reading() -> None:
    memory = Path("/proc/self/mem")
    with files.open_to_read(memory) as file:
        for read in (file.read, file.readline, file.peek, lambda: file.read1(9)):
            with pytest.raises(MachineError, match="^/proc/self/mem: cannot be read: Input/output error$"):
                read()


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no"))
    with pytest.raises(MachineError, match="no: cannot be written: No such file"), files.temporary_folder():
        pass

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.gettempdir", none)
    with pytest.raises(MachineError, match="found no folder that can be written .* TMPDIR"), files.temporary_folder():
        pass
