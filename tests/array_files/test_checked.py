"""A file of a store is checked when it is new or has changed, and only then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mpitune.array_files.arrays import write_arrays
from mpitune.array_files.checked import open_checked
from mpitune.errors import DataError


class Checks:
    """A check that counts its calls, and refuses negative numbers."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.count += 1
        if arrays["a"].min() < 0:
            raise ValueError("expected no negative numbers")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_arrays(tmp_path / "a.h5", {"a": np.arange(5)}, {})
    return tmp_path / "a.h5"


def record(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def test_an_unchanged_file_is_checked_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Checks()
    assert open_checked(path, check)["a"].tolist() == [0, 1, 2, 3, 4]
    monkeypatch.setattr("mpitune.array_files.arrays.matches_digest", lambda file: pytest.fail("hashed again"))
    assert open_checked(path, check)["a"].tolist() == [0, 1, 2, 3, 4]
    assert check.count == 1


def test_a_file_that_has_changed_is_checked_again(path: Path) -> None:
    check = Checks()
    open_checked(path, check)
    before, content = os.stat(path), bytearray(path.read_bytes())
    content[-1] ^= 1
    with open(path, "r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match=r"a\.h5: found a damaged or missing store \(its bytes do not match"):
        open_checked(path, check)
    write_arrays(path, {"a": np.arange(5)}, {})
    open_checked(path, check)
    assert check.count == 2


def test_a_file_that_fails_its_check_is_never_known(path: Path) -> None:
    write_arrays(path, {"a": -np.arange(5)}, {})
    check = Checks()
    for _ in range(2):
        with pytest.raises(DataError, match="expected no negative numbers"):
            open_checked(path, check)
    assert check.count == 2 and not record(path).exists()


def test_a_record_that_others_may_have_written_does_not_count(path: Path, tmp_path: Path) -> None:
    check = Checks()
    open_checked(path, check)
    record(path).chmod(0o666)
    open_checked(path, check)
    assert check.count == 2
    record(path).rename(tmp_path / "elsewhere")
    record(path).symlink_to(tmp_path / "elsewhere")
    open_checked(path, check)
    assert check.count == 3
    if os.geteuid() == 0:
        os.chown(record(path), 1, 1)
        open_checked(path, check)
        assert check.count == 4


def test_a_folder_without_write_access_needs_no_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError

    monkeypatch.setattr("mpitune.array_files.checked.atomic_replace", refuse)
    assert len(open_checked(path, Checks())["a"]) == 5
