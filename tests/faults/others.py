"""Faults other than signals: ranks that fail by themselves, and what may happen to a run folder and to the clock."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path

from support.mpi import launcher
from support.sharing import read_only

from faults.inside import FAULT
from faults.stores import flipped_bits
from faults.task import EPOCHS, RANKS, Outcome, Task, contents, finished
from faults.world import WHOLE, World
from mpitune.errors import MachineError, StopRequested, UsageError

Fault = Callable[[Task, list[str]], Iterator[Outcome]]
"""Does a fault to runs of a task in a folder, by a launcher's command line."""

PLACES = ["1/grammar extracted/1", "1/sentence decoded/10", "2/devtest decoded/3", "0/checkpoint written/3"]
"""Where a rank of a run that goes on after each failure fails: rank, step, how often it has come there."""
FAILURES = {
    "a rank raises": ["raise"],
    "a rank calls sys.exit": ["sys.exit(0)", "sys.exit(5)"],
    "a rank calls os._exit": ["os._exit(0)", "os._exit(5)"],
}


def told(said: str) -> list[str]:
    """The lines in which mpitune says what is wrong."""
    return [line for line in said.splitlines() if line.startswith("mpitune: ")]


def rank_fails(kind: str, task: Task, start: list[str], places: Sequence[str] = PLACES) -> Iterator[Outcome]:
    """A rank fails in the ways of `FAILURES`, in each of ``places``: the others do not wait for it."""
    folder = task.new()
    run, outcomes = folder / "run", []
    for place, action in zip(places, cycle(FAILURES[kind]), strict=False):
        with World(RANKS, task.train(run), folder, start=start, fault=f"{place}/{action}") as world:
            assert world.wait_for(FAULT), f"{place}: not reached\n{world.said}"
            before = finished(run)
            left, seconds = world.end()
            # What ends without a word to Python is the launcher's to judge, and some judge mildly.
            assert world.code == 1 or "os._exit" in action, world.said
        outcomes.append(Outcome(kind, max(before - finished(run), 0), task.sound(run), left, seconds))
        for path in run.glob("traceback-*.txt"):
            path.unlink()
    same = task.ends_the_same(run, start)
    yield from (outcome._replace(same=outcome.same and same) for outcome in outcomes)


def interrupted_at_start(task: Task, start: list[str]) -> Iterator[Outcome]:
    """One rank alone gets Ctrl-C when it has just met the others."""
    folder, outcomes = task.new(), []
    run = folder / "run"
    for rank in range(RANKS):
        fault = f"{rank}/connected/1/SIGINT"
        with World(RANKS, task.train(run), folder, start=start, fault=fault) as world:
            left, seconds = world.end()
            assert world.code or start != launcher(), world.said
        outcomes.append(Outcome("a rank is interrupted at its start", 0, True, left, seconds))
    same = task.ends_the_same(run, start)
    yield from (outcome._replace(same=same) for outcome in outcomes)


STOPS = (
    "0/shard kept/2/SIGTERM",
    "1/sentence decoded/9/SIGUSR1",
    "2/devtest decoded/3/SIGTERM",
    "0/exchange/2/SIGINT",
    "1/kernels loaded/1/SIGTERM",
)
"""Ranks that alone are asked to stop, and where."""


def one_rank_asked(task: Task, start: list[str], stops: Sequence[str] = STOPS) -> Iterator[Outcome]:
    """One rank alone is asked to stop: all stop by the end of the epoch, and say so once."""
    for stop in stops:
        folder = task.new()
        run = folder / "run"
        with World(RANKS, task.train(run), folder, start=start, fault=stop) as world:
            left, seconds = world.end()
            assert world.code == StopRequested.exit_code or start != launcher(), world.said
            assert len(told(world.said)) == 1 and "finished work is kept" in world.said, world.said
        assert finished(run) < EPOCHS, f"{stop}: went on"
        yield Outcome("one rank is asked to stop", 0, task.ends_the_same(run, start), left, seconds)


def folder_removed(task: Task, start: list[str]) -> Iterator[Outcome]:
    """The run folder is removed at different steps: an error, clear and in time, and nothing of it comes back."""
    folder = task.new()
    run, away = folder / "run", folder / "away"
    for place in ("language model read/1", "devtest decoded/2", "shard kept/3", "exchange/2"):
        with World(RANKS, task.train(run), folder, start=start, fault=f"0/{place}/stop") as world:
            with world.at_rest():
                run.rename(away)
            left, seconds = world.end()
            assert world.code == MachineError.exit_code, world.said
            lines = told(world.said)
            assert lines and all(str(run) in line for line in lines) and "Traceback" not in world.said, world.said
        assert not run.exists(), f"{place}: what was removed does not come back"
        shutil.rmtree(away)
        yield Outcome("run folder removed", 0, task.ends_the_same(run, start), left, seconds)
        shutil.rmtree(run)


def folder_replaced(task: Task, start: list[str]) -> Iterator[Outcome]:
    """The run folder is moved away and another one, as of a second run, takes its place: the first run gives way."""
    folder = task.new()
    run, other = folder / "run", folder / "other"
    with World(RANKS, task.train(run), folder, start=start, fault="0/exchange/3/stop") as world:
        with world.at_rest():
            shutil.copytree(run, other)
            run.rename(folder / "elsewhere")
            other.rename(run)
        left, seconds = world.end()
        assert world.code == MachineError.exit_code and told(world.said), world.said
        assert finished(run) == 2, "what is another's was written to"
    yield Outcome("run folder replaced", 0, task.ends_the_same(run, start), left, seconds)


def two_runs(task: Task, start: list[str], ways: Sequence[bool] = (False, True)) -> Iterator[Outcome]:
    """A second run in the folder of one that trains, and two that start at once: one goes on, the other is refused."""
    folder = task.new()
    for at_once in ways:
        run, fault = folder / f"run-{at_once}", "" if at_once else "0/exchange/3/stop"
        with World(RANKS, task.train(run), folder, start=start, fault=fault) as first, ExitStack() as stack:
            if not at_once:
                stack.enter_context(first.at_rest())
            before = finished(run)
            with World(RANKS, task.train(run, "--resume", "never"), folder, start=start) as second:
                left, seconds = second.end(WHOLE)
            stack.close()
            left += first.end(WHOLE)[0]
            refused = [world for world in (first, second) if world.code]
            # Of two that start at once, one may be through before the other has found its data.
            assert refused == [second] or (at_once and len(refused) < 2), [first.said, second.said]
            for world in refused:
                assert world.code == UsageError.exit_code, world.said
                assert len(told(world.said)) == 1 and "is in use by process" in world.said, world.said
        lost = max(before - finished(run), 0)
        yield Outcome("two runs in one folder", lost, task.ends_the_same(run, start), left, seconds)


def stale_lock(task: Task, start: list[str]) -> Iterator[Outcome]:
    """A lock that its process has left behind, as it lies after a crash: a name in a file locks nothing."""
    folder = task.new()
    owners = {
        "dead": f"process 4194304 on {socket.gethostname()}\n",
        "another's by now": f"process {os.getpid()} on {socket.gethostname()}\n",
        "of another host": "process 1 on another.host\n",
    }
    for name, owner in owners.items():
        run = folder / name.replace(" ", "-")
        run.mkdir()
        (run / "lock").write_text(owner)
        yield Outcome("stale lock", 0, task.ends_the_same(run, start), 0, 0.0)


def clock_set_back(task: Task, start: list[str]) -> Iterator[Outcome]:
    """The wall clock goes back while a run trains, and was set back by a day between a run and its next life."""
    kind, folder = "clock set back", task.new()
    run = folder / "run"
    with World(RANKS, task.train(run), folder, start=start, fault="0/bitext compiled/1/clock") as world:
        left, _ = world.end(WHOLE)
        assert world.code == 0, world.said
    _check_times(run)
    yield Outcome(kind, 0, task.ends_the_same(run, start), left, 0.0)
    run = folder / "later"
    with World(RANKS, task.train(run), folder, start=start) as world:
        assert world.wait_for("epoch written", 4), world.said
        world.send("launcher", 9)
        left, seconds = world.end()
    before, store = finished(run), _inodes(run / "store")
    tomorrow = time.time() + 86400
    for path in run.rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    same = task.ends_the_same(run, start)
    assert _inodes(run / "store") == store, "made anew"
    assert f"going on after epoch {before}" in (run / "log.txt").read_text()
    _check_times(run)
    yield Outcome(kind, 0, same, left, seconds)


def _inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("*.npz")}


def _check_times(run: Path) -> None:
    epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(epochs) == EPOCHS
    for epoch in epochs:
        times = [epoch["seconds"], *epoch["busy_seconds"], *epoch["wait_seconds"]]
        assert all(0 <= seconds < 3600 for seconds in times), epoch


def read_only_run(task: Task, start: list[str]) -> Iterator[Outcome]:
    """A finished run becomes somebody else's: ranks decode with it as before, and training in it is refused."""
    folder = task.new()
    run, own = folder / "run", folder / "own"
    shutil.copytree(task.folder / "whole", run)
    own.mkdir()
    options = ["--set", f"run.dir={run}", "--input", str(task.folder / "dev.de")]
    decode = ["decode", str(task.folder / "job.toml"), *options, "--output"]
    with World(RANKS, [*decode, own / "before"], folder, start=start) as world:
        assert world.end(WHOLE)[0] == 0 and world.code == 0, world.said
    shutil.rmtree(run / "store" / "decode")
    before = contents(run)
    with read_only(run) as rights:
        with World(RANKS, [*decode, own / "after"], folder, start=[*rights, *start]) as world:
            left, seconds = world.end(WHOLE)
            assert world.code == 0, world.said
        with World(RANKS, task.train(run), folder, start=[*rights, *start]) as world:
            left += world.end()[0]
            assert told(world.said) and "Permission denied" in world.said, world.said
    same = contents(run) == before and (own / "before").read_bytes() == (own / "after").read_bytes()
    yield Outcome("a run in a read-only folder", 0, same and task.ends_the_same(run, start), left, seconds)


BY_ITSELF: list[Fault] = [*(partial(rank_fails, kind) for kind in FAILURES), interrupted_at_start, one_rank_asked]
"""What launchers have a part in."""
OUTSIDE: list[Fault] = [
    folder_removed,
    folder_replaced,
    two_runs,
    stale_lock,
    clock_set_back,
    read_only_run,
    flipped_bits,
]
