"""Signals that ask a run to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mpitune.array_files.atomic import open_atomic
from mpitune.errors import StopRequested
from mpitune.runtime.signals import StopFlag, raised_signals


@pytest.fixture(autouse=True)
def no_nohup() -> Iterator[None]:
    """SIGHUP is not ignored, as it is where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


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


def test_a_hangup_that_is_ignored_stays_so() -> None:
    """As nohup wants it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopFlag() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
    assert not stop and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


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


@pytest.mark.parametrize("resumable", [False, True])
def test_a_signal_interrupts_a_task(resumable: bool) -> None:
    cleared = []
    with (
        StopFlag() as stop,
        pytest.raises(StopRequested, match="stopped by SIGUSR1 in this") as error,
        stop.interrupts("this", resumable=resumable),
    ):
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            cleared.append("not reached")
        finally:
            # A second signal does not interrupt the clearing up.
            os.kill(os.getpid(), signal.SIGTERM)
            cleared.append("cleared")
    assert cleared == ["cleared"]
    assert ("finished work is kept" in str(error.value)) == resumable
    with pytest.raises(StopRequested, match="stopped by SIGUSR1 in that"), stop.interrupts("that"):
        raise AssertionError("a task does not begin after a stop request")


def test_a_signal_outside_of_tasks_is_only_noted() -> None:
    with StopFlag() as stop:
        with stop.interrupts("this"):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == "SIGTERM"


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


# Raised


RAISED = [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP]


@pytest.mark.parametrize("number", RAISED)
def test_a_signal_is_raised_wherever_the_code_is(number: signal.Signals, tmp_path: Path) -> None:
    cleared = []
    with (
        pytest.raises(StopRequested, match=f"^stopped by {number.name}: run the same command again$") as error,
        raised_signals(),
    ):
        # Code that expects an error of what it calls does not take this one for it.
        with suppress(Exception), open_atomic(tmp_path / "file") as file:
            file.write(b"a part")
            file.flush()
            try:
                os.kill(os.getpid(), number)
                cleared.append("not reached")
            finally:
                for further in RAISED:
                    os.kill(os.getpid(), further)
                cleared.append("cleared")
        cleared.append("not reached")
    assert cleared == ["cleared"] and not list(tmp_path.iterdir())
    assert not error.value.on_all_ranks, "the other ranks are to be ended"
    for further in RAISED:
        os.kill(os.getpid(), further)


def test_raised_signals_put_handlers_back_and_leave_ctrl_c_alone() -> None:
    before = [signal.getsignal(number) for number in StopFlag.SIGNALS]
    with raised_signals():
        assert signal.getsignal(signal.SIGINT) == before[-1]
        with StopFlag() as stop:
            pass
        assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN)
    assert not stop and [signal.getsignal(number) for number in StopFlag.SIGNALS] == before


def test_a_stop_flag_catches_a_signal_that_would_be_raised() -> None:
    """And leaves further ones ignored, as by itself."""
    with raised_signals():
        with StopFlag() as stop:
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == "SIGUSR1"
    os.kill(os.getpid(), signal.SIGTERM)


def test_an_ignored_hangup_is_not_raised() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with raised_signals():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
