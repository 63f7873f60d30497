"""Time and memory of n-best lists: their preparation, and an epoch of each kind of method on 1 and 2 ranks.

    python tests/bench/lists.py [--lists N] [--ranks 1 2] [--folder FOLDER] [--small]

Lists of 100 entries of 20 words, with 50 dense and 20 sparse features each; sparse names are Zipf-distributed over a
million. The lists are written in Moses' format, gzipped. CPU time is that of the whole command, with its start; memory
is the peak of the larger rank, and the part of it that is not mapped from files (which ranks share, and which the
system may drop): the largest of samples, taken every 50 ms. 100,000 lists need 40 GB of disk. Requires mpirun for 2
ranks, and Linux for the memory.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tools.measure import mpirun, print_table, run

from mpitune.array_files.arrays import open_arrays
from mpitune.cli.parser import main as mpitune
from mpitune.runtime.memory import peak_memory

ENTRIES, WORDS, DENSE, SPARSE, NAMES = 100, 20, 50, 20, 1_000_000
METHODS = {
    "perceptron, itersel": ("learner.method=perceptron",),
    "MIRA": ("learner.method=mira", "decoder.kbest=100"),
    "PRO": ("learner.method=pro",),
}
JOB = """
[data]
lists = ["lists.gz"]
references = ["references"]
[decoder]
backend = "lists"
[learner]
epochs = 1
dense_start = 0
"""


SAMPLE = 0.05
"""Seconds between two samples of the memory."""
STATUS = Path("/proc/self/status")


class Spent(NamedTuple):
    """What a command took."""

    wall: float
    cpu: float
    """Seconds of all ranks."""
    memory: float
    """Bytes: the peak of the larger rank."""
    anonymous: float
    """Bytes: the part of it that is not mapped from files, likewise."""


def main() -> None:
    if sys.argv[1:2] == ["--rank"]:
        sys.exit(watched(Path(sys.argv[2]), sys.argv[3:]))
    parser = argparse.ArgumentParser(description="Time and memory of n-best lists.")
    parser.add_argument("--lists", type=int, default=2000, help="number of lists")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="numbers of ranks")
    parser.add_argument("--folder", type=Path, help="work here and keep the files; lists that are there are used again")
    parser.add_argument("--small", action="store_true", help="test the script with few lists")
    options = parser.parse_args()
    lists = 20 if options.small else options.lists
    with tempfile.TemporaryDirectory() as name:
        small, folder = Path(name) / "small", options.folder or Path(name)
        for place, number in ((small, 20), (folder, lists)):
            if not (place / "job.toml").exists():
                place.mkdir(parents=True, exist_ok=True)
                write_lists(place, number)
                (place / "job.toml").write_text(JOB)
            elif (found := (place / "references").read_bytes().count(b"\n")) != number:
                sys.exit(f"lists.py: found {found:,} lists in {place}, expected {number:,}: give another folder")
        if not options.small:
            # Compiles the kernels.
            list(rows(small, 20, [1]))
        titles = ("step", "ranks", "wall", "CPU, all ranks", "an entry", "memory of a rank", "not mapped")
        print_table(titles, rows(folder, lists, options.ranks))


def write_lists(folder: Path, lists: int) -> None:
    """Write ``lists.gz`` and ``references``; in each list, entries closer to the reference have larger features."""
    random = np.random.default_rng(1)
    dense_line = " ".join(f"d{n}= %.4f" for n in range(DENSE))
    with (
        gzip.open(folder / "lists.gz", "wt", compresslevel=1) as file,
        open(folder / "references", "w", encoding="utf-8") as references,
    ):
        for number in range(lists):
            reference = random.integers(5000, size=WORDS)
            references.write(f"{text(reference)}\n")
            wrong = random.random((ENTRIES, WORDS)) < random.random(ENTRIES)[:, None]
            words = np.where(wrong, random.integers(5000, size=(ENTRIES, WORDS)), reference)
            dense = random.normal(-wrong.mean(axis=1)[:, None], 1, (ENTRIES, DENSE))
            sparse = np.minimum(random.zipf(1.2, (ENTRIES, SPARSE)), NAMES)
            for entry, values, names in zip(words, dense, sparse, strict=True):
                fired = " ".join([f"s{name}= 1" for name in sorted(set(names.tolist()))])
                file.write(f"{number} ||| {text(entry)} ||| {dense_line % tuple(values.tolist())} {fired} ||| 0\n")


def text(words: np.ndarray) -> str:
    return " ".join([f"w{word}" for word in words.tolist()])


def rows(folder: Path, lists: int, numbers: Sequence[int]) -> Iterator[Sequence[str]]:
    """Yield the steps and what they take."""
    entries = lists * ENTRIES
    shutil.rmtree(folder / "runs", ignore_errors=True)
    spent = measured(folder, ["prepare", "job.toml"], 1)
    yield "prepare", "1", *figures(spent, entries)
    values = read_values(folder)
    rate = values / spent.cpu / 1e6
    yield (f"prepare: {values / entries:.1f} feature values an entry, {rate:.2f} million of them a CPU second",)
    for title, keys in METHODS.items():
        for ranks in numbers:
            if mpirun(ranks) is not None:
                settings = [f"run.dir=runs/{title.split(',')[0]}-{ranks}", "run.store=runs/job/store", *keys]
                overrides = [part for setting in settings for part in ("--set", setting)]
                spent = measured(folder, ["train", "job.toml", "--quiet", *overrides], ranks)
                yield f"an epoch: {title}", str(ranks), *figures(spent, entries)


def measured(folder: Path, command: Sequence[str], ranks: int) -> Spent:
    """Run ``command`` of mpitune in ``folder``."""
    sizes = folder / "memory"
    sizes.unlink(missing_ok=True)
    done = run([*(mpirun(ranks) or []), sys.executable, Path(__file__).absolute(), "--rank", sizes, *command], folder)
    of_ranks = [[float(size) for size in line.split()] for line in sizes.read_text().splitlines()]
    memory, anonymous = map(max, zip(*of_ranks, strict=True))
    return Spent(done.wall, done.cpu, memory, anonymous)


def watched(sizes: Path, command: Sequence[str]) -> int:
    """Be one rank of ``command``, and add a line with its largest memory to the file ``sizes``."""
    largest, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal largest
        while not ended.wait(SAMPLE):
            found = re.search("RssAnon:\\s+([0-9]+) kB", STATUS.read_text())
            largest = max(largest, 1024 * int(found[1]) if found else 0)

    thread = threading.Thread(target=watch)
    thread.start()
    code = mpitune(command)
    ended.set()
    thread.join()
    with open(sizes, "a") as file:
        file.write(f"{peak_memory()} {largest}\n")
    return code


def figures(spent: Spent, entries: int) -> list[str]:
    memory = [f"{size / 1e9:.2f} GB" for size in (spent.memory, spent.anonymous)]
    return [f"{spent.wall:.1f} s", f"{spent.cpu:.1f} s", f"{1e6 * spent.cpu / entries:.1f} us", *memory]


def read_values(folder: Path) -> int:
    """The number of feature values in the store."""
    return len(open_arrays(folder / "runs" / "job" / "store" / "data.npz", check_digest=False)["lists.value"])


if __name__ == "__main__":
    main()
