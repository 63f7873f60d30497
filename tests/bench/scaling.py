"""Parallel efficiency of an epoch, and a model of the time of an epoch on a cluster.

    MPITUNE_DATA=... python tests/bench/scaling.py

- Measured: an epoch of nc and of Multi30k's validation set (16 shards, no devtest set), alternating on 1 and 2 ranks.
  Efficiency is (busy seconds on 1 rank) / (busy and waiting seconds on 2 ranks), from the run's metrics. A core may be
  slower while the other one is busy; therefore two simultaneous runs on 1 rank each are measured too, and a second
  efficiency is computed from their busy seconds. The last column replays the shard times of these two runs on 2 ranks.
- Replayed: those shard times, and more skewed ones, on more ranks: with the dynamic schedule (a free rank takes the
  longest shard left, by the times of the previous epoch) and with a static one (shard z to rank z mod size).
- Modelled: an epoch on many ranks of the data of Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed
  Stochastic Learning for Large-Scale Discriminative Training in SMT" (ACL 2012). Assumptions: a sentence takes as long
  as one of nc here; shard times vary as here, as sums of independent sentences; a shard ends with 300,000 non-zero
  weights; a weight takes 16 bytes, a rank sends and receives 1.25 GB/s, a collective takes 50 us for each doubling of
  the ranks; sorting and reducing a weight takes the time measured here; all ranks share 1,000 devtest sentences. Who
  asks for a shard has a few sentences left (`work_queue.AHEAD`); rank 0 answers when its own sentence is done, and what
  that takes longer is waiting for the queue. A message takes 50 us; sentences have a gamma distribution.
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
from mpitune.exchange.work_queue import AHEAD

JOBS = Path(__file__).resolve().parents[2] / "jobs"
TASKS = {"nc": "nc.toml", "multi30k": "multi30k-dev.toml"}
"""Data folder to job file."""
SHARDS = 16
SIDE_BY_SIDE = "1 and 1, side by side"
BYTES, BANDWIDTH, LATENCY = 16, 1.25e9, 50e-6
WEIGHTS = 300_000
DEVTEST = 1000
COLLECTIVES = 30
"""Approximate number of collectives in an alltoall exchange: counts, shards, values, 8 rounds of agreement, result."""


class Corpus(NamedTuple):
    """Size of one of the paper's corpora, and its number of shards."""

    sentences: int
    shards: int


CORPORA = {"nc, 132,753 sentences": Corpus(132_753, 141), "Europarl, 1,655,238 sentences": Corpus(1_655_238, 2290)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Parallel efficiency of an epoch.")
    parser.add_argument("--small", action="store_true", help="test the script in seconds; figures are meaningless")
    small = parser.parse_args().small
    if "MPITUNE_DATA" not in os.environ:
        print("skipped: MPITUNE_DATA is not set")
        return
    if mpirun(2) is None:
        print("skipped: no mpirun")
        return
    shard_seconds: dict[str, list[float]] = {}
    titles = ("epoch of", "ranks", "s", "busy s", "waiting s", "efficiency", "by side by side", "idle", "replayed s")
    print_table(titles, measured(small, shard_seconds))
    titles = ("shards", "ranks", "idle, dynamic", "idle, static")
    print_table(titles, replayed(shard_seconds))
    titles = ("data", "ranks", "learning s", "queue s", "devtest s", "allgather s", "alltoall s", "share of the epoch")
    if "nc" in shard_seconds:
        print_table(titles, modelled(shard_seconds["nc"], 0.01 if small else 1.0))
    else:
        print("skipped: the model of a cluster: MPITUNE_DATA has no nc")


def measured(small: bool, shard_seconds: dict[str, list[float]]) -> Iterator[Sequence[str]]:
    """Yield the rows of the first table; stores median shard times with all cores busy in ``shard_seconds``."""
    for name, job in TASKS.items():
        if not (Path(os.environ["MPITUNE_DATA"]) / name).is_dir():
            yield (f"skipped: {name}: no data",)
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
                replayed = max(scheduled(shard_seconds[name], shard_seconds[name], 2))
                figures[5:] = percent(waiting / (busy + waiting)), f"{replayed:.2f}"
            yield name, how, *figures


def last_epoch(folder: Path, name: str, job: str, ranks: int, limit: int) -> dict[str, Any]:
    """Metrics of the second epoch of a run; the first has no shard times to schedule by. The store is made once."""
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
    """Yield the rows of the second table. Shard times of the previous epoch differ by 5 % (standard deviation)."""
    generator = np.random.default_rng(1)
    skewed = {f"{SHARDS}, skewed (sigma {sigma})": generator.lognormal(0.0, sigma, SHARDS) for sigma in (0.3, 0.6)}
    skewed["141, skewed (sigma 0.6)"] = generator.lognormal(0.0, 0.6, 141)
    for name, times in ({f"{SHARDS}, {name}": np.array(t) for name, t in shard_seconds.items()} | skewed).items():
        for ranks in (2, 4, 8):
            before = times * generator.normal(1.0, 0.05, len(times))
            static = [times[rank::ranks].sum() for rank in range(ranks)]
            yield name, str(ranks), percent(idle(scheduled(times, before, ranks))), percent(idle(static))


def modelled(nc_seconds: Sequence[float], scale: float) -> Iterator[Sequence[str]]:
    """Yield the rows of the third table."""
    sentences = 999
    each, per_weight = sum(nc_seconds) / sentences, seconds_a_weight(scale)
    deviation = float(np.std(nc_seconds) / np.mean(nc_seconds)) * (sentences / SHARDS) ** 0.5
    for name, corpus in CORPORA.items():
        long = corpus.sentences / corpus.shards
        times = each * long * np.random.default_rng(2).normal(1.0, deviation / long**0.5, corpus.shards)
        weights = corpus.shards * WEIGHTS
        for ranks in (30, 141, 300, 3000):
            learning, devtest = max(scheduled(times, times, ranks)), each * -(-DEVTEST // ranks)
            queue = each * sentences_waited(deviation, 2 * LATENCY / each) * max(corpus.shards / ranks - 1.0, 0.0)
            collective = LATENCY * float(np.log2(ranks))
            # allgather: every rank receives everything and rank 0 processes it; alltoall: a part on each rank.
            centre = weights * (BYTES / BANDWIDTH + per_weight) + 5 * collective
            parts = weights / ranks * (2 * BYTES / BANDWIDTH + per_weight) + COLLECTIVES * collective
            share = percent(parts / (learning + queue + devtest + parts))
            figures = (learning, queue, devtest, centre, parts)
            yield name, str(ranks), *(f"{figure:.3g}" for figure in figures), share


def sentences_waited(deviation: float, messages: float) -> float:
    """Mean waiting for an answer of rank 0. Everything in mean sentences: the standard deviation of a sentence, too."""
    generator, shape = np.random.default_rng(3), deviation**-2
    # A question meets long sentences more often, in proportion to their length.
    met, left = generator.gamma(shape + 1.0, size=10**6), generator.gamma(AHEAD * shape, size=10**6)
    answered = generator.random(10**6) * met + messages * shape
    return float(np.maximum(answered - left, 0.0).mean() / shape)


def seconds_a_weight(scale: float) -> float:
    """Seconds of sorting and selecting per weight, on one rank."""
    case = CASES["select"]._replace(shards=20).scaled(scale)
    vectors = made(case, SERIAL_COMM)
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        reduce(SERIAL_COMM, vectors, case.mix, exchange="allgather", memory=0)
        taken.append(time.perf_counter() - began)
    # The first call compiles.
    return median(taken[1:]) / len(vectors.index)


def scheduled(times: Sequence[float] | np.ndarray, before: Sequence[float] | np.ndarray, ranks: int) -> list[float]:
    """End time of each rank if free ranks take the shards of these ``times`` in descending order of ``before``."""
    free = [0.0] * ranks
    for z in sorted(range(len(times)), key=lambda z: -before[z]):
        heapq.heapreplace(free, free[0] + float(times[z]))
    return free


def idle(done: Sequence[float]) -> float:
    """Share of all ranks' time spent waiting for the last rank."""
    return 1.0 - sum(done) / len(done) / max(done)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
