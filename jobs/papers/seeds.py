"""Run MIRA with many seeds on a small development set, compare with the perceptron, and draw a box plot.

    MPITUNE_DATA=... python jobs/papers/seeds.py [--runs N] [--write FOLDER] [--small]

The plot follows figure 4 of Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed Stochastic Learning for
Large-Scale Discriminative Training in SMT" (ACL 2012). 12 dense weights are tuned on the first `SENTENCES` sentences of
Multi30k's validation set, from 0: by MIRA as in the paper (k = 250, C = 0.01, one shard; but 10 passes instead of 15),
by MIRA with lists sampled from the forest, as in cdec, and by the perceptron of multi30k-dev.toml with a fifth as many
runs. BLEU is measured on test_2016_flickr. A seed changes the order of the sentences, and what is sampled. ``--ranks``
processes share the runs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from methods import JOB, learner
from systems import TESTS, Place, System, place, read, show, written

import mpitune
from mpitune.array_files.atomic import write_text

SENTENCES = 100
STORE = "multi30k-seeds"
MIRA = learner({"method": "mira", "algorithm": "itermix", "epochs": 10, "mira.c": 0.01})
AS_PRINTED = {**MIRA, "decoder.kbest": 250, "parallel.shards": 1}
SYSTEMS = {
    "MIRA": System("seeds-mira", JOB, AS_PRINTED, store=STORE),
    "MIRA, sampled": System("seeds-mira-sampled", JOB, {**AS_PRINTED, "decoder.sample": "forest"}, store=STORE),
    "perceptron": System("seeds-perceptron", JOB, store=STORE),
}
SHARE = {"MIRA": 1.0, "MIRA, sampled": 1.0, "perceptron": 0.2}
"""Runs of each system, as a share of --runs."""
FIRST = 1
"""The default seed of a job."""


@dataclass(frozen=True)
class Task:
    """One run."""

    where: Place
    system: System
    seed: int

    @property
    def score(self) -> Path:
        """File of its BLEU."""
        return self.where.run(self.system).folder / f"{self.seed}" / "test.json"

    def bleu(self) -> float:
        """Train, translate and score; returns BLEU on the test set (0 to 100). A finished run's score is read."""
        if not self.score.exists():
            keys = {"data.limit": SENTENCES, "run.seed": self.seed, "run.dir": self.score.parent}
            run = mpitune.train(self.where.job(self.system).replace(keys))
            write_text(self.score, json.dumps(test_bleu(self.where, run.weights)))
        return float(json.loads(self.score.read_text(encoding="utf-8")))


def test_bleu(where: Place, weights: mpitune.Weights) -> float:
    """BLEU of the test set, 0 to 100, translated with ``weights``."""
    decoder = _decoder(where)
    decoder.weights = weights
    translations = decoder.translate(read(where.source(TESTS[0])))
    return mpitune.evaluate({"run": translations}, read(where.reference(TESTS[0]))).scores[0].bleu


@cache
def _decoder(where: Place) -> mpitune.Decoder:
    """One for all runs of a process: its models stay open."""
    return mpitune.Decoder(where.job(SYSTEMS["perceptron"]), {})


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs, draw the figure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="number of runs of MIRA (default 100)")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="folder for seeds.svg (default: that of the runs)")
    where, options = place(parser, arguments)
    folder = written(where, options)
    runs = 5 if options.small else options.runs
    counts = {name: math.ceil(SHARE[name] * runs) for name in SYSTEMS}
    tasks = [Task(where, SYSTEMS[name], FIRST + n) for name, count in counts.items() for n in range(count)]
    # Makes the stores and compiles the kernels before the processes start.
    tasks[0].bleu()
    # Spawned, because forked processes would inherit compiled kernels and loggers.
    with ProcessPoolExecutor(where.ranks, mp_context=get_context("spawn")) as pool:
        found: Iterator[float] = pool.map(Task.bleu, tasks)
        bleu = {name: list(islice(found, count)) for name, count in counts.items()}
    draw(bleu, folder / "seeds.svg")
    print(table(bleu), end="")


def table(bleu: dict[str, list[float]]) -> str:
    """Tabulate the statistics of the box plot."""
    rows = [["", "runs", "median", "mean", "standard deviation", "lowest", "highest", f"seed {FIRST}"]]
    for name, scores in bleu.items():
        values = statistics.median(scores), statistics.mean(scores), statistics.stdev(scores)
        shown = [f"{value:.2f}" for value in (*values, min(scores), max(scores), scores[0])]
        rows.append([name, str(len(scores)), *shown])
    return show(rows)


def draw(bleu: dict[str, list[float]], path: Path) -> None:
    """Draw a box for each system (median, quartiles, whiskers up to 1.5 interquartile ranges) and a dot: first seed."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "seeds", "font.size": 8})
    figure, axes = pyplot.subplots(figsize=(3.2, 3.2), layout="constrained")
    axes.boxplot(list(bleu.values()), tick_labels=list(bleu), widths=0.5)
    axes.plot(range(1, 1 + len(bleu)), [scores[0] for scores in bleu.values()], "o", color="tab:blue", markersize=4)
    axes.set_ylabel("BLEU, test_2016_flickr")
    axes.grid(axis="y", linewidth=0.3)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
