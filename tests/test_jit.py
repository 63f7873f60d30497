"""The door to Numba: both ways to compile, and where compiled code is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.mpi import ROOT

from mpitune import jit as door
from mpitune.jit import at, inlined, int64, kernel, prefetch, uint64


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


def twice(pair: Pair, n: int) -> int:
    total = int64(0)
    for k in range(n):
        pair.b[k] = 2 * pair.a[k]
        total += int64(pair.b[k])
    return total


@pytest.mark.kernel
@pytest.mark.parametrize("counting", [False, True])
def test_kernels_work_with_and_without_reference_counting(monkeypatch: pytest.MonkeyPatch, counting: bool) -> None:
    options = {name: value for name, value in door._OPTIONS.items() if name != "_nrt"}
    monkeypatch.setattr(door, "_OPTIONS", {**options, "cache": False} | ({} if counting else {"_nrt": False}))
    for compiled in (kernel, inlined):
        pair = Pair(np.arange(5, dtype=np.int32), np.zeros(5, dtype=np.int32))
        assert compiled(twice)(pair, 4) == 12
        assert pair.b.tolist() == [0, 2, 4, 6, 0]


@pytest.mark.kernel
def test_casts_are_64_bits_wide_in_kernels_and_outside() -> None:
    wide = kernel(lambda a: int64(a[0]) << 32 | int64(uint64(a[0]) >> uint64(1)))
    assert wide(np.array([6], dtype=np.int32)) == (6 << 32 | 3)
    assert int64(np.int32(7)) == uint64(7) == 7


@pytest.mark.kernel
def test_prefetching_is_compiled_to_an_instruction_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Numba does not show code that it loads from its cache.
    monkeypatch.setitem(door._OPTIONS, "cache", False)
    record = np.zeros(4, dtype=[("key", "<i8"), ("value", "<f4")])

    def ask(array: np.ndarray, i: int) -> None:
        prefetch(array, at(i))

    compiled = kernel(ask)
    compiled(record, 3)
    assert not record["key"].any() and not record["value"].any()
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        assert all("llvm.prefetch" in code for code in compiled.inspect_llvm().values())


def test_what_numba_does_not_tell_apart_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    folders = set()
    for checks in ("0", "1"):
        monkeypatch.setenv("NUMBA_BOUNDSCHECK", checks)
        folders.add(door._cache_folder())
        assert door._cache_folder() in folders
    assert len(folders) == 2
    assert all(folder.startswith("/somewhere/mpitune/") for folder in folders)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/elsewhere")
    assert door._cache_folder() == "/elsewhere"


def test_compilation_is_reported_once_and_loading_is_not(tmp_path: Path) -> None:
    source = "from mpitune import jit\nfrom mpitune.jit import kernel\n"
    source += "once, twice = kernel(lambda x: x + 1), kernel(lambda x: x + 2)\n"
    source += "with jit.compilation_reported(print, 'compiling'):\n    once(1), twice(1), once(1.5)\n"
    (tmp_path / "program.py").write_text(source)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DISABLE_JIT": "0"}
    for expected in ("compiling\n", ""):
        done = subprocess.run(
            [sys.executable, tmp_path / "program.py"],
            env={**environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stdout) == (0, expected), done.stderr


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the cache where nothing can be written at home; it is not there yet."""
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"mpitune-{os.getuid()}"


def test_where_nothing_can_be_written_at_home_the_cache_lies_with_temporary_files(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    for _ in range(2):
        assert Path(door._cache_folder() or "").parent == temporary
        assert temporary.stat().st_mode & 0o777 == 0o700
        temporary.chmod(0o755)  # as earlier versions made it
    monkeypatch.setenv("XDG_CACHE_HOME", str(temporary.parent / "home"))
    assert Path(door._cache_folder() or "").parent == temporary.parent / "home" / "mpitune"


def check_refused(temporary: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    assert door._cache_folder() is None
    assert f"{temporary}: found no folder that only this user may write to" in caplog.text


def test_a_cache_folder_that_others_can_write_to_is_not_used(temporary: Path, caplog: pytest.LogCaptureFixture) -> None:
    temporary.mkdir()
    temporary.chmod(0o770)
    check_refused(temporary, caplog)
    temporary.rmdir()
    (temporary.parent / "planted").mkdir(mode=0o700)
    temporary.symlink_to(temporary.parent / "planted")
    check_refused(temporary, caplog)
    temporary.unlink()
    temporary.write_text("")
    check_refused(temporary, caplog)


def test_a_cache_folder_of_another_user_is_not_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    temporary.mkdir(mode=0o700)
    uid = os.getuid()
    planted = temporary.rename(temporary.with_name(f"mpitune-{uid + 1}"))
    monkeypatch.setattr("os.getuid", lambda: uid + 1)
    check_refused(planted, caplog)


def test_without_a_cache_folder_kernels_are_compiled_all_the_same(temporary: Path) -> None:
    temporary.mkdir()
    temporary.chmod(0o777)
    program = "from mpitune.jit import kernel; print(kernel(lambda a: 2 * a)(21))"
    environment = {**os.environ, "TMPDIR": str(temporary.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"
    assert done.stderr.count("found no folder that only this user may write to") == 1
    assert list(temporary.iterdir()) == []
