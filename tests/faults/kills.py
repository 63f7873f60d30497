"""Signals to ranks and the launcher at any point of a run: each run has several lives, and is to end as with one."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from signal import Signals
from typing import NamedTuple

from support.mpi import launcher

from faults.inside import END, START
from faults.task import EPOCHS, RANKS, SHARDS, Outcome, Task, finished
from faults.world import World

FIRST = ["bitext compiled", "grammar extracted", "data compiled", "language model read"]
"""Where a run is only once: what is made there is found again."""
EACH_START = [START, "connected", "kernels loaded"]
EACH_EPOCH = {
    "sentence decoded": 26,
    "shard kept": SHARDS,
    "exchange": RANKS,
    "selection": RANKS,
    "devtest decoded": RANKS,
    "epoch written": 1,
    "checkpoint written": 1,
}
"""Where a run is in each epoch, and how often all ranks together come there in one."""
LAST = ["lock given back", END]
SIGNALS = [Signals.SIGKILL] * 6 + [Signals.SIGSEGV, Signals.SIGTERM, Signals.SIGINT, Signals.SIGUSR1]
VICTIMS = [*(f"rank {rank}" for rank in range(RANKS)), "launcher"]
PER_RUN = 5


class Kill(NamedTuple):
    """A signal, sent so many seconds after the run has come to a step so many times."""

    victim: str
    signal: Signals
    step: str
    times: int
    delay: float


def draw(count: int, seed: int) -> list[list[Kill]]:
    """``count`` kills, `PER_RUN` for each run, in the order of its lives; each victim has its share."""
    drawn = random.Random(seed)
    victims = cycle(drawn.sample(VICTIMS * 2, len(VICTIMS) * 2))
    first, start, last = (cycle(drawn.sample(steps, len(steps))) for steps in (FIRST, EACH_START, LAST))
    each = cycle(drawn.sample(sorted(EACH_EPOCH), len(EACH_EPOCH)))
    runs: list[list[Kill]] = []
    for n in range(count):
        life = n % PER_RUN
        if life == 0:
            runs.append([])
        end = life == PER_RUN - 1 and len(runs) % 2 == 0
        step = next(first if life == 0 else start if life == 1 else last if end else each)
        # Within the first epoch of this life, or the second, before the last.
        times = drawn.randint(1, 2 * EACH_EPOCH.get(step, 0) or 1)
        delay = 0.0 if end else drawn.choice([0.0, drawn.uniform(0, 0.02), drawn.uniform(0, 0.2)])
        runs[-1].append(Kill(next(victims), drawn.choice(SIGNALS), step, times, delay))
    return runs


def kills(task: Task, runs: Sequence[Sequence[Kill]], starts: Sequence[list[str]]) -> Iterator[Outcome]:
    """Do these ``runs``, each by the next of the launchers ``starts``."""
    for n, lives in enumerate(runs):
        run, start = task.new() / "run", starts[n % len(starts)]
        outcomes = [_killed(task, run, kill, start) for kill in lives]
        same = task.ends_the_same(run, start)
        for outcome in outcomes:
            yield outcome._replace(same=outcome.same and same)


def _killed(task: Task, run: Path, kill: Kill, start: list[str]) -> Outcome:
    """One life of ``run``; where it has ended before the signal could be sent, the next one, or a new run."""
    for _ in range(5):
        with World(RANKS, task.train(run), task.folder, start=start) as world:
            reached = world.wait_for(kill.step, kill.times)
            time.sleep(kill.delay if reached else 0.0)
            before = finished(run)
            sent = reached and world.send(kill.victim, kill.signal)
            left, seconds = world.end()
            after = finished(run)
        if sent:
            # MPICH's gforker gives 0 where a rank was killed.
            assert world.code or after == EPOCHS or start != launcher(), f"{kill}: exit code 0\n{world.said}"
            how = "killed" if kill.signal == Signals.SIGKILL else "gets another signal"
            return Outcome(f"{kill.victim} {how}", max(before - after, 0), task.sound(run), left, seconds)
        assert (world.code, left) == (0, 0), f"{kill}: ended by itself\n{world.said}"
        if not reached:
            # It had not many epochs left.
            shutil.rmtree(run)
    raise AssertionError(f"{kill}: always too late")
