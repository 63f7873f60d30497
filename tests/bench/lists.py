"""Time and memory of n-best lists: their preparation, and an epoch of each kind of method on 1 and 2 ranks.

    python tests/bench/lists.py [--lists N] [--small]

Lists of 100 entries of 20 words, with 50 dense and 20 sparse features each; sparse names are Zipf-distributed over a
million. The lists are written in Moses' format, gzipped. CPU time is that of the whole command, with its start.
Requires mpirun for 2 ranks.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tools.measure import mpirun, print_table, run

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


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of n-best lists.")
    parser.add_argument("--lists", type=int, default=2000, help="number of lists")
    parser.add_argument("--small", action="store_true", help="test the script with few lists")
    options = parser.parse_args()
    lists = 20 if options.small else options.lists
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lists(folder, lists)
        (folder / "job.toml").write_text(JOB)
        print_table(("step", "ranks", "wall", "CPU, all ranks", "an entry", "memory of a rank"), rows(folder, lists))


def write_lists(folder: Path, lists: int) -> None:
    """Write ``lists.gz`` and ``references``; in each list, entries closer to the reference have larger features."""
    random = np.random.default_rng(1)
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
                features = [f"d{n}= {value:.4f}" for n, value in enumerate(values.tolist())]
                features += [f"s{name}= 1" for name in sorted(set(names.tolist()))]
                file.write(f"{number} ||| {text(entry)} ||| {' '.join(features)} ||| 0\n")


def text(words: np.ndarray) -> str:
    return " ".join([f"w{word}" for word in words.tolist()])


def rows(folder: Path, lists: int) -> Iterator[Sequence[str]]:
    """Yield the steps and what they take."""
    entries = lists * ENTRIES
    command = [sys.executable, "-m", "mpitune"]
    # A first run compiles the kernels, and leaves the store to the others.
    done = run([*command, "prepare", "job.toml"], folder)
    yield "prepare", "1", f"{done.wall:.1f} s", f"{done.cpu:.1f} s", f"{1e6 * done.cpu / entries:.0f} us", ""
    for title, keys in METHODS.items():
        for ranks in (1, 2):
            if (launcher := mpirun(ranks)) is None:
                continue
            settings = [f"run.dir=run-{title.split(',')[0]}-{ranks}", "run.store=runs/job/store", *keys]
            overrides = [part for setting in settings for part in ("--set", setting)]
            done = run([*launcher, *command, "train", "job.toml", "--quiet", *overrides], folder)
            epoch = json.loads((folder / settings[0].split("=")[1] / "metrics.jsonl").read_text())
            wall, memory = epoch["seconds"], max(epoch["peak_memory_bytes"]) / 1e9
            each = f"{1e6 * done.cpu / entries:.0f} us"
            yield f"an epoch: {title}", str(ranks), f"{wall:.1f} s", f"{done.cpu:.1f} s", each, f"{memory:.2f} GB"


if __name__ == "__main__":
    main()
