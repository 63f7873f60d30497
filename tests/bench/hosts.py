"""Epochs of ranks on two hosts, over networks of different quality: what of their time is waiting.

    MPITUNE_DATA=... python tests/bench/hosts.py [--epochs N] [--ranks N ...]

The hosts are namespaces of this machine, and between them is a switch that delays and loses frames
(`tests/support/hosts.py`, `network.py`): Linux, root, iproute2 and OpenSSH are needed. An epoch is measured

- of nc (400 sentences, 16 shards, no devtest set), one rank on each host, for both ways of exchanging weights;
- of sentences that sleep, which so many ranks can do on few cores: 100 for each rank, of 10 ms on average (log-normal,
  sigma 0.5), in 4 shards for each rank of very different length (log-normal, sigma 0.6), no exchange.

Columns: the network; seconds of the epoch; seconds of the exchange, sorting and selecting included, on the slowest
rank; the part of the epoch that ranks on the second host wait for the work queue although there is work for them, on
average (the one that waits most); the part that they wait for the last rank's last shard; for sentences that sleep, the
part of all ranks' time that they sleep. Medians over the epochs but the first.

The package is the one on the PYTHONPATH: a folder of another version compares it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tools.measure import print_table, run

import mpitune
from mpitune.__main__ import main as mpitune_main
from mpitune.exchange.comm import MpiComm, connect
from mpitune.training import online_epoch, scheduler

TESTS = Path(__file__).resolve().parents[1]
JOB = TESTS.parent / "jobs" / "nc.toml"
SENTENCES, SHARDS, SLEEP = 100, 4, 0.01
"""Sentences and shards of a rank, and seconds of a sentence, where sentences sleep."""

sys.path.append(str(TESTS))
from support.hosts import Hosts, running_hosts  # noqa: E402
from support.network import Network  # noqa: E402

NETWORKS = {
    "0": Network(),
    "0.2 ms": Network(delay=0.0002),
    "2 ms": Network(delay=0.002),
    "20 ms": Network(delay=0.02),
    "1 % loss": Network(loss=0.01),
    "100 Mbit/s": Network(rate=12.5e6),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Epochs on two hosts, over networks of different quality.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4, 16], help="ranks where sentences sleep")
    parser.add_argument("--small", action="store_true", help="test the script in seconds; figures are meaningless")
    parser.add_argument("--rank", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        be_rank(Path(options.rank[0]), options.rank[1:], options.epochs)
        return
    titles = ("epoch of", "ranks", "network", "s", "exchange s", "queue, off host", "end, off host", "asleep")
    print_table(titles, measured(options))


def measured(options: argparse.Namespace) -> Iterator[Sequence[str]]:
    """Yield the rows of the table."""
    epochs, networks = options.epochs, NETWORKS
    if options.small:
        epochs, networks = 2, {"2 ms": NETWORKS["2 ms"]}
    data = Path(os.environ.get("MPITUNE_DATA", "/-")) / "nc"
    for name, network in networks.items():
        try:
            with running_hosts(2, network=network) as hosts:
                if data.is_dir():
                    # Hosts have temporary files of their own, and the data may be some.
                    shutil.copytree(data, hosts.folder / "data" / "nc")
                    prepare = [sys.executable, "-m", "mpitune", "prepare", JOB, *settings(hosts)]
                    run(prepare, hosts.folder, env=os.environ | of_data(hosts))
                    for exchange in ("allgather", "alltoall"):
                        asked = settings(hosts, f"parallel.exchange={exchange}", f"learner.epochs={epochs}")
                        row = figures(hosts, 2, epochs, ["train", str(JOB), *asked, "--resume", "never", "--quiet"])
                        yield f"nc, {exchange}", "2", name, *row
                for ranks in options.ranks:
                    yield "sentences that sleep", str(ranks), name, *figures(hosts, ranks, epochs, ["sleep"])
        except pytest.skip.Exception as skipped:
            yield (f"skipped: {skipped}",)
            return
    if not data.is_dir():
        yield ("skipped: nc: MPITUNE_DATA has none",)


def settings(hosts: Hosts, *further: str) -> list[str]:
    """Arguments of the command: those of nc's job that are other than in its file, and the ``further`` ones."""
    folders = [f"run.{name}={hosts.folder / place}" for name, place in (("dir", "run"), ("store", "store"))]
    given = [*folders, "data.limit=400", "parallel.shards=16", "learner.dense_start=0", *further]
    return [word for setting in given for word in ("--set", setting)]


def of_data(hosts: Hosts) -> dict[str, str]:
    """What the environment says of the place of the data."""
    return {"MPITUNE_DATA": str(hosts.folder / "data")}


def figures(hosts: Hosts, ranks: int, epochs: int, command: list[str]) -> list[str]:
    """The figures of a row: ``command`` on so many ranks, half of them on each host."""
    ours = ["--epochs", str(epochs), "--rank", str(hosts.folder), *command]
    path = os.pathsep.join([str(Path(mpitune.__file__).parents[1]), str(TESTS)])
    started = hosts.mpirun(
        dict.fromkeys(hosts.names, ranks // 2), __file__, *ours, environment=of_data(hosts) | {"PYTHONPATH": path}
    )
    _, errors = started.communicate(timeout=600)
    if started.returncode:
        raise RuntimeError(f"{command[0]} ended with {started.returncode}: {errors[-2000:]}")
    of_ranks = [json.loads((hosts.folder / f"rank.{rank}").read_text())[1:] for rank in range(ranks)]
    seconds = median(epoch["seconds"] for epoch in of_ranks[0])
    exchange = median(max(each) for each in zip(*([e["exchange"] for e in rank] for rank in of_ranks), strict=True))
    queue, end = (
        [median(epoch[what] / epoch["seconds"] for epoch in rank) for rank in of_ranks[ranks // 2 :]]
        for what in ("queue", "end")
    )
    asleep = [
        sum(rank[n]["asleep"] for rank in of_ranks) / ranks / of_ranks[0][n]["seconds"] for n in range(epochs - 1)
    ]
    shown = [f"{seconds:.2f}", f"{exchange:.3f}", f"{percent(mean(queue))} ({percent(max(queue))})"]
    return [*shown, percent(mean(end)), percent(median(asleep)) if command == ["sleep"] else ""]


class TimedQueue:
    """A work queue, with the seconds of its calls."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.calls: dict[str, list[float]] = {"next": [], "done": []}
        self.last = 0.0
        """When the last call of `next` began."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._timed, name, getattr(self._queue, name))

    def __iter__(self) -> Iterator[int]:
        items = iter(self._queue)
        while (item := self._timed("next", next, items, None)) is not None:
            yield item

    def _timed(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments)
        self.calls[name].append(time.perf_counter() - began)
        if name == "next":
            self.last = began
        return result


def be_rank(folder: Path, command: list[str], epochs: int) -> None:
    """Run the command, and write the seconds of its epochs into a file in ``folder`` that is named by the rank."""
    taken: list[dict[str, float]] = []
    queues: list[TimedQueue] = []
    work_queue, process_shards, reduce = MpiComm.work_queue, scheduler.process_shards, online_epoch.reduce

    @contextmanager
    def timed_queue(*arguments: Any) -> Iterator[TimedQueue]:
        with work_queue(*arguments) as queue:
            queues.append(TimedQueue(queue))
            yield queues[-1]

    def timed_shards(*arguments: Any) -> Any:
        began = time.perf_counter()
        done = process_shards(*arguments)
        ended, calls = time.perf_counter(), queues[-1].calls
        # The last time, there is no more work.
        waited = sum(calls["next"][:-1]) + sum(calls["done"])
        taken.append({"seconds": ended - began, "queue": waited, "end": ended - queues[-1].last, "exchange": 0.0})
        taken[-1]["asleep"] = sum(result.statistics.get("asleep", 0.0) for result in done)
        return done

    def timed_exchange(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        result = reduce(*arguments, **named)
        taken[-1]["exchange"] = time.perf_counter() - began
        taken[-1]["seconds"] += taken[-1]["exchange"]
        return result

    with ExitStack() as stack:
        stack.enter_context(patch.object(MpiComm, "work_queue", timed_queue))
        stack.enter_context(patch.object(online_epoch, "process_shards", timed_shards))
        stack.enter_context(patch.object(online_epoch, "reduce", timed_exchange))
        if command == ["sleep"]:
            rank = sleep(epochs, timed_shards)
        else:
            stack.enter_context(patch.object(sys, "argv", ["mpitune", *command]))
            if code := mpitune_main():
                sys.exit(code)
            rank = connect().rank
    (folder / f"rank.{rank}").write_text(json.dumps(taken))


def sleep(epochs: int, process_shards: Callable[..., Any]) -> int:
    """Epochs of sentences that sleep. Returns the rank."""
    comm = connect()
    generator, count = np.random.default_rng(comm.size), SENTENCES * comm.size
    parts = np.cumsum(generator.lognormal(0.0, 0.6, SHARDS * comm.size))
    shards = np.split(np.arange(count), (parts[:-1] / parts[-1] * count).astype(int))
    seconds = generator.lognormal(0.0, 0.5, count)
    seconds *= SLEEP / seconds.mean()
    lengths = [float(seconds[shard].sum()) for shard in shards]
    corpus = SimpleNamespace(size=count, source_ptr=np.arange(count + 1))
    epoch = SimpleNamespace(comm=comm, corpus=corpus, quiet=True, stop=False)

    def make(z: int, advance: Callable[[float], None]) -> Any:
        for sentence in shards[z]:
            time.sleep(seconds[sentence])
            advance(0.0)
        return SimpleNamespace(shard=z, statistics={"failed": 0, "gold": 0.0, "asleep": lengths[z]})

    for _ in range(epochs):
        process_shards(epoch, "sleep", shards, lambda _: None, make, lengths)
    return comm.rank


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
