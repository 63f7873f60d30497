"""Where compiled code is kept."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from numba import TypingError
from support.mpi import ROOT
from support.sharing import read_only
from support.small_disk import on_a_small_disk

from mpitune.jit import cache as door
from mpitune.jit import compiler, kernel

PROGRAM = """
import numpy as np
from mpitune.jit import compiler
from mpitune.corpus.hashing import extended, mix

compiler.REPORTED = -1.0
compiled = []
with compiler.compilation_reported(compiled.append, "a kernel"):
    mix(np.uint64(1))
    print(extended(np.uint64(1), np.uint64(2)), "compiled" if compiled else "loaded")
"""
"""A kernel that calls another, and that."""
RESULT = "16490336266968443936"
WARNED = "kernels are compiled anew in each process\n"


def python(*arguments: str | Path, **environment: str) -> list[str | Path]:
    """The command that runs Python with these variables alone of those that say where kernels are kept."""
    unset = [f"--unset={name}" for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")]
    given = {"NUMBA_DISABLE_JIT": "0", "PYTHONPATH": str(ROOT)} | environment
    return ["env", *unset, *(f"{name}={value}" for name, value in given.items()), sys.executable, *arguments]


def result(command: Sequence[str | Path]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def said(outcome: str, warning: str = "") -> tuple[int, str, str]:
    return 0, f"{RESULT} {outcome}\n", f"{warning}: {WARNED}" if warning else ""


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has the kernels of the program."""
    folder = tmp_path_factory.mktemp("filled") / "not" / "there" / "yet"
    assert result(python("-c", PROGRAM, NUMBA_CACHE_DIR=str(folder))) == said("compiled")
    return folder


@pytest.fixture
def filled(compiled_once: Path, tmp_path: Path) -> Path:
    shutil.copytree(compiled_once, tmp_path / "filled")
    return tmp_path / "filled"


def files(folder: Path) -> list[Path]:
    """Those of kernels."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != door.LOCKS)


def test_compilation_is_reported_and_loading_is_not(filled: Path) -> None:
    assert result(python("-c", PROGRAM, NUMBA_CACHE_DIR=str(filled))) == said("loaded")


COUNTING = """
import sys
import numpy as np
from numba.core import event
from mpitune.jit.compiler import COMPILED
from mpitune.corpus.hashing import extended, mix

while not sys.stdin.read(1):
    pass
with event.install_recorder(COMPILED) as recorder:
    extended(np.uint64(1), np.uint64(2)), mix(np.uint64(1))
print(sum(seen.is_start for _, seen in recorder.buffer))
"""


def test_processes_that_begin_together_compile_each_kernel_once(tmp_path: Path) -> None:
    command = [str(word) for word in python("-c", COUNTING, NUMBA_CACHE_DIR=str(tmp_path / "cache"))]
    together = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=0) for _ in range(3)
    ]
    for process in together:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    counts = [int(process.communicate(timeout=120)[0]) for process in together]
    assert sum(counts) == len(files(tmp_path)) == 2, counts


def test_a_kernel_that_does_not_compile_is_waited_for_by_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder, calls = door.CacheFolder(), list[tuple[str, str]]()
    monkeypatch.setattr(compiler, "CACHE", folder)
    for method in ("lock", "unlock"):
        monkeypatch.setattr(folder, method, lambda name, method=method: calls.append((method, name)))

    def wrong(x: int) -> int:
        return x.no_such_attribute  # type: ignore[attr-defined,no-any-return]

    wrong.__module__, wrong.__qualname__ = "mpitune.wrong", "wrong"
    with pytest.raises((AttributeError, TypingError)):
        kernel(wrong)(1)
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        (_, locked), (_, unlocked) = calls
        assert locked == unlocked


def test_the_cache_has_kernels_of_the_package_alone(filled: Path, tmp_path: Path) -> None:
    """Their versions are known by the digest of its sources, and no two have the same name."""
    before = files(filled)
    source = "from mpitune.jit import kernel\nonce, twice = kernel(lambda x: x + 1), kernel(lambda x: x + 2)\n"
    (tmp_path / "program.py").write_text(f"{source}print(once(1), twice(1))\n")
    assert result(python(tmp_path / "program.py", NUMBA_CACHE_DIR=str(filled))) == (0, "2 3\n", "")
    assert files(filled) == before


def empty(file: Path) -> None:
    os.truncate(file, 0)


def half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 16
    file.write_bytes(content)


def no_pickle(file: Path) -> None:
    file.write_bytes(door.digest(b"no pickle") + b"no pickle")


def of_another_kernel(file: Path) -> None:
    shutil.copy(next(other for other in files(file.parent) if other != file), file)


@pytest.mark.parametrize(("first", "second"), [(half, empty), (no_pickle, of_another_kernel)])
def test_files_that_are_damaged_are_compiled_and_written_again(
    filled: Path, monkeypatch: pytest.MonkeyPatch, first: Callable[[Path], None], second: Callable[[Path], None]
) -> None:
    before = files(filled)
    first(before[0])
    second(before[1])
    assert result(python("-c", PROGRAM, NUMBA_CACHE_DIR=str(filled))) == said("compiled")
    assert files(filled) == before
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(filled))
    assert {pickle.loads(door.CacheFolder().read(file.name))[0][0] for file in before} == {
        "mpitune.corpus.hashing.extended",
        "mpitune.corpus.hashing.mix",
    }


def test_a_damaged_or_missing_file_is_like_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for damage in (empty, half, flipped, Path.unlink, lambda file: file.write_bytes(b"\x80")):
        door.CacheFolder().write("kernel", bytes(range(100)))
        assert door.CacheFolder().read("kernel") == bytes(range(100))
        damage(*files(tmp_path))
        assert door.CacheFolder().read("kernel") == b""


def test_after_a_failure_nothing_more_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = door.CacheFolder()
    folder.write("before", b"1")
    (files(tmp_path)[0].parent / "kernel").mkdir()
    for name in ("kernel", "after", "kernel"):
        folder.write(name, b"2")
    message = f"{tmp_path}: {os.strerror(errno.EISDIR)}: kernels are compiled anew in each process"
    assert [record.getMessage() for record in caplog.records] == [message]
    assert [file.name for file in files(tmp_path)] == ["before"]
    assert (folder.read("before"), folder.read("kernel"), folder.read("after")) == (b"1", b"", b"")


def test_a_cache_that_cannot_be_written_is_read(filled: Path) -> None:
    with read_only(filled) as rights:
        command = [*rights, *python("-c", PROGRAM, NUMBA_CACHE_DIR=str(filled))]
        assert result(command) == said("loaded")
    shutil.rmtree(next(filled.iterdir()))
    with read_only(filled) as rights:
        assert result(command) == said("compiled", f"{filled}: {os.strerror(errno.EACCES)}")


def test_a_cache_on_a_full_disk(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, python("-c", PROGRAM, NUMBA_CACHE_DIR=str(tmp_path / "cache")), blocks=3)
    warning = f"{tmp_path}/cache: {os.strerror(errno.ENOSPC)}"
    assert (done.returncode, done.stdout, done.stderr) == said("compiled", warning)


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = python("-c", PROGRAM, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert result(command) == said("compiled", f"{tmp_path}/file: {os.strerror(errno.ENOTDIR)}")


UNKNOWN = """
import pwd
def unknown(_):
    raise KeyError("no such user")
pwd.getpwuid = unknown
"""


def test_a_user_without_home_whom_the_system_does_not_know(tmp_path: Path) -> None:
    command = python("-c", UNKNOWN + PROGRAM, TMPDIR=str(tmp_path))
    assert result(command) == said("compiled")
    assert files(tmp_path / f"mpitune-{os.getuid()}")


def test_without_any_folder_kernels_are_compiled_all_the_same() -> None:
    nowhere = "import tempfile\ntempfile._candidate_tempdir_list = lambda: ['/dev/null']\n"
    command = python("-c", nowhere + PROGRAM, HOME="/dev/null")
    warning = "temporary files: No usable temporary directory found in ['/dev/null']"
    assert result(command) == said("compiled", warning)


def test_processes_that_compile_at_once(tmp_path: Path, compiled_once: Path) -> None:
    command = python("-c", PROGRAM, NUMBA_CACHE_DIR=str(tmp_path))
    with ThreadPoolExecutor() as threads:
        outcomes = list(threads.map(result, [command] * 2))
    assert all(code == 0 and output.startswith(RESULT) and not errors for code, output, errors in outcomes)
    assert [file.name for file in files(tmp_path)] == [file.name for file in files(compiled_once)]


def place() -> Path | None:
    return door.CacheFolder()._path


def test_what_numba_does_not_tell_apart_is_kept_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
        folders = set()
        for checks in ("0", "1"):
            monkeypatch.setenv("NUMBA_BOUNDSCHECK", checks)
            folders.add(place())
            assert place() in folders
        assert len(folders) == 2
        assert {folder and folder.parent for folder in folders} == {tmp_path / "mpitune" if "XDG" in name else tmp_path}


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
        assert (place() or Path()).parent == temporary
        assert temporary.stat().st_mode & 0o777 == 0o700
        temporary.chmod(0o755)  # as earlier versions made it
    monkeypatch.setenv("XDG_CACHE_HOME", str(temporary.parent / "home"))
    assert (place() or Path()).parent == temporary.parent / "home" / "mpitune"


def check_refused(temporary: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    folder = door.CacheFolder()
    for _ in range(2):
        folder.write("file", b"")
        assert folder.read("file") == b""
    assert [record.getMessage() for record in caplog.records] == [
        f"{temporary}: found no folder that only this user may write to: kernels are compiled anew in each process"
    ]


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


def test_without_a_trusted_folder_kernels_are_compiled_all_the_same(temporary: Path) -> None:
    temporary.mkdir()
    temporary.chmod(0o777)
    command = python("-c", PROGRAM, HOME="/dev/null", TMPDIR=str(temporary.parent))
    assert result(command) == said("compiled", f"{temporary}: found no folder that only this user may write to")
    assert list(temporary.iterdir()) == []
