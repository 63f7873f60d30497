"""Measure CPU time of this process and of child programs, and print tables."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from mpitune.decoder.embedded import chart, cube, kbest, matched, readout, trie


class CpuTime(AbstractContextManager["CpuTime"]):
    """The CPU seconds that this process spends in the block."""

    seconds = 0.0

    def __enter__(self) -> CpuTime:
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._began


class Stages(AbstractContextManager["Stages"]):
    """The CPU seconds that each stage of decoding takes in the block.

    Wraps a timer around the functions that `EmbeddedDecoder` calls. Kernels must be compiled before.
    """

    WHERE: Mapping[str, tuple[ModuleType, str]] = {
        "trie": (trie, "build"),
        "parse": (chart, "parse"),
        "match": (matched, "match"),
        "cube": (cube, "search"),
        "derivations": (kbest, "best_derivations"),
        "read out": (readout, "extract_kbest"),
    }

    def __enter__(self) -> Stages:
        self.seconds = dict.fromkeys(self.WHERE, 0.0)
        with ExitStack() as stack:
            for stage, (module, name) in self.WHERE.items():
                stack.enter_context(patch.object(module, name, partial(self._timed, stage, getattr(module, name))))
            self._patches = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def _timed(self, stage: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with CpuTime() as spent:
            result = function(*arguments, **named)
        self.seconds[stage] += spent.seconds
        return result


class Done(NamedTuple):
    """Times and output of a program."""

    cpu: float
    """Seconds, user and system."""
    wall: float
    """Seconds."""
    output: str
    errors: str


def run(command: Sequence[str | Path], folder: Path, **options: Any) -> Done:
    """Run ``command`` in ``folder`` and wait for it. Raises RuntimeError if it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **options)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Done(cpu, wall, done.stdout, done.stderr)


def mpirun(ranks: int) -> list[str] | None:
    """Beginning of a command line for ``ranks`` ranks: empty for one rank; None if there is no mpirun.

    The mpirun beside this Python takes precedence: it belongs to the MPI that mpi4py loads from the same environment.
    """
    if ranks == 1:
        return []
    path = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    return [path, "-n", str(ranks)] if path else None


def in_turns(measures: Mapping[str, Callable[[], float]], passes: int) -> dict[str, list[float]]:
    """Take ``passes`` values of each measure, alternating (A B A B), so that disturbances affect all of them."""
    taken: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(passes):
        for name, measure in measures.items():
            taken[name].append(measure())
    return taken


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table row by row; rows of one field are notes, printed below the table."""
    notes = []
    print(f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}", sep="\n", flush=True)
    for row in rows:
        if len(row) > 1:
            print(f"| {' | '.join(row)} |", flush=True)
        else:
            notes.append(f"- {row[0]}")
    print("", *notes, *[""] * bool(notes), sep="\n", flush=True)
