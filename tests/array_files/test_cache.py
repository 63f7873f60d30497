"""A file of arrays is made once, and again if an input, a setting or the file has changed; it is checked once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from support.small_disk import largest_file

from mpitune.array_files import arrays
from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.cache import Recipe, cached, fingerprint, made_from, open_checked, unchanged
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.ownership import locked


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
    write_arrays(tmp_path / "a.npz", {"a": np.arange(5)}, {})
    return tmp_path / "a.npz"


def record(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def test_an_unchanged_file_is_checked_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Checks()
    assert open_checked(path, check)["a"].tolist() == [0, 1, 2, 3, 4]
    monkeypatch.setattr("mpitune.array_files.arrays._digest", lambda file: pytest.fail("hashed again"))
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
    with pytest.raises(DataError, match=r"a\.npz: found a damaged or missing store \(its bytes do not match"):
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

    monkeypatch.setattr("mpitune.array_files.cache.atomic_replace", refuse)
    assert len(open_checked(path, Checks())["a"]) == 5


class Squares:
    """Makes squares of the numbers in a file, and counts how often it did; may write a text beside them."""

    def __init__(self, folder: Path) -> None:
        self.input, self.text = folder / "numbers", folder / "store" / "text"
        self.input.write_text("1 2 3")
        self.count = 0
        self.recipe = Recipe(folder / "store" / "a.npz", [self.input], {"of": "numbers", "list": [1]}, Checks())

    def __call__(self) -> dict[str, np.ndarray]:
        self.count += 1
        if self.recipe.outputs:
            self.text.write_text("made")
        return {"a": np.array([int(number) ** 2 for number in self.input.read_text().split()])}

    def made(self) -> list[str]:
        return cached(self.recipe, self)

    def content(self) -> list[int]:
        squares: list[int] = open_arrays(self.recipe.path)["a"].tolist()
        return squares


@pytest.fixture
def squares(tmp_path: Path) -> Squares:
    return Squares(tmp_path)


def test_a_file_is_made_once(squares: Squares, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert squares.made() == ["a.npz"] and squares.made() == [] and squares.content() == [1, 4, 9]
    assert caplog.messages == [f"{squares.recipe.path}: building it"]
    os.utime(squares.input, ns=(1, 1))
    assert squares.made() == [], "touched"
    squares.input = squares.input.rename(squares.input.with_name("moved"))
    squares.recipe = squares.recipe._replace(inputs=[squares.input])
    assert squares.made() == [] and squares.count == 1, "the same content elsewhere"


def test_another_input_or_setting_makes_it_anew(squares: Squares, caplog: pytest.LogCaptureFixture) -> None:
    squares.made()
    squares.input.write_text("1 2 4")
    assert squares.made() == ["a.npz"] and squares.content() == [1, 4, 16]
    squares.recipe = squares.recipe._replace(settings={"of": "numbers", "list": [2]})
    caplog.set_level("INFO")
    assert squares.made() == ["a.npz"] and squares.made() == []
    assert caplog.messages == [f"{squares.recipe.path}: stale: rebuilding it"]
    squares.recipe = squares.recipe._replace(inputs=[squares.input, squares.input])
    assert squares.made() == ["a.npz"] and squares.count == 4


@pytest.mark.parametrize("size", [0, 100, -8])
def test_a_damaged_file_is_made_anew(squares: Squares, size: int) -> None:
    squares.made()
    whole = squares.recipe.path.read_bytes()
    squares.recipe.path.write_bytes(whole[:size])
    assert squares.made() == ["a.npz"] and squares.recipe.path.read_bytes() == whole


@pytest.mark.parametrize("manifest", [{}, {"inputs": None, "settings": 1}, {"inputs": [[1]], "outputs": []}, {"a": 1}])
def test_a_manifest_of_another_kind_is_stale(squares: Squares, manifest: dict[str, object]) -> None:
    squares.made()
    whole = squares.recipe.path.read_bytes()
    for settings in ({}, {"settings": squares.recipe.settings}):
        write_arrays(squares.recipe.path, open_arrays(squares.recipe.path), manifest | settings)
        assert squares.made() == ["a.npz"] and squares.recipe.path.read_bytes() == whole


def test_further_files_belong_to_it(squares: Squares, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    squares.recipe = squares.recipe._replace(outputs=[squares.text])
    for _ in range(2):
        assert squares.made() == ["a.npz"] and squares.made() == []
        squares.text.write_text("changed")
    squares.made()
    squares.text.unlink()
    assert squares.made() == ["a.npz"] and squares.text.read_text() == "made"
    assert caplog.messages[:2] == [f"{squares.text}: building it", f"{squares.text}: stale: rebuilding it"]


def test_an_input_that_changes_while_it_is_read_is_read_again(squares: Squares) -> None:
    def make() -> dict[str, np.ndarray]:
        made = squares()
        squares.input.write_text("1 2 5")
        return made

    assert cached(squares.recipe, make) == ["a.npz"]
    assert squares.made() == ["a.npz"] and squares.content() == [1, 4, 25]


def test_the_file_of_an_earlier_version_gives_way(squares: Squares, caplog: pytest.LogCaptureFixture) -> None:
    store = squares.recipe.path.parent
    with locked(store, "store"):
        (store / "a.h5").write_bytes(b"mpitune: HDF5 data follow")
        (store / ".a.h5.checked").write_text("[]")
    caplog.set_level("INFO")
    assert squares.made() == ["a.npz"]
    assert caplog.messages == [f"{squares.recipe.path}: of an older version: rebuilding it"]
    assert sorted(os.listdir(store)) == [".a.npz.checked", "a.npz", "lock"]


def test_what_cannot_be_made_leaves_the_old_file(squares: Squares) -> None:
    squares.made()
    whole = squares.recipe.path.read_bytes()
    squares.input.write_text("1 2 x")
    with pytest.raises(ValueError):
        squares.made()
    squares.input.write_text("1 2 " * 5000)
    with pytest.raises(MachineError, match=r"a\.npz: cannot be written: File too large"), largest_file(20_000):
        squares.made()
    assert squares.recipe.path.read_bytes() == whole
    assert sorted(os.listdir(squares.recipe.path.parent)) == [".a.npz.checked", "a.npz", "lock"]


def test_another_process_makes_it_while_this_one_waits(squares: Squares, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def wait(folder: Path, kind: str) -> Iterator[None]:
        with locked(folder, kind):
            write_arrays(squares.recipe.path, squares(), made_from([squares.input], squares.recipe.settings) | NONE)
            yield

    monkeypatch.setattr("mpitune.array_files.cache.locked", wait)
    assert squares.made() == [] and squares.count == 1


NONE: dict[str, list[str]] = {"outputs": []}


def test_what_is_up_to_date_is_only_read(squares: Squares, monkeypatch: pytest.MonkeyPatch) -> None:
    squares.made()

    def refuse(folder: Path, kind: str) -> None:
        raise UsageError(f"{folder}: cannot be written: Permission denied")

    monkeypatch.setattr("mpitune.array_files.cache.locked", refuse)
    assert squares.made() == []
    squares.input.write_text("4")
    with pytest.raises(UsageError, match=r"a\.npz: stale, and cannot be built: .*store: cannot be written"):
        squares.made()
    squares.recipe.path.write_bytes(b"")
    with pytest.raises(UsageError, match=r"a\.npz: damaged or of an older version, and cannot be built"):
        squares.made()
    squares.recipe.path.unlink()
    with pytest.raises(UsageError, match=r"a\.npz: missing, and cannot be built"):
        squares.made()


def test_a_file_of_a_newer_version_is_kept(squares: Squares, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(arrays, "VERSION", 9)
        squares.made()
    newer = squares.recipe.path.read_bytes()
    with pytest.raises(UsageError, match=rf"{re.escape(str(squares.recipe.path))}: made by a newer mpitune"):
        squares.made()
    assert squares.recipe.path.read_bytes() == newer


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_a_file_is_unchanged_by_time_or_by_content(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "eins")
    known = fingerprint(path)
    assert known.size == 4
    assert unchanged(known, path)
    os.utime(path, ns=(1, 1))
    assert unchanged(known, path), "same content at another time"
    assert unchanged(known, write(tmp_path / "b", "eins")), "same content elsewhere"
    other = write(tmp_path / "c", "zwei")
    os.utime(other, ns=(known.mtime_ns, known.mtime_ns))
    assert not unchanged(known, other), "another file of the same size and time"
    write(path, "vier")
    os.utime(path, ns=(2, 2))
    assert not unchanged(known, path)
    assert not unchanged(known, write(path, "eins und mehr"))
    path.unlink()
    assert not unchanged(known, path)
    with pytest.raises(DataError, match="no such file"):
        fingerprint(path)
