"""The batch scripts under a real Slurm on two virtual nodes of this machine (`slurmd`).

Skipped where there is no Slurm (on Debian: apt install slurm-wlm munge), and for others than root.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.mpi import ROOT, launcher
from support.slurmd import Slurm, running_slurm, until
from support.tiny import Tiny, start

pytestmark = pytest.mark.mpi

PMI2 = "srun --mpi=pmi2 --wait=60"
ENDLESS = 3000
"""Epochs of a job that is to be stopped."""


@cache
def has_mpich() -> bool:
    """Whether the MPI of mpi4py is one that ``srun --mpi=pmi2`` can start."""
    command = [sys.executable, "-m", "mpi4py", "--mpi-lib-version"]
    return "MPICH" in subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


class Site:
    """A folder that jobs over the tiny task are submitted from; `mpitune` is in its .venv."""

    def __init__(self, slurm: Slurm, tiny: Tiny, folder: Path) -> None:
        self.slurm, self.tiny, self.folder = slurm, tiny, folder
        command = folder / ".venv" / "bin" / "mpitune"
        command.parent.mkdir(parents=True)
        command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m mpitune "$@"\n')
        command.chmod(0o755)

    def submit(
        self, script: str, *args: str | Path, options: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> str:
        """The number of a job that runs one of our batch scripts, with these ``options`` of sbatch."""
        # Open MPI wants to be asked before it starts anything for root.
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = ["sbatch", "--parsable", *options, ROOT / "slurm" / script, *args]
        return self.slurm.run(*command, cwd=self.folder, environment={**root, **(environment or {})})

    def train(
        self, run: str, *, epochs: int = ENDLESS, ranks: int = 2, nodes: int = 1, launch: str = "", restarts: int = 100
    ) -> str:
        """The number of a job that trains in the folder ``run``; ``launch``: its LAUNCHER, if not the usual one."""
        options = [f"--nodes={nodes}", f"--ntasks={ranks}", f"--ntasks-per-node={ranks // nodes}"]
        environment = {"MAX_RESTARTS": str(restarts), **({"LAUNCHER": launch} if launch else {})}
        return self.submit("train.sbatch", self.job_file(run, epochs), options=options, environment=environment)

    def job_file(self, run: str, epochs: int) -> Path:
        """The job file of the training in ``run``, written anew."""
        return self.tiny.job_file(self.folder / run, learner={"epochs": epochs})

    def epochs(self, run: str) -> int:
        """How many epochs the training in ``run`` has behind it."""
        return len(list((self.folder / run / "checkpoints").glob("epoch-*.h5")))

    def wait_for_epochs(self, job: str, run: str, epochs: int = 2) -> None:
        """Return when the training of ``job`` has got so far."""
        until(lambda: self.epochs(run) >= epochs, f"job {job} has not done {epochs} epochs", lambda: self.log(job))

    def log(self, job: str) -> str:
        """What ``job`` has printed."""
        path = self.folder / f"mpitune-{job}.log"
        return path.read_text() if path.exists() else ""

    def assert_same_bits(self, run: str) -> None:
        """The training in ``run``, which has come to its end, has the result of an unbroken one by a single process."""
        epochs = self.epochs(run)
        self.tiny.train(self.folder / f"unbroken-{run}", learner={"epochs": epochs})
        results = [(self.folder / name / "weights.txt.gz").read_bytes() for name in (run, f"unbroken-{run}")]
        assert results[0] == results[1]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    launcher()
    with running_slurm() as running:
        yield running


@pytest.fixture
def site(slurm: Slurm, tiny: Tiny, tmp_path: Path) -> Iterator[Site]:
    yield Site(slurm, tiny, tmp_path)
    slurm.cancel_all()


def preempt_by_signal(slurm: Slurm, job: str) -> None:
    """As somebody in charge may."""
    slurm.run("scancel", "--batch", "--signal=USR1", job)


def preempt_by_priority(slurm: Slurm, _: str) -> None:
    """As Slurm does for a job of a partition of higher priority."""
    slurm.run("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")


@pytest.mark.parametrize(
    ("preempt", "launch", "nodes"),
    # On several nodes, pmi2 of Slurm 22.05 now and then garbles what MPICH's ranks tell each other of themselves.
    [(preempt_by_signal, "", 1), (preempt_by_priority, "", 2), (preempt_by_signal, PMI2, 1)],
)
def test_preempted_and_requeued_it_ends_with_the_bits_of_an_unbroken_run(
    site: Site, preempt: Any, launch: str, nodes: int
) -> None:
    if launch and not has_mpich():
        pytest.skip("srun --mpi=pmi2 starts MPICH only")
    job = site.train("run", nodes=nodes, launch=launch)
    site.wait_for_epochs(job, "run")
    ranks = [environment for environment in site.slurm.processes_of(job).values() if is_rank(environment)]
    assert len(ranks) == 2 and len({environment["SLURMD_NODENAME"] for environment in ranks}) == nodes
    preempt(site.slurm, job)
    site.slurm.wait_for_requeue(job)
    assert site.slurm.processes_of(job) == {}
    # Open MPI's mpirun ends the ranks when Slurm ends what it runs on another node: what is finished is kept even so.
    if has_mpich() or preempt is preempt_by_signal:
        assert site.log(job).count("mpitune: stopped by SIG") == 1
    check_goes_on(site, job)


def check_goes_on(site: Site, job: str) -> None:
    """The requeued ``job``, made one epoch longer, goes on to the bits of an unbroken run."""
    done = site.epochs("run")
    site.job_file("run", done + 1)
    site.slurm.resume(job)
    ended = site.slurm.wait(job, "COMPLETED", "FAILED")
    assert (ended["JobState"], ended["ExitCode"]) == ("COMPLETED", "0:0"), site.log(job)
    assert f"going on after epoch {done}\n" in site.log(job)
    site.assert_same_bits("run")


def test_a_node_that_is_lost_and_returns(site: Site) -> None:
    job = site.train("run", nodes=2)
    site.wait_for_epochs(job, "run")
    site.slurm.lose("n2")
    try:
        site.slurm.wait_for_requeue(job)
    finally:
        site.slurm.connect("n2")
    until(lambda: site.slurm.run("sinfo", "--noheader", "--format=%T").split() == ["idle"], "n2 does not return")
    check_goes_on(site, job)


def is_rank(environment: dict[str, str]) -> bool:
    """Whether the process of this environment is a rank, told so by MPICH's or Open MPI's launcher."""
    return "PMI_RANK" in environment or "OMPI_COMM_WORLD_RANK" in environment


def test_jobs_stop_at_their_time_limit(site: Site) -> None:
    """Slurm looks at its clock twice a minute: three jobs at once."""
    early, late, last = "early", "late", "last"
    jobs = {
        early: site.train(early, ranks=1, restarts=0),
        late: site.train(late, ranks=2),
        last: site.train(last, ranks=1, restarts=0),
    }
    for run, job in jobs.items():
        site.wait_for_epochs(job, run)
        site.slurm.run("scontrol", "update", f"JobId={job}", f"EndTime=now+{100 if run == early else 1}")
    # So long before its end, it is told to stop; what Slurm sees of that:
    ended = site.slurm.wait(jobs[early], "FAILED", "TIMEOUT")
    assert (ended["JobState"], ended["ExitCode"]) == ("FAILED", "75:0"), site.log(jobs[early])
    # At its end, it has KillWait.
    ended = site.slurm.wait(jobs[last], "FAILED", "TIMEOUT")
    assert (ended["JobState"], ended["ExitCode"]) == ("TIMEOUT", "75:0"), site.log(jobs[last])
    site.slurm.wait_for_requeue(jobs[late])
    for run, job in jobs.items():
        assert site.slurm.processes_of(job) == {}
        assert ("DUE TO TIME LIMIT" in site.log(job)) == (run != early)
        assert site.log(job).count("mpitune: stopped by SIGUSR1") == 1


@pytest.mark.parametrize("launch", ["", PMI2])
def test_a_cancelled_job_leaves_no_process(site: Site, launch: str) -> None:
    if launch and not has_mpich():
        pytest.skip("srun --mpi=pmi2 starts MPICH only")
    job = site.train("run", launch=launch)
    site.wait_for_epochs(job, "run")
    assert len(site.slurm.processes_of(job)) > 2
    site.slurm.run("scancel", job)
    assert site.slurm.wait(job, "CANCELLED", "PENDING")["JobState"] == "CANCELLED"
    assert site.slurm.processes_of(job) == {}
    # Nothing is lost, nothing locked.
    site.tiny.train(site.folder / "run", resume="must", learner={"epochs": site.epochs("run") + 1})
    site.assert_same_bits("run")


def test_a_wrong_launcher_is_refused(site: Site) -> None:
    job = site.train("run", ranks=3, epochs=1, launch="srun --mpi=none")
    ended = site.slurm.wait(job, "COMPLETED", "FAILED")
    assert (ended["JobState"], ended["Restarts"]) == ("FAILED", "0"), site.log(job)
    assert not (site.folder / "run").exists()
    # An Open MPI that was built for a PMIx gives up by itself.
    if has_mpich():
        assert ended["ExitCode"] == "2:0"
        assert "mpitune: 3 processes were started, but MPI sees a world of 1: use `mpirun -n 3" in site.log(job)


def test_a_job_array_translates_all_lines(site: Site) -> None:
    job_file = site.tiny.job_file(site.folder / "run", run={"store": str(site.folder / "store")})
    source, weights = site.tiny.folder / "train.de", site.tiny.folder / "warm"
    job = site.submit("decode.sbatch", job_file, source, "out", "--weights", weights, options=["--array=0-2"])
    for task in range(3):
        ended = site.slurm.wait(f"{job}_{task}", "COMPLETED", "FAILED")
        assert ended["JobState"] == "COMPLETED", (site.folder / f"mpitune-decode-{job}_{task}.log").read_text()
    parts = [(site.folder / f"out.{task}").read_text() for task in range(3)]
    plain = start(1, ["decode", job_file, "--input", source, "--weights", weights])
    assert "".join(parts) == plain.communicate(timeout=120)[0]
    assert all(parts) and not list(site.folder.glob(".out*"))
