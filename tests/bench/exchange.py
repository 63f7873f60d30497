"""Time and memory of the exchange at the end of an epoch, without decoding, by allgather and by alltoall.

    python tests/bench/exchange.py --scale 1 [--case NAME ...] [--ranks N ...] [--memory GB]

The weights are generated from a seed: the r-th most frequent feature has a weight in a shard with probability
min(1, c/r), with c chosen to give the number of weights of a shard. The cases (K = 100,000, l2) have the sizes of
Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed Stochastic Learning for Large-Scale Discriminative
Training in SMT" (ACL 2012):

- `select`: 141 shards (the paper's news commentary) with 300,000 weights each, of 4.7 million features;
- `mix`: 141 shards with weights for all of 4.7 million features, mixed without selection (algorithm 3 after epoch 1);
- `large`: 2,290 shards (the paper's Europarl) with 300,000 weights each, of 30 million features: 4.7 million, growing
  as the number of sentences to the power of 3/4 (an assumption).

Each case is reduced to the number of shards that fit into ``--memory`` GB (default: half of this machine's) with
alltoall; allgather is skipped if it then needs more on several ranks. ``--scale`` multiplies features, weights and K;
its default, 0.05, takes a minute or two. Times are those of the slowest rank, except time in MPI: rank 0's. Memory is
the peak that the exchange adds on a rank, on which `mpitune.exchange.reduction` bases its choice. Requires Linux, and
mpirun, beside this Python or on the PATH, for more than one rank.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tools.measure import mpirun, print_table, run

from mpitune.array_files.csr import row_ends
from mpitune.exchange.comm import Comm, connect
from mpitune.exchange.mixing import mean
from mpitune.exchange.reduction import BYTES_PER_WEIGHT, EXCHANGES, Mix, reduce
from mpitune.exchange.selection import select
from mpitune.exchange.sparse_rows import SparseVectors
from mpitune.runtime.memory import machine_memory

STATUS, PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
HELD = 32
"""Bytes of a weight before the exchange, on the rank that made it, while rows are concatenated."""


class Case(NamedTuple):
    """Sizes of a case."""

    shards: int
    features: int
    weights: int
    """Weights in each shard."""
    k: int | None
    """K of the selection; None: mean without selection."""

    def scaled(self, factor: float) -> Case:
        k = None if self.k is None else max(round(self.k * factor), 1)
        return Case(self.shards, max(round(self.features * factor), 1), max(round(self.weights * factor), 1), k)

    @property
    def mix(self) -> Mix:
        return mean if self.k is None else partial(select, norm="l2", k=self.k)


CASES = {
    "select": Case(141, 4_700_000, 300_000, 100_000),
    "mix": Case(141, 4_700_000, 4_700_000, None),
    "large": Case(2290, 30_000_000, 300_000, 100_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the exchange alone.")
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument(
        "--memory", type=float, default=machine_memory() / 2e9, metavar="GB", help="memory of all ranks together"
    )
    parser.add_argument("--scale", type=float, default=0.05, metavar="F", help="factor for features, weights and K")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        be_rank(options.rank)
        return
    if not PEAK.exists():
        print("skipped: requires a Linux kernel that reports memory peaks")
        return
    digests: dict[str, set[str]] = {name: set() for name in options.case}
    titles = ("case", "ranks", "exchange", "weights", "s", "in MPI", "added peak", "per weight")
    print_table(titles, tried(options, digests))
    same = all(len(found) <= 1 for found in digests.values())
    print(f"The results of a case are {'the same to the bit' if same else 'NOT THE SAME'}.")


def tried(options: argparse.Namespace, digests: dict[str, set[str]]) -> Iterator[Sequence[str]]:
    """Yield the rows of the table; the digests of the results are added to those of their case."""
    memory = options.memory * 1e9
    for name, ranks, exchange in itertools.product(options.case, options.ranks, EXCHANGES):
        case = CASES[name].scaled(options.scale)
        shards = min(case.shards, max(int(memory / (HELD + BYTES_PER_WEIGHT) / case.weights), 1))
        what = (f"{name}, {shards} of {case.shards} shards", str(ranks), exchange)
        copies = ranks if exchange == "allgather" else 1
        launch = mpirun(ranks)
        if launch is None:
            yield (f"skipped: {name} on {ranks} ranks: no mpirun",)
        elif copies > 1 and shards * case.weights * (HELD + BYTES_PER_WEIGHT * copies) > memory:
            yield (*what, "", "", "", "does not fit", "")
        else:
            task = json.dumps([case._replace(shards=shards), exchange])
            figures, digest = measured([*launch, sys.executable, __file__, "--rank", task])
            digests[name].add(digest)
            yield (*what, *figures)


def measured(command: list[str]) -> tuple[tuple[str, ...], str]:
    """Run a command of this script as a rank; returns its figures and a digest of its result."""
    with tempfile.TemporaryDirectory() as folder:
        lines = run(command, Path(folder)).output.splitlines()
    entries, seconds, waited, peak, held, digest = json.loads(lines[-1])
    figures = f"{entries / 1e6:.4g} M", f"{seconds:.3g}", f"{waited:.3g}", f"{peak / 1e9:.3g} GB", f"{held:.0f} bytes"
    return figures, digest


def be_rank(task: str) -> None:
    """Make this rank's shards, exchange them, and print the figures on rank 0."""
    numbers, exchange = json.loads(task)
    case, comm = Case(*numbers), connect()
    for name in EXCHANGES:  # Loads the kernels, and compiles them if necessary.
        reduce(comm, made(case._replace(features=100, weights=10), comm), case.mix, exchange=name, memory=0)
    vectors = made(case, comm)
    # A collective: the ranks start together.
    entries = comm.sum(len(vectors.index))
    before, waited = peak_from_here(), comm.waited
    start = time.perf_counter()
    mixed = reduce(comm, vectors, case.mix, exchange=exchange, memory=0)
    seconds, waited = time.perf_counter() - start, comm.waited - waited
    added = _status("VmHWM") - before
    gathered = comm.gather((seconds, waited, added))
    if gathered is not None:
        seconds, added = (max(rank[column] for rank in gathered) for column in (0, 2))
        held = entries if exchange == "allgather" else entries / comm.size
        digest = hashlib.blake2b(mixed.index.tobytes() + mixed.value.tobytes(), digest_size=8).hexdigest()
        print(json.dumps([entries, seconds, waited, added, added / held, digest]))


def made(case: Case, comm: Comm) -> SparseVectors:
    """Make the weight vectors of this rank's shards."""
    chances = likely(case.features, case.weights)
    ids = mixed_up(np.arange(case.features, dtype=np.uint64))
    mine = range(comm.rank, case.shards, comm.size)
    index, value = [], []
    for shard in mine:
        generator = np.random.default_rng([1, shard])
        found = np.flatnonzero(generator.random(case.features, dtype=np.float32) < chances)
        index.append(ids[found])
        value.append(generator.normal(0.0, 0.01, len(found)))
    return SparseVectors(
        np.array(mine, dtype=np.int64),
        row_ends([len(row) for row in index]),
        np.concatenate([np.zeros(0, np.uint64), *index]),
        np.concatenate([np.zeros(0), *value]),
    )


def likely(features: int, wanted: int) -> np.ndarray:
    """float32 [features]: probability of each feature, decreasing with its rank; the sum is ``wanted``."""
    rank = np.arange(1.0, features + 1)
    low, high = 0.0, float(features)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle / rank, 1.0).sum() < wanted else (low, middle)
    # 2 instead of 1, because probabilities just below 1 would round to 1 in float32.
    return np.where(high / rank >= 1.0, 2.0, high / rank).astype(np.float32)


def mixed_up(numbers: np.ndarray) -> np.ndarray:
    """uint64: distinct ids that look like hashes (the finalizer of SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def peak_from_here() -> int:
    """Reset the peak of resident memory; returns the bytes resident now."""
    PEAK.write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
