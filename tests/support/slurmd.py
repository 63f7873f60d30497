"""A Slurm of our own for tests: munged, slurmctld and a slurmd for each of two virtual nodes, all on this machine."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

NODES = ("n1", "n2")
"""Their CPUs are more than the machine has: a job of a few ranks is to run on any."""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol")
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""Where jobs look for mpirun (that beside this Python comes first, as in `mpi.launcher`), and we for Slurm."""

CONFIGURATION = """\
ClusterName=mpitune
FirstJobId={first_job}
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1,sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=60
MinJobAge=3600
MailProg=/bin/true
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=usual Nodes=n1,n2 Default=YES PriorityTier=1
PartitionName=urgent Nodes=n1,n2 PriorityTier=2 PreemptMode=OFF
"""
CGROUPS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
"""


class CannotStartError(Exception):
    """Why Slurm cannot run here."""


@contextmanager
def running_slurm() -> Iterator[Slurm]:
    """Slurm, while the ``with`` block runs; one at a time on this machine, others wait.

    Skips the test, and says why, where it cannot be had.
    """
    missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing:
        pytest.skip(f"needs Slurm (on Debian: apt install slurm-wlm munge), found no {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("needs root: Slurm's daemons start jobs in the name of others")
    refusals = []
    temporary = Path(tempfile.gettempdir())
    # Not in pytest's folder: the name of munged's socket must be short.
    with (
        (temporary / "mpitune-slurm.lock").open("w") as lock,
        tempfile.TemporaryDirectory(prefix="mpitune-slurm-", ignore_cleanup_errors=True) as folder,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Control groups miss no process of a job; not every machine has those that Slurm wants.
        for tracking in ("cgroup", "linuxproc"):
            slurm = Slurm(Path(folder) / tracking, tracking)
            try:
                try:
                    slurm.start()
                except CannotStartError as error:
                    refusals.append(f"proctrack/{tracking}: {error}")
                    continue
                yield slurm
                return
            finally:
                slurm.stop()
        pytest.skip("Slurm cannot run here: " + "; ".join(refusals))


class Slurm:
    """Slurm's daemons, with all that they read and write in ``folder``, and its commands."""

    def __init__(self, folder: Path, tracking: str) -> None:
        """``tracking``: how Slurm is to know which processes belong to a job, its ProctrackType."""
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self.tracking = tracking
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._of_nodes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the daemons; return when a job has run on both nodes. Raises CannotStartError."""
        for name in ("", "state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        self.configuration.write_text(
            CONFIGURATION.format(
                folder=self.folder,
                tracking=self.tracking,
                ports=_free_ports(1 + len(NODES)),
                # A number of its own for each job: under pmi2, MPICH names shared memory after it (train.sbatch).
                first_job=1 + int(time.time()) % 60_000_000,
            )
        )
        (self.folder / "cgroup.conf").write_text(CGROUPS)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        names = {"key-file": key.name, "socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        # The folder may be of no other user's concern: munged wants it open, or force.
        self._daemon("munged", "--foreground", "--force", *(f"--{k}={self.folder / v}" for k, v in names.items()))
        self._until((self.folder / "munge.socket").exists)
        self._daemon("slurmctld", "-D", "-c")
        for node in NODES:
            self.connect(node)
        self._until(lambda: self.run("sinfo", "--noheader", "--format=%T", check=False).split() == ["idle"])
        try:
            self.run("srun", f"--nodes={len(NODES)}", "--mpi=none", "true")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise CannotStartError(str(error)) from None

    def connect(self, node: str) -> None:
        """Start the daemon of ``node``."""
        self._daemon("slurmd", "-D", "-N", node)
        self._of_nodes[node] = self._daemons[-1]

    def lose(self, node: str) -> None:
        """End all that runs on ``node`` without a word; Slurm is told, as it would find out after SlurmdTimeout."""
        self._daemons.remove(daemon := self._of_nodes.pop(node))
        daemon.kill()
        daemon.wait()
        for pid in processes(SLURM_CONF=str(self.configuration), SLURMD_NODENAME=node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def stop(self) -> None:
        """End all jobs and daemons, and whatever else they may have left."""
        with suppress(subprocess.TimeoutExpired, AssertionError):
            self.cancel_all()
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in reversed(self._daemons):
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=5)
        for pid in processes(SLURM_CONF=str(self.configuration)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for daemon in self._daemons:
            daemon.wait()

    def run(
        self,
        *command: str | Path,
        check: bool = True,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """What a command of Slurm prints, with ``environment`` added to ours; an error where it fails."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd or self.folder,
            env=self._environment(environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr}")
        return done.stdout.strip()

    def job(self, job: str) -> dict[str, str]:
        """What ``scontrol show job`` tells: JobState, ExitCode, Restarts, ..."""
        words = self.run("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, job: str, *states: str) -> dict[str, str]:
        """`job`, as soon as it is in one of ``states``."""
        found: dict[str, str] = {}

        def reached() -> bool:
            found.update(self.job(job))
            return found["JobState"] in states

        until(reached, f"job {job} is not {' or '.join(states)}", say=lambda: str(found))
        return found

    def wait_for_requeue(self, job: str) -> None:
        """Return when ``job``, which has not been requeued before, waits in the queue again."""

        def waits() -> bool:
            found = self.job(job)
            return found["JobState"] == "PENDING" and found["Restarts"] == "1"

        until(waits, f"job {job} is not back in the queue", say=lambda: str(self.job(job)))

    def cancel_all(self) -> None:
        """Cancel all jobs; return when none is left."""
        self.run("scancel", "--user=root", check=False)
        until(lambda: not self.run("squeue", "--noheader", check=False), "jobs outlive scancel")

    def resume(self, job: str) -> None:
        """Have a requeued job run again at once: Slurm would wait for two minutes."""

        def runs() -> bool:
            found = self.job(job)
            if found["JobState"] == "PENDING":
                self.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
            return found["JobState"] != "PENDING"

        # Told so earlier, Slurm forgets it again.
        time.sleep(3)
        until(runs, f"job {job} does not start again", say=lambda: str(self.job(job)))

    def processes_of(self, job: str) -> dict[int, dict[str, str]]:
        """The processes that were started by ``job``, however far they have got from it, and their environments."""
        return processes(SLURM_CONF=str(self.configuration), SLURM_JOB_ID=job)

    def _daemon(self, program: str, *arguments: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._daemons.append(
                subprocess.Popen(
                    [program, *arguments],
                    cwd=self.folder,
                    env=self._environment({}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        # Nothing of a Slurm within which the tests may run.
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "PMI"))}
        return {**outer, "PATH": PATH, "SLURM_CONF": str(self.configuration), **variables}

    def _until(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        """Return when ``condition`` holds; CannotStartError where a daemon ends or nothing comes."""
        deadline = time.monotonic() + seconds
        while not condition():
            ended = any(daemon.poll() is not None for daemon in self._daemons)
            if ended or time.monotonic() > deadline:
                last = (self.folder / "log").read_text(errors="replace").splitlines()[-3:]
                reason = "a daemon ended" if ended else f"not ready after {seconds} s"
                raise CannotStartError(f"{reason}: {' / '.join(last)}")
            time.sleep(0.05)


def until(
    condition: Callable[[], object], otherwise: str, say: Callable[[], str] = lambda: "", seconds: float = 120
) -> None:
    """Return when ``condition`` holds; an error, with what ``say`` says, where it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s: {otherwise}: {say()}")
        time.sleep(0.1)


def processes(**variables: str) -> dict[int, dict[str, str]]:
    """The running processes that have ``variables`` in their environment, by id, and their environments."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        # It may end meanwhile. One that has ended and is not yet waited for has no environment.
        with suppress(OSError):
            pairs = [word.partition("=") for word in (path / "environ").read_text(errors="replace").split("\0")]
            environment = {name: value for name, _, value in pairs}
            if variables.items() <= environment.items():
                found[int(path.name)] = environment
    return found


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
