from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mpitune.errors import MachineError, UsageError
from mpitune.runtime import log, memory, run_lock
from mpitune.runtime.log import start_logging
from mpitune.runtime.memory import machine_memory
from mpitune.runtime.progress import Progress, ReportedProgress, progress
from mpitune.runtime.run_lock import RunLock
from mpitune.runtime.signals import StopFlag

LOG = logging.getLogger("mpitune.part")


def test_log_lines_carry_rank_and_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(tmp_path, rank=0, size=3)
    LOG.info("epoch %d", 1)
    start_logging(tmp_path, rank=2, size=3)
    LOG.info("not told")
    LOG.warning("odd")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["[0/3] INFO epoch 1", "[2/3] WARNING odd"]
    assert capsys.readouterr().err.splitlines()[0].endswith("[0/3] INFO epoch 1")


def test_only_rank_0_speaks_and_quietly_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(tmp_path, rank=1, size=2)
    LOG.warning("from another rank")
    assert capsys.readouterr().err == ""
    start_logging(tmp_path, rank=0, size=2, quiet=True)
    LOG.info("news")
    LOG.warning("trouble")
    assert "news" not in (error := capsys.readouterr().err) and "trouble" in error
    assert "news" in (tmp_path / "log.txt").read_text()


def test_log_without_a_folder_and_into_an_unwritable_one(tmp_path: Path) -> None:
    start_logging(None)
    with pytest.raises(UsageError, match="cannot write to the run folder"):
        start_logging(tmp_path / "absent")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_logs_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    log.LOG.propagate = True
    clock = Clock()
    with (
        caplog.at_level(logging.INFO, "mpitune"),
        ReportedProgress("epoch 1", 200, log_interval=30, clock=clock) as progress,
    ):
        for _ in range(50):
            clock.now += 2
            progress.advance()
        progress.advance(50)
    assert caplog.messages[0] == "epoch 1: 15/200, 0.5/s, 6:10 left"
    assert len(caplog.messages) == 3
    assert progress.done == 100


def test_progress_keeps_one_line_of_a_terminal() -> None:
    clock, terminal = Clock(), io.StringIO()
    with ReportedProgress("decode", 3, terminal, clock=clock) as progress:
        for _ in range(3):
            clock.now += 1
            progress.advance()
            progress.advance(0)
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn[1:] == [
        "decode: 1/3, 1/s, 0:02 left",
        "decode: 2/3, 1/s, 0:01 left",
        "decode: 3/3, 1/s, 0:00 left",
        "",
    ]


def test_progress_in_hours_and_before_the_first_item() -> None:
    clock = Clock()
    progress = ReportedProgress("x", 100, clock=clock)
    assert progress.line(clock.now + 9) == "x: 0/100"
    progress.advance(1)
    assert progress.line(clock.now + 60.0) == "x: 1/100, 0.0167/s, 1:39:00 left"


def test_progress_of_other_ranks_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("x", 2, rank=1) as silent:
        silent.advance()
        silent.reach(2, 1.0)
    assert type(silent) is Progress
    assert isinstance(progress("x", 2), ReportedProgress)
    assert capsys.readouterr().err == ""


def test_quiet_progress_is_in_the_log_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `mpitune report --watch` can follow a quiet run, too."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    start_logging(tmp_path, quiet=True)
    with progress("x", 2, quiet=True) as spoken:
        assert isinstance(spoken, ReportedProgress)
        spoken._log_interval = 0.0
        spoken.advance()
    assert terminal.getvalue() == ""
    assert "INFO x: 1/2" in (tmp_path / "log.txt").read_text()


def test_progress_tells_the_mean_score() -> None:
    clock = Clock()
    progress = ReportedProgress("epoch 1 of 3", 10, clock=clock)
    clock.now += 2
    progress.reach(4, 1.5)
    assert progress.line(clock.now) == "epoch 1 of 3: 4/10, 2/s, 0:03 left, mean gold score 0.3750"


@pytest.mark.parametrize("number", StopFlag.SIGNALS)
def test_stop_flag_is_set_by_signals(number: signal.Signals) -> None:
    with StopFlag() as stop:
        assert not stop
        os.kill(os.getpid(), number)
        assert stop and stop.signal == number.name


def test_stop_flag_puts_handlers_back() -> None:
    before = [signal.getsignal(number) for number in StopFlag.SIGNALS]
    with StopFlag():
        pass
    assert [signal.getsignal(number) for number in StopFlag.SIGNALS] == before


def test_asked_to_stop_more_than_once_a_process_ends_by_itself() -> None:
    program = (
        "import os, signal, sys; from mpitune.runtime import signals\n"
        "with signals.StopFlag():\n"
        "    os.kill(os.getpid(), signal.SIGUSR1)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.exit(75)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 75


def test_one_interrupt_may_come_twice() -> None:
    with StopFlag() as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == "SIGINT"


def test_a_second_interrupt_kills() -> None:
    program = (
        "import os, signal, sys, time; from mpitune.runtime import signals\n"
        "with signals.StopFlag():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    now = time.monotonic(); signals.time.monotonic = lambda: now + 2\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('alive')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT and done.stdout == ""


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
    lock = RunLock(tmp_path / "run")
    lock.check()
    lock.acquire()
    lock.check()
    (tmp_path / "run").rename(tmp_path / "away")
    for _ in ("removed", "replaced"):
        with pytest.raises(MachineError, match="run: the run folder has been removed or replaced"):
            lock.check()
        second = RunLock(tmp_path / "run")
        second.acquire()
        second.check()
        second.release()
    lock.release()


def test_unwritable_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write to the run folder"):
        RunLock(tmp_path / "file" / "run").acquire()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(MachineError, match="No space left on device"):
        RunLock(tmp_path / "run").acquire()


def test_a_file_system_without_locks_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    log.LOG.propagate = True
    monkeypatch.setattr(run_lock.fcntl, "flock", none)
    lock = RunLock(tmp_path)
    lock.acquire()
    lock.release()
    assert caplog.messages == [f"{tmp_path}: no lock (No locks available): make sure that no other run writes to it"]


def test_peak_memory_is_in_bytes() -> None:
    ballast = bytearray(50_000_000)
    assert 50_000_000 < memory.peak_memory() < 50_000_000_000
    assert len(ballast)


def test_traceback_of_a_bug_is_kept(tmp_path: Path) -> None:
    try:
        [][1]
    except IndexError as error:
        path = log.write_traceback(error, tmp_path, rank=2)
        assert path == tmp_path / "traceback-2.txt"
        assert "IndexError" in path.read_text() and "test_runtime.py" in path.read_text()
        assert log.write_traceback(error, tmp_path / "absent") is None


def test_a_control_group_may_allow_less_memory_than_there_is(tmp_path: Path) -> None:
    """Version 2 (no name), version 1 (memory), and a group above the process's own."""
    groups, root = tmp_path / "cgroup", tmp_path / "groups"
    whole = machine_memory(tmp_path / "absent", root)
    assert whole > 2**20
    (root / "job/step").mkdir(parents=True)
    (root / "memory/batch").mkdir(parents=True)
    groups.write_text("4:memory:/batch\n3:cpuset:/batch\n0::/job/step\n")
    (root / "job/step/memory.max").write_text("max\n")
    (root / "memory/batch/memory.limit_in_bytes").write_text(f"{2**63 - 4096}\n")
    assert machine_memory(groups, root) == whole
    (root / "job/memory.max").write_text("900000\n")
    assert machine_memory(groups, root) == 900_000
    (root / "memory/batch/memory.limit_in_bytes").write_text("700000\n")
    assert machine_memory(groups, root) == 700_000
