"""The batch scripts, without SLURM: among stand-ins for its commands and the launchers, and with the real mpirun."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.mpi import ROOT, launcher
from support.tiny import Tiny, wait_for

TRAIN = ROOT / "slurm" / "train.sbatch"
DECODE = ROOT / "slurm" / "decode.sbatch"

ANSWERS = {
    "mpirun": "exit 0",
    "srun": "exit 0",
    "scontrol": "exit 0",
    "squeue": "echo RUNNING None",
    "mpitune": f'PYTHONPATH={ROOT} exec {sys.executable} -m mpitune "$@"',
}
"""What each command does, after its arguments are noted down, where a test doesn't say otherwise."""


class Cluster:
    """A folder that jobs are submitted from, with an environment in .venv, and the commands that they find there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.processes: list[subprocess.Popen[str]] = []
        for command, answer in ANSWERS.items():
            self.make(command, answer)

    def make(self, command: str, answer: str) -> None:
        """Have ``command`` do as ``answer``, a piece of shell, says."""
        path = self.folder / ".venv" / "bin" / command
        path.parent.mkdir(parents=True, exist_ok=True)
        noted = f"printf '%s\\037' \"$@\" >>{self.folder}/{command}.calls; echo >>{self.folder}/{command}.calls"
        path.write_text(f"#!/bin/bash\n{noted}\n{answer}\n")
        path.chmod(0o755)

    def calls(self, command: str) -> list[list[str]]:
        """The arguments of each call of ``command``."""
        path = self.folder / f"{command}.calls"
        return [line.split("\037")[:-1] for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def start(self, script: Path, *args: str | Path, **variables: object) -> subprocess.Popen[str]:
        """Start ``script`` as SLURM does in job 4711.

        What names nodes is left out: the real mpirun would ask SLURM for them.
        """
        slurm = {"SLURM_JOB_ID": 4711, "SLURM_NTASKS": 8, "SLURM_PROCID": 0, "SLURM_SUBMIT_DIR": self.folder}
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PMI"))}
        # No pipes: what outlives the script, if it fails, would keep them open.
        with self.log.open("a") as log:
            process = subprocess.Popen(
                ["bash", str(script), *map(str, args)],
                cwd=self.folder,
                env=outer | {name: str(value) for name, value in (slurm | variables).items()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def run(self, script: Path, *args: str | Path, **variables: object) -> int:
        """Run ``script`` to its end; its exit code."""
        return self.start(script, *args, **variables).wait(timeout=120)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for process in made.processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("script", [TRAIN, DECODE])
def test_scripts_parse_and_can_be_requeued(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    directives = [line for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --requeue" in directives and "#SBATCH --open-mode=append" in directives


# train


def test_arguments_are_passed_on(cluster: Cluster) -> None:
    given = ["jobs/my job.toml", "--set", "run.dir=*", "", "$HOME"]
    assert cluster.run(TRAIN, *given) == 0
    assert cluster.calls("mpirun") == [["mpitune", "train", *given]]


def test_a_requeued_job_continues(cluster: Cluster) -> None:
    given = ["my.toml", "--resume", "never"]
    assert cluster.run(TRAIN, *given, SLURM_RESTART_COUNT=1) == 0
    assert cluster.calls("mpirun") == [["mpitune", "train", *given, "--resume", "auto"]]


def test_another_launcher_is_started_in_place_of_mpirun(cluster: Cluster) -> None:
    assert cluster.run(TRAIN, "my.toml", LAUNCHER="srun --mpi=pmix") == 0
    assert cluster.calls("srun") == [["--mpi=pmix", "mpitune", "train", "my.toml"]]
    assert cluster.calls("mpirun") == []


def test_under_pmi2_each_round_has_its_own_step(cluster: Cluster) -> None:
    for count in ({}, {"SLURM_RESTART_COUNT": 2}):
        assert cluster.run(TRAIN, "my.toml", LAUNCHER="srun --mpi=pmi2 --wait=60", **count) == 0
    train = ["--mpi=pmi2", "--wait=60", "mpitune", "train", "my.toml"]
    assert cluster.calls("srun") == [
        train,
        ["--ntasks=1", "true"],
        ["--ntasks=1", "true"],
        [*train, "--resume", "auto"],
    ]


def test_the_launcher_finds_no_traces_of_another(cluster: Cluster) -> None:
    cluster.make("mpirun", "env >environment")
    assert cluster.run(TRAIN, PMI_SIZE=1, PMIX_RANK=0, SLURM_CPUS_PER_TASK=1, SLURM_TRES_PER_TASK="cpu=1") == 0
    environment = (cluster.folder / "environment").read_text().splitlines()
    assert not [line for line in environment if line.startswith("PMI") or "_PER_TASK" in line]
    assert {"SLURM_MPI_TYPE=none", "SLURM_CPU_BIND=none", "SLURM_EXPORT_ENV=ALL"} < set(environment)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 75, 137])
def test_exit_codes_are_passed_on_and_75_requeues(cluster: Cluster, code: int) -> None:
    cluster.make("mpirun", f"exit {code}")
    assert cluster.run(TRAIN, "my.toml") == code
    assert cluster.calls("scontrol") == ([["requeue", "4711"]] if code == 75 else [])


@pytest.mark.parametrize(
    ("state", "requeued"),
    [("RUNNING None", True), ("COMPLETING TimeLimit", True), ("COMPLETING None", False), ("", False)],
)
def test_a_cancelled_job_stays_dead(cluster: Cluster, state: str, requeued: bool) -> None:
    cluster.make("mpirun", "exit 75")
    cluster.make("squeue", f"echo {state}")
    assert cluster.run(TRAIN, "my.toml") == 75
    assert bool(cluster.calls("scontrol")) == requeued
    assert "--job=4711" in cluster.calls("squeue")[0]


@pytest.mark.parametrize(("count", "requeued"), [(2, True), (3, False)])
def test_restarts_come_to_an_end(cluster: Cluster, count: int, requeued: bool) -> None:
    cluster.make("mpirun", "exit 75")
    assert cluster.run(TRAIN, "my.toml", MAX_RESTARTS=3, SLURM_RESTART_COUNT=count) == 75
    assert bool(cluster.calls("scontrol")) == requeued


@pytest.mark.parametrize("numbers", [[signal.SIGUSR1], [signal.SIGTERM], [signal.SIGUSR1, signal.SIGTERM]])
def test_signals_reach_the_launcher_which_is_waited_for(cluster: Cluster, numbers: list[signal.Signals]) -> None:
    told, end = cluster.folder / "told", cluster.folder / "end"
    cluster.make(
        "mpirun", f"trap 'echo USR1 >>{told}' USR1\ntouch {told}\nuntil [ -e {end} ]; do sleep 0.02; done\nexit 75"
    )
    process = cluster.start(TRAIN, "my.toml")
    wait_for(told.exists, process)
    for count, number in enumerate(numbers, start=1):
        process.send_signal(number)
        wait_for(lambda: told.read_text() == count * "USR1\n", process)  # noqa: B023
    assert cluster.calls("scontrol") == [] and process.poll() is None
    end.touch()
    assert process.wait(timeout=120) == 75
    assert cluster.calls("scontrol") == [["requeue", "4711"]]


@pytest.mark.mpi
def test_a_job_that_is_told_to_stop_goes_on_when_requeued(cluster: Cluster, tiny: Tiny) -> None:
    learner: dict[str, Any] = {"epochs": 300}
    run, variables = cluster.folder / "run", {"LAUNCHER": " ".join([*launcher(), "-n", "2"]), "SLURM_NTASKS": 2}
    job = tiny.job_file(run, learner=learner)
    process = cluster.start(TRAIN, job, "--quiet", **variables)
    wait_for((run / "checkpoints" / "epoch-0002.h5").exists, process)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=120) == 75
    assert cluster.log.read_text().count("mpitune: stopped by SIGUSR1") == 1
    assert cluster.calls("scontrol") == [["requeue", "4711"]]
    learner["epochs"] = len(list((run / "checkpoints").glob("*.h5"))) + 1
    assert tiny.job_file(run, learner=learner) == job
    assert cluster.run(TRAIN, job, "--quiet", SLURM_RESTART_COUNT=1, **variables) == 0
    tiny.train(cluster.folder / "unbroken", learner=learner)
    weights = [gzip.decompress((cluster.folder / name / "weights.txt.gz").read_bytes()) for name in ("run", "unbroken")]
    assert weights[0] == weights[1]
    assert "going on after epoch" in (run / "log.txt").read_text()


# decode

COPY = """
while [ $# -gt 0 ]; do
    case $1 in --input) input=$2 ;; --output) output=$2 ;; esac
    shift
done
cp "$input" "$output"
"""


def task(number: int, count: int) -> dict[str, int]:
    """What SLURM tells task ``number`` of an array of ``count``."""
    return {"SLURM_ARRAY_TASK_ID": number, "SLURM_ARRAY_TASK_COUNT": count, "SLURM_ARRAY_TASK_MAX": count - 1}


def joined(folder: Path, output: str) -> str:
    """The parts of ``output``, in the order in which a shell names them."""
    return "".join(path.read_text() for path in sorted(folder.glob(f"{output}.*")))


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize(("lines", "tasks"), [(7, 1), (7, 3), (7, 7), (5, 12), (0, 2)])
def test_parts_hold_every_line_once(cluster: Cluster, lines: int, tasks: int, gzipped: bool) -> None:
    cluster.make("mpitune", COPY)
    text = "\n".join(f"satz {n}\t&  \\1" for n in range(lines))
    source = cluster.folder / "in put.de"
    source.write_bytes(gzip.compress(text.encode()) if gzipped else text.encode())
    for number in range(tasks):
        assert cluster.run(DECODE, "my.toml", source.name, "out", "--nbest", "2", **task(number, tasks)) == 0
    assert joined(cluster.folder, "out") == (f"{text}\n" if text else "")
    assert len(list(cluster.folder.glob("out.*"))) == tasks
    assert not list(cluster.folder.glob(".out*")), "nothing is left behind"
    for call in cluster.calls("mpitune"):
        assert call[:4] == ["decode", "my.toml", "--nbest", "2"] and "--set" not in call


def test_parts_may_be_done_again(cluster: Cluster) -> None:
    cluster.make("mpitune", COPY)
    (cluster.folder / "in.de").write_text("".join(f"{n}\n" for n in range(40)))
    only = {"SLURM_ARRAY_TASK_ID": 3, "SLURM_ARRAY_TASK_COUNT": 2, "SLURM_ARRAY_TASK_MAX": 7}
    assert cluster.run(DECODE, "my.toml", "in.de", "out", **only) == 2
    assert cluster.run(DECODE, "my.toml", "in.de", "out", PARTS=11, **only) == 0
    assert joined(cluster.folder, "out") == "10\n11\n12\n13\n"
    assert (cluster.folder / "out.03").exists()


def test_what_cannot_be_done_is_refused(cluster: Cluster) -> None:
    source = cluster.folder / "in.de"
    source.write_bytes(gzip.compress(bytes(range(256)) * 100)[:-100])
    from_one = {"SLURM_ARRAY_TASK_ID": 1, "SLURM_ARRAY_TASK_COUNT": 2, "SLURM_ARRAY_TASK_MAX": 2}
    assert cluster.run(DECODE, "my.toml", "in.de", "out", **from_one) == 2
    assert cluster.run(DECODE, "my.toml", "in.de", **task(0, 1)) == 2
    assert cluster.run(DECODE, "my.toml", "in.de", "out", **task(0, 1)) == 1
    assert cluster.run(DECODE, "my.toml", "none.de", "out", **task(0, 1)) == 1
    assert cluster.calls("mpitune") == [] and not list(cluster.folder.glob("*out*"))
    cluster.make("mpitune", "exit 3")
    source.write_text("x\n")
    assert cluster.run(DECODE, "my.toml", "in.de", "none/out", **task(0, 1)) == 1
    assert cluster.run(DECODE, "my.toml", "in.de", "out", **task(0, 1)) == 3


@pytest.mark.parametrize("own_grammars", [False, True])
def test_tasks_at_the_same_time(cluster: Cluster, tiny: Tiny, own_grammars: bool) -> None:
    """They share a store that none has made yet; with grammars of their own, each makes itself one."""
    run, source = cluster.folder / "run", cluster.folder / "data" / "in.de"
    shutil.copytree(tiny.folder, source.parent, ignore=shutil.ignore_patterns("stores", "*.toml"))
    tables: dict[str, Any] = {"grammar": {"file": None, "per_sentence": True}} if own_grammars else {}
    job = tiny.job_file(run, run={"store": str(cluster.folder / "store")}, **tables)
    text = (tiny.folder / ("own.de" if own_grammars else "dev.de")).read_text()
    if own_grammars:
        # One beside the input, one in the working folder, one by its whole path.
        shutil.copy(tiny.folder / "own.1", cluster.folder / "elsewhere")
        text = text.replace('"own.1"', '"elsewhere"').replace('"own.2"', f'"{tiny.folder}/own.2"')
    source.write_text(text)
    arguments: list[str | Path] = [job, "data/in.de", "out", "--weights", tiny.folder / "warm"]
    if own_grammars:
        arguments += ["--set", "grammar.folder=/"]
    processes = [cluster.start(DECODE, *arguments, **task(number, 3)) for number in range(3)]
    for process in processes:
        assert process.wait(timeout=120) == 0, cluster.log.read_text()
    assert cluster.run(DECODE, job, "data/in.de", "whole", *arguments[3:]) == 0
    assert joined(cluster.folder, "out") == (cluster.folder / "whole.0").read_text()
    assert len(joined(cluster.folder, "out").splitlines()) == len(text.splitlines())
    assert (cluster.folder / "store").exists() != own_grammars
