"""Standard output and standard error: closed, full, in another encoding; interrupts before a command runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.mpi import ROOT, mpirun

FULL = "mpitune: standard output: cannot be written: No space left on device\n"
CLOSED = "mpitune: standard {}: found it closed, expected an open file (to discard it: /dev/null)\n"


def shell(command: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run ``command``, in which ``mpitune`` stands for mpitune; $1 and so on are the ``arguments``."""
    script = 'mpitune() { exec "$PYTHON" -m mpitune "$@"; }; ' + command
    given = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", "PYTHON": sys.executable, **environment}
    return subprocess.run(["sh", "-c", script, "sh", *arguments], env=given, capture_output=True, timeout=120)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    (tmp_path / "weights").write_text("R:X:ä:ö 1.5\n", encoding="utf-8")
    return tmp_path / "weights"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["mpitune --version", "mpitune evaluate --help", 'mpitune weights "$1"'])
def test_output_to_a_full_disk(weights: Path, command: str) -> None:
    done = shell(f"{command} > /dev/full", weights)
    assert (done.returncode, done.stderr.decode()) == (4, FULL)


@pytest.mark.slow
def test_messages_to_a_full_disk_are_dropped(weights: Path) -> None:
    assert shell('mpitune weights "$1" 2> /dev/full', weights).stdout == b"R:X:\xc3\xa4:\xc3\xb6 1.5\n"
    assert shell("mpitune weights nowhere 2> /dev/full").returncode == 3


@pytest.mark.slow
def test_closed_streams(weights: Path) -> None:
    """Before any work: a file that is opened then would take the place of the stream."""
    done = shell('mpitune weights "$1" --export "$2" >&-', weights, weights.with_name("export"))
    assert (done.returncode, done.stderr.decode()) == (4, CLOSED.format("output"))
    assert shell('mpitune weights "$1" --export "$2" 2>&-', weights, weights.with_name("export")).returncode == 4
    assert not weights.with_name("export").exists()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin1"])
def test_output_is_utf8_in_every_locale(weights: Path, encoding: str) -> None:
    done = shell('mpitune weights "$1"', weights, PYTHONIOENCODING=encoding, LC_ALL="C")
    assert (done.stdout, done.stderr) == (b"R:X:\xc3\xa4:\xc3\xb6 1.5\n", b"")
    done = shell("mpitune weights nöwhere", PYTHONIOENCODING=encoding)
    assert done.stderr.startswith("mpitune: nöwhere: found no such file".encode())


@pytest.mark.slow
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9"
    Path(os.fsdecode(name)).write_text("ein haus\n")
    done = shell('mpitune evaluate --refs "$1" --hyps "$1"', os.fsdecode(name), PYTHONIOENCODING="utf-8:strict")
    assert done.returncode == 0 and b"/caf\\udce9  0.00" in done.stdout, done.stderr
    done = shell('mpitune evaluate --refs "$1" --hyps "$1-2"', os.fsdecode(name))
    assert done.returncode == 3 and b"/caf\\udce9-2: found no such file" in done.stderr


def test_a_working_folder_that_was_removed(tmp_path: Path) -> None:
    """Even if all names are absolute: some are resolved from it, which had a traceback."""
    removed = 'mkdir "$1/gone" && cd "$1/gone" && rmdir "$1/gone" && mpitune import-dtrain /dev/null'
    done = shell(removed, tmp_path)
    expected = "mpitune: the working folder: found none (No such file or directory), expected one that exists\n"
    assert (done.returncode, done.stderr.decode()) == (4, expected)


def test_an_interrupt_while_modules_are_imported() -> None:
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a process in the background may ignore it
        "from mpitune.__main__ import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.startswith('mpitune.cli'): os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.mpi
def test_ranks_print_usage_errors_and_the_version_once() -> None:
    done = mpirun(3, ["-m", "mpitune", "--version"])
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 1, "")
    done = mpirun(3, ["-m", "mpitune", "train"])
    assert done.returncode == 2 and done.stderr.count("the following arguments are required: JOB.toml") == 1
