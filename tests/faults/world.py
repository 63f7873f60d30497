"""A run of several processes, started by a launcher, as seen and disturbed from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from support.mpi import ROOT, launcher

from faults.inside import FAULT

INSIDE = Path(__file__).with_name("inside.py")
LIMIT = 60.0
"""Seconds after which a world that had a fault counts as hanging; where all is well, it takes less than one."""
WHOLE = 600.0
"""The same of a world that may have all its work still to do, on a busy machine."""
_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@cache
def launchers() -> list[list[str]]:
    """Command lines that start one world of several ranks of this Python: what lies beside it, and on the PATH."""
    beside = Path(sys.executable).parent
    paths = [Path(folder or ".") / "mpirun" for folder in os.environ["PATH"].split(os.pathsep)]
    found, known = [launcher()], {Path(launcher()[0]).read_bytes()}
    for path in (beside / "mpiexec.gforker", *paths):
        if path.is_file() and path.read_bytes() not in known and _forms_a_world(path):
            found.append([str(path)])
            known.add(path.read_bytes())
    return found


def _forms_a_world(path: Path) -> bool:
    ask = "from mpi4py.MPI import COMM_WORLD as world; all = world.gather(world.size); all and print(len(all))"
    command, environment = [path, "-n", "2", sys.executable, "-c", ask], {**os.environ, **_ROOT}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout == "2\n"


class World:
    """``mpitune ARGUMENTS`` on some ranks, every process of it known by a mark in its environment."""

    def __init__(
        self,
        ranks: int,
        arguments: Sequence[str | os.PathLike[str]],
        folder: Path,
        *,
        start: Sequence[str] = (),
        fault: str = "",
    ) -> None:
        """``start``: a launcher's command line, the one beside this Python if not given; ``fault``: see `inside`."""
        mark = uuid.uuid4().hex
        self._mark = f"FAULT_WORLD={mark}".encode()
        self.steps = folder / f"{mark}.steps"
        self._said = folder / f"{mark}.said"
        command = [*(start or launcher()), "-n", str(ranks), sys.executable, INSIDE, *arguments]
        own = {"PYTHONPATH": str(ROOT), "FAULT_WORLD": mark, "FAULT_STEPS": str(self.steps), "FAULT": fault}
        with open(self._said, "wb") as said:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **_ROOT, **own},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    @property
    def said(self) -> str:
        """What its processes wrote to standard output and standard error."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    def processes(self) -> list[int]:
        """The ids of all its processes that are still there: launcher, helpers and ranks."""
        # While a process becomes another program, as the launcher may at its start, its environment is empty.
        found = set() if self.process.poll() is not None else {self.process.pid}
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self._mark in path.read_bytes().split(b"\0"):
                    found.add(int(path.parent.name))
            except OSError:
                continue
        return sorted(found)

    def pid_of(self, rank: int) -> int | None:
        """The process of ``rank``; None where it is gone."""
        marks = {f"{name}={rank}".encode() for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")}
        for pid in self.processes():
            try:
                inside = str(INSIDE).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                own = marks & set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
            except OSError:
                continue
            if inside and own:
                return pid
        return None

    def wait_for(self, step: str, times: int = 1) -> bool:
        """Whether its processes come to ``step`` so many times before the world ends; returns when they have."""
        end, known, reached = time.monotonic() + WHOLE, -1, 0
        while time.monotonic() < end:
            ended = self.process.poll() is not None
            size = self.steps.stat().st_size if self.steps.exists() else 0
            if size != known:
                lines = self.steps.read_text(encoding="utf-8").splitlines() if size else []
                known, reached = size, sum(line.partition(" ")[2] == step for line in lines)
            if reached >= times or ended:
                return reached >= times
            time.sleep(0.003)
        raise AssertionError(f"{step}: not reached in {WHOLE:.0f} seconds\n{self.said}")

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """While rank 0, where its fault is ``stop``, is stopped there; the others then come to wait for it."""
        assert self.wait_for(FAULT), self.said
        pid = self.pid_of(0)
        while _state(pid) != "T":
            time.sleep(0.003)
        yield
        self.send("rank 0", signal.SIGCONT)

    def send(self, victim: str, number: signal.Signals) -> bool:
        """Send a signal to the launcher (``launcher``) or a rank (``rank 1``); whether it was still there."""
        pid = self.process.pid if victim == "launcher" else self.pid_of(int(victim.removeprefix("rank ")))
        if pid is None or self.process.poll() is not None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def end(self, limit: float = LIMIT) -> tuple[int, float]:
        """Wait until no process is left; how many still were after ``limit`` seconds (they are killed), and seconds."""
        start = time.monotonic()
        while (left := self.processes()) and time.monotonic() < start + limit:
            time.sleep(0.05)
        seconds = time.monotonic() - start
        self.__exit__()
        return len(left), seconds

    @property
    def code(self) -> int:
        """The launcher's exit code, once it has ended; negative where a signal ended it."""
        return self.process.wait()


def _state(pid: int | None) -> str:
    """How a process fares: R, S, T (stopped), ..."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
