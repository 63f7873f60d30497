"""Runs on two hosts (`support.hosts`): files that they do not share, hosts that are lost, signals, kernels.

Skipped for others than root, and where there are no programs to make hosts (on Debian: apt install iproute2
openssh-client openssh-server).
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.inside import FAULT
from faults.task import Task, contents, differences, finished, scraps
from faults.world import INSIDE
from support.hosts import Hosts, running_hosts
from support.slurmd import until

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return Task(tmp_path_factory.mktemp("hosts"))


@pytest.fixture(scope="module")
def hosts(task: Task) -> Iterator[Hosts]:
    with running_hosts(2, [task.folder]) as hosts:
        yield hosts


class Run:
    """``mpitune train`` on two hosts, a rank on each, that tells its steps (`faults.inside`)."""

    def __init__(self, hosts: Hosts, task: Task, folder: Path, *more: str, fault: str = "") -> None:
        self.steps = folder.with_suffix(".steps")
        self.steps.touch()
        environment = {"FAULT_STEPS": str(self.steps), "FAULT": fault}
        arguments = task.train(folder, *more)
        self.process = hosts.mpirun({"h1": 1, "h2": 1}, INSIDE, *arguments, environment=environment)

    def wait_for(self, step: str) -> None:
        """Return when a rank has come to ``step``."""

        def come() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return any(line.partition(" ")[2] == step for line in self.steps.read_text().splitlines())

        until(come, f"no rank came to {step}")

    def end(self) -> tuple[int, list[str]]:
        """The exit code, and what mpitune said in the end."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, [line for line in errors.splitlines() if line.startswith("mpitune: ")]


def refused(hosts: Hosts, *arguments: str | Path) -> str:
    """The one line of a run that ends with exit code 2."""
    process = hosts.mpirun({"h1": 1, "h2": 1}, *arguments)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    [line] = [line for line in errors.splitlines() if line.startswith("mpitune: ")]
    return line.removeprefix("mpitune: ")


def check_ends_as_alone(hosts: Hosts, task: Task, run: Path) -> None:
    """Run the job to its end; all that it leaves must be what a run of one process leaves."""
    code, said = Run(hosts, task, run).end()
    assert code == 0, said
    assert (differences(contents(run), task.whole), scraps(run)) == ([], [])


def check_nothing_runs(hosts: Hosts) -> None:
    running: list[str] = []

    def none() -> bool:
        running[:] = [line for name in hosts.names for line in hosts.processes(name)]
        return not running

    until(none, "the run is still there", lambda: str(running), seconds=60)


def test_two_hosts_make_the_bits_of_one_process(hosts: Hosts, task: Task) -> None:
    check_ends_as_alone(hosts, task, task.new())


def test_inputs_may_be_on_the_first_host_alone(hosts: Hosts, task: Task) -> None:
    run, own = task.new(), Path(tempfile.gettempdir()) / "inputs"
    copy = f"mkdir {own} && cp {task.folder}/job.toml {task.folder}/links {task.folder}/*.de {task.folder}/*.en* {own}"
    copy += f" && cp {task.folder}/lm.arpa {own}"
    subprocess.run(hosts.command("h1", "sh", "-c", copy), check=True, timeout=60)
    job = [own / "job.toml", "--set", f"run.dir={run}"]
    for command in (["train", *job], ["decode", *job, "--input", own / "dev.de", "--output", run / "decoded"]):
        process = hosts.mpirun({"h1": 1, "h2": 1}, "-m", "mpitune", *command)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert (run / "weights.txt.gz").read_bytes() == (task.folder / "whole" / "weights.txt.gz").read_bytes()
    assert (run / "decoded").read_text().count("\n") == (task.folder / "dev.de").read_text().count("\n")


@pytest.mark.parametrize("key", ["run.dir", "run.store"])
def test_folders_that_are_not_shared(hosts: Hosts, task: Task, key: str) -> None:
    """Each host has a folder of that name of its own, with what an earlier run has left."""
    own = Path(tempfile.gettempdir()) / f"own-{key}"
    for name in hosts.names:
        subprocess.run(hosts.command(name, "cp", "-r", task.folder / "whole", own), check=True, timeout=60)
    folders = {"run.dir": task.new(), "run.store": task.folder / "whole" / "store"} | {key: own}
    given = [word for name, folder in folders.items() for word in ("--set", f"{name}={folder}")]
    line = refused(hosts, "-m", "mpitune", "train", task.folder / "job.toml", *given)
    assert line == (
        f"{own}: host h2 does not see this folder of host h1: "
        "run.dir and run.store must be on a file system that all hosts share"
    )


OTHER = """
import socket, sys
if socket.gethostname() == "h2":
    import {module} as module
    module.{name} = "0.0.1"
from mpitune.cli.parser import main
sys.exit(main())
"""


def test_another_version_on_the_second_host(hosts: Hosts, task: Task) -> None:
    program = OTHER.format(module="mpitune.run_folder.run_state", name="__version__")
    line = refused(hosts, "-c", program, *task.train(task.new()))
    assert re.fullmatch(
        r"host h2: found mpitune 0\.0\.1, expected [0-9.]+, as on host h1: install the same versions on all hosts, "
        r"or one installation that all share",
        line,
    )


def test_a_dry_run_shows_the_hosts(hosts: Hosts, task: Task) -> None:
    process = hosts.mpirun({"h1": 1, "h2": 2}, "-m", "mpitune", *task.train(task.new()), "--dry-run")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and "[learner]" in output, errors
    titles, first, second = (line for line in errors.splitlines() if line.startswith("h"))
    assert titles.split()[:3] == ["host", "ranks", "cores"]
    assert [line.split()[:2] for line in (first, second)] == [["h1", "1"], ["h2", "2"]]
    assert re.search(r" [+-]\d\.\d{3} s +\d+ us +\d+ MB/s ", second)


LOST = ["1/grammar extracted/2", "1/sentence decoded/40", "1/exchange/2", "0/checkpoint written/2"]
"""Where a rank is, in an extraction, an epoch, an exchange, when the host of rank 1 is lost, ..."""


@pytest.mark.parametrize("place", LOST)
def test_a_host_that_is_lost(hosts: Hosts, task: Task, place: str) -> None:
    """... which ends the run with one line; nothing of it is left anywhere, and nothing that was finished is lost."""
    folder = task.new()
    run = Run(hosts, task, folder, "--set", "parallel.timeout=5", fault=f"{place}/pause")
    run.wait_for(FAULT)
    hosts.unplug("h2")
    try:
        code, [line, *more] = run.end()
        epochs = finished(folder)
    finally:
        hosts.plug("h2")
    assert (code, more) == (4, [])
    assert line.startswith("mpitune: heard nothing from host h2 for 0:05 (parallel.timeout): ")
    check_nothing_runs(hosts)
    assert finished(folder) == epochs and task.sound(folder)
    check_ends_as_alone(hosts, task, folder)


def test_a_request_to_stop_when_a_host_is_lost(hosts: Hosts, task: Task) -> None:
    folder = task.new()
    run = Run(hosts, task, folder, fault="1/sentence decoded/40/pause")
    run.wait_for(FAULT)
    hosts.unplug("h2")
    try:
        signal_mpirun(hosts, signal.SIGTERM)
        code, said = run.end()
    finally:
        hosts.plug("h2")
    assert code == 75
    assert [re.sub(r"finished work.*", "...", line) for line in said] == [
        "mpitune: stopped by SIGTERM in the wait for host h2; ..."
    ]
    check_nothing_runs(hosts)
    check_ends_as_alone(hosts, task, folder)


def test_a_request_to_one_rank_stops_all(hosts: Hosts, task: Task) -> None:
    """At the next sentence, not at the end of the epoch."""
    folder = task.new()
    run = Run(hosts, task, folder, fault="1/sentence decoded/40/SIGTERM")
    code, said = run.end()
    assert code == 75 and len(said) == 1
    decoded = Counter(run.steps.read_text().splitlines())
    assert finished(folder) < 8 and sum(n for step, n in decoded.items() if "decoded" in step) < 8 * 26
    check_ends_as_alone(hosts, task, folder)


KERNELS = """
import socket
import numpy as np
from mpi4py.MPI import COMM_WORLD as world
from numba.core import event
from mpitune.corpus.hashing import extended

world.Barrier()
with event.install_recorder("numba:compile") as recorder:
    extended(np.uint64(1), np.uint64(2))
for text in world.gather(f"{socket.gethostname()} {sum(seen.is_start for _, seen in recorder.buffer)}") or []:
    print(text)
"""
"""Two kernels, one of which calls the other."""


def test_each_host_compiles_kernels_once(hosts: Hosts, tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "kernels")}
    process = hosts.mpirun({"h1": 2, "h2": 2}, "-c", KERNELS, environment=cache)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    counts: Counter[str] = Counter()
    for name, count in (line.split() for line in output.splitlines()):
        counts[name] += int(count)
    assert counts == {"h1": 2, "h2": 2}


def signal_mpirun(hosts: Hosts, number: signal.Signals) -> None:
    script = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f | grep -q '^[^ ]*mpirun ' && echo $f; done; true"
    found = subprocess.run(hosts.command("h1", "sh", "-c", script), capture_output=True, text=True, timeout=60).stdout
    [pid] = [line.split("/")[2] for line in found.splitlines()]
    subprocess.run(hosts.command("h1", "kill", f"-{number.name.removeprefix('SIG')}", pid), check=True, timeout=60)
