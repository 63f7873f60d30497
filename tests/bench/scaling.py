"""How well ranks share the work, and what an epoch would take on a cluster.

    MPITUNE_DATA=... python tests/bench/scaling.py

- Measured: an epoch of nc and of Multi30k's validation set (16 shards, no devtest set) on 1 and on 2 ranks, in turns.
  Efficiency is (busy seconds on 1 rank) / (busy and waiting seconds on 2 ranks), by the run's own metrics. A core may
  be slower while the other one works too: so two runs on 1 rank each, side by side, are measured as well, and what
  efficiency is when their busy seconds are taken. Beside what the epoch on 2 ranks took stands what replaying the
  shards' times of those two runs gives for its learning.
- Replayed: those shards' times, and times that are more skewed, on more ranks: handed out as ranks come free, longest
  first by the epoch before, and dealt out beforehand (shard z to rank z mod size).
- Modelled: an epoch of SRD12's data on many ranks. Assumptions: a sentence takes what one of nc takes here; shards
  differ as much as here, as sums of independent sentences do; each leaves 300,000 weights other than 0; a weight takes
  16 bytes, a rank sends and receives 1.25 GB/s, a collective takes 50 us for each doubling of the ranks; a weight is
  sorted and reduced in the time measured here; 1,000 devtest sentences are shared by all ranks.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from exchange import CASES, made
from tools.measure import mpirun, print_table, run

from mpitune.exchange.comm import SERIAL_COMM
from mpitune.exchange.reduction import reduce

JOBS = Path(__file__).resolve().parents[2] / "jobs"
TASKS = {"nc": "nc.toml", "multi30k": "multi30k-dev.toml"}
"""Jobs by the folder of their data."""
SHARDS = 16
SIDE_BY_SIDE = "1 and 1, side by side"
BYTES, BANDWIDTH, LATENCY = 16, 1.25e9, 50e-6
WEIGHTS = 300_000
DEVTEST = 1000
COLLECTIVES = 30
"""Of an exchange in parts, about: counts, shards, values, 8 rounds of agreement, the result."""


class Corpus(NamedTuple):
    """How SRD12 cut its data."""

    sentences: int
    shards: int


CORPORA = {"nc, 132,753 sentences": Corpus(132_753, 141), "Europarl, 1,655,238 sentences": Corpus(1_655_238, 2290)}


def main() -> None:
    parser = argparse.ArgumentParser(description="How well ranks share the work.")
    parser.add_argument("--small", action="store_true", help="try it in seconds; the figures mean nothing")
    small = parser.parse_args().small
    if "MPITUNE_DATA" not in os.environ:
        print("skipped: needs MPITUNE_DATA")
        return
    if mpirun(2) is None:
        print("skipped: needs mpirun")
        return
    shard_seconds: dict[str, list[float]] = {}
    titles = ("epoch of", "ranks", "s", "busy s", "waiting s", "efficiency", "by side by side", "idle", "replayed s")
    print_table(titles, measured(small, shard_seconds))
    titles = ("shards", "ranks", "idle, handed out", "idle, dealt out")
    print_table(titles, replayed(shard_seconds))
    titles = (
        "data",
        "ranks",
        "learning s",
        "devtest s",
        "exchange at the centre s",
        "in parts s",
        "share of the epoch",
    )
    print_table(titles, modelled(shard_seconds["nc"], 0.01 if small else 1.0))


def measured(small: bool, shard_seconds: dict[str, list[float]]) -> Iterator[Sequence[str]]:
    """The rows of the first table; the median times of the shards, all cores at work, are left in ``shard_seconds``."""
    for name, job in TASKS.items():
        if not (Path(os.environ["MPITUNE_DATA"]) / name).is_dir():
            yield (f"skipped: {name}, for want of its data",)
            continue
        epochs: dict[str, list[dict[str, Any]]] = {"1": [], SIDE_BY_SIDE: [], "2": []}
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:

            def one(run: str, ranks: int, job: str = job, folder: str = folder) -> dict[str, Any]:
                return last_epoch(Path(folder), run, job, ranks, 20 if small else 0)

            for _ in range(1 if small else 5):
                epochs["1"].append(one("a", 1))
                epochs[SIDE_BY_SIDE] += pool.map(one, "ab", (1, 1))
                epochs["2"].append(one("c", 2))
        rows = [epoch["shard_seconds"] for epoch in epochs[SIDE_BY_SIDE]]
        shard_seconds[name] = [median(times) for times in zip(*rows, strict=True)]
        alone = {how: median(sum(epoch["busy_seconds"]) for epoch in found) for how, found in epochs.items()}
        for how, found in epochs.items():
            seconds = median(epoch["seconds"] for epoch in found)
            busy, waiting = (median(sum(epoch[f"{what}_seconds"]) for epoch in found) for what in ("busy", "wait"))
            figures = [f"{seconds:.2f}", f"{busy:.2f}", f"{waiting:.2f}", "", "", "", ""]
            if how == "2":
                figures[3:5] = (f"{alone[base] / (busy + waiting):.3f}" for base in ("1", SIDE_BY_SIDE))
                replayed = max(handed_out(shard_seconds[name], shard_seconds[name], 2))
                figures[5:] = percent(waiting / (busy + waiting)), f"{replayed:.2f}"
            yield name, how, *figures


def last_epoch(folder: Path, name: str, job: str, ranks: int, limit: int) -> dict[str, Any]:
    """The metrics of the second epoch of a run: the first has no times to go by. The store is made once."""
    target = folder / name
    settings = [
        f"run.dir={target}",
        f"run.store={folder / 'store'}",
        f"data.limit={limit}",
        "learner.algorithm=itersel",
        "learner.epochs=2",
        f"parallel.shards={SHARDS}",
    ]
    given = [word for setting in settings for word in ("--set", setting)]
    command = ["-m", "mpitune", "train", str(JOBS / job), *given, "--resume", "never", "--quiet"]
    run([*(mpirun(ranks) or []), sys.executable, *command], folder)
    epoch: dict[str, Any] = json.loads((target / "metrics.jsonl").read_text().splitlines()[-1])
    return epoch


def replayed(shard_seconds: dict[str, list[float]]) -> Iterator[Sequence[str]]:
    """The rows of the second table. The epoch before took each shard's time, give or take 5 %."""
    generator = np.random.default_rng(1)
    skewed = {f"{SHARDS}, skewed (sigma {sigma})": generator.lognormal(0.0, sigma, SHARDS) for sigma in (0.3, 0.6)}
    skewed["141, skewed (sigma 0.6)"] = generator.lognormal(0.0, 0.6, 141)
    for name, times in ({f"{SHARDS}, {name}": np.array(t) for name, t in shard_seconds.items()} | skewed).items():
        for ranks in (2, 4, 8):
            before = times * generator.normal(1.0, 0.05, len(times))
            dealt = [times[rank::ranks].sum() for rank in range(ranks)]
            yield name, str(ranks), percent(idle(handed_out(times, before, ranks))), percent(idle(dealt))


def modelled(nc_seconds: Sequence[float], scale: float) -> Iterator[Sequence[str]]:
    """The rows of the third table."""
    sentences = 999
    each, per_weight = sum(nc_seconds) / sentences, seconds_a_weight(scale)
    spread = float(np.std(nc_seconds) / np.mean(nc_seconds)) * (sentences / SHARDS) ** 0.5
    for name, corpus in CORPORA.items():
        long = corpus.sentences / corpus.shards
        times = each * long * np.random.default_rng(2).normal(1.0, spread / long**0.5, corpus.shards)
        weights = corpus.shards * WEIGHTS
        for ranks in (30, 141, 300, 3000):
            learning, devtest = max(handed_out(times, times, ranks)), each * -(-DEVTEST // ranks)
            collective = LATENCY * float(np.log2(ranks))
            # Every rank receives everything, and rank 0 works on all of it; or a part each.
            centre = weights * (BYTES / BANDWIDTH + per_weight) + 5 * collective
            parts = weights / ranks * (2 * BYTES / BANDWIDTH + per_weight) + COLLECTIVES * collective
            share = percent(parts / (learning + devtest + parts))
            figures = (learning, devtest, centre, parts)
            yield name, str(ranks), *(f"{figure:.3g}" for figure in figures), share


def seconds_a_weight(scale: float) -> float:
    """What sorting and selecting takes for each weight, on one rank."""
    case = CASES["select"]._replace(shards=20).scaled(scale)
    vectors = made(case, SERIAL_COMM)
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        reduce(SERIAL_COMM, vectors, case.mix, exchange="allgather", memory=0)
        taken.append(time.perf_counter() - began)
    # The first one compiles.
    return median(taken[1:]) / len(vectors.index)


def handed_out(times: Sequence[float] | np.ndarray, before: Sequence[float] | np.ndarray, ranks: int) -> list[float]:
    """When each rank is done, shards of these ``times`` being handed out by their times ``before``, longest first."""
    free = [0.0] * ranks
    for z in sorted(range(len(times)), key=lambda z: -before[z]):
        heapq.heapreplace(free, free[0] + float(times[z]))
    return free


def idle(done: Sequence[float]) -> float:
    """The share of all ranks' time that is spent on waiting for the last."""
    return 1.0 - sum(done) / len(done) / max(done)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
