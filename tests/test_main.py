"""Signals that ask to stop, from the first instruction of the program on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from support.mpi import ROOT, mpirun

from mpitune.early_signals import AGAIN, is_first_on_machine
from mpitune.errors import StopRequested

SIGNALS = [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP]
WHILE_IMPORTED = """
import os, signal, sys
from mpitune.__main__ import main
module, number = sys.argv.pop(1), int(sys.argv.pop(1))
class Finder:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Finder())
sys.exit(main())
"""
"""A program of mpitune to which a signal is sent while it imports a module."""
WHILE_AT_WORK = """
import os, signal, sys, time
from mpitune.cli import evaluate, parser
def run(options, comm):
    if comm.rank in map(int, os.environ["STOPPED"].split()):
        os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(60)
evaluate.run_evaluate = run
sys.exit(parser.main(["evaluate", "--refs", "a", "--hyps", "b"]))
"""
"""A command that gets a signal on the ranks in the environment variable STOPPED."""


def line(number: signal.Signals) -> str:
    return f"mpitune: stopped by {number.name}: {AGAIN}\n"


def stopped(
    module: str, number: signal.Signals, *arguments: str | Path, hangup: signal.Handlers = signal.SIG_DFL, **more: str
) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that gets the signal while it imports ``module``."""
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IMPORTED, module, str(int(number)), *arguments],
        cwd=ROOT,
        env={**os.environ, **more},
        preexec_fn=partial(signal.signal, signal.SIGHUP, hangup),
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    (tmp_path / "weights").write_text("a 1.5\n")
    return tmp_path / "weights"


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("module", ["mpitune.cli.parser", "argparse", "numpy", "mpitune.cli.weights"])
def test_a_signal_while_modules_are_imported(module: str, number: signal.Signals, weights: Path) -> None:
    assert stopped(module, number, "weights", weights) == (75, "", line(number))


def test_the_first_process_of_a_machine_alone_tells_it(weights: Path) -> None:
    for variable in ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        assert not is_first_on_machine({variable: "1"})
    assert stopped("numpy", signal.SIGTERM, "weights", weights, MPI_LOCALRANKID="1") == (75, "", "")


def test_nohup_ignores_hangups(weights: Path) -> None:
    done = stopped("numpy", signal.SIGHUP, "weights", weights, hangup=signal.SIG_IGN)
    assert done == (0, "a 1.5\n", "")


def test_the_code_of_all_stops_is_the_same(weights: Path) -> None:
    assert stopped("numpy", signal.SIGTERM, "weights", weights)[0] == StopRequested.exit_code


def test_a_command_that_keeps_nothing_is_stopped_while_it_waits(tmp_path: Path) -> None:
    """`import-dtrain` opens a pipe that nobody writes to: no code of its own looks at signals."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "mpitune", "import-dtrain", tmp_path / "pipe", "--output", tmp_path / "job.toml"]
    # The pipe opens when the command has opened it, too; it then reads until it is stopped.
    with (
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process,
        open(tmp_path / "pipe", "w", encoding="utf-8"),
    ):
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=60)[1]
    assert (process.returncode, errors) == (75, line(signal.SIGTERM))
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", ["0 1 2", "0", "2"])
def test_one_rank_tells_of_a_signal_and_all_end(ranks: str) -> None:
    done = mpirun(3, ["-c", WHILE_AT_WORK], environment={"STOPPED": ranks})
    assert done.returncode == 75
    assert done.stderr.count(line(signal.SIGUSR1)) == 1 and done.stderr.count("stopped by") == 1
