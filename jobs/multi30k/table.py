"""Runs the systems of the table, translates both test sets with each, and writes the table: `make multi30k`.

    MPITUNE_DATA=... python jobs/multi30k/table.py

In the pattern of SRD12's table 2. What is there already is not done again, so a second call goes on after the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpitune.corpus.text import lines
from mpitune.results.evaluate import evaluate

JOBS = Path(__file__).resolve().parents[1]
RUNS = JOBS / "runs"
TESTS = ("test_2016_flickr", "test_2017_flickr")
LEVEL = 0.05
ALL = 'features.templates=["id", "source-bigram", "shape"]'


@dataclass(frozen=True)
class System:
    """One line of the table."""

    name: str
    algorithm: str
    tuned_on: str
    features: str
    job: str
    settings: tuple[str, ...] = ()

    @property
    def run(self) -> Path:
        """Its run folder."""
        return RUNS / f"multi30k-{self.name}"


SYSTEMS = (
    System("dev", "1 SGD", "dev", "12 dense", "multi30k-dev.toml"),
    System("dev-sparse", "1 SGD", "dev", "all", "multi30k-dev.toml", (ALL,)),
    System("mix", "2 MixSGD", "train", "all", "multi30k-train.toml", ("learner.algorithm=mix",)),
    System("itermix", "3 IterMixSGD", "train", "all", "multi30k-train.toml", ("learner.algorithm=itermix",)),
    System("itersel", "4 IterSelSGD", "train", "all", "multi30k-train.toml"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is lacking, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="2", help="for mpirun -n (default 2)")
    ranks = parser.parse_args(arguments).ranks
    if "MPITUNE_DATA" not in os.environ:
        sys.exit("table.py: MPITUNE_DATA is not set: it names the folder that holds multi30k/")
    data = Path(os.environ["MPITUNE_DATA"]) / "multi30k"
    for system in SYSTEMS:
        train(system, ranks)
        for test in TESTS:
            translate(system, data / f"{test}.de.gz", system.run / f"{test}.out", ranks)
    text = table(SYSTEMS, data)
    (RUNS / "multi30k.md").write_text(text, encoding="utf-8")
    print(text, end="")


def train(system: System, ranks: str) -> None:
    """Learn, or go on learning; a finished run is left as it is."""
    _mpitune(ranks, "train", system)


def translate(system: System, source: Path, output: Path, ranks: str) -> None:
    """Translate ``source`` with the run's weights, unless that was done since they were written."""
    weights = system.run / "weights.txt.gz"
    if not output.exists() or output.stat().st_mtime < weights.stat().st_mtime:
        _mpitune(ranks, "decode", system, "--input", str(source), "--output", str(output))


def _mpitune(ranks: str, command: str, system: System, *more: str) -> None:
    settings = [f"run.dir={system.run}", *system.settings]
    given = [word for setting in settings for word in ("--set", setting)]
    words = ["mpirun", "-n", ranks, "mpitune", command, str(JOBS / system.job), *given, *more]
    print(f"\n== {system.name}: {command}", flush=True)
    done = subprocess.run(words, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def table(systems: Sequence[System], data: Path) -> str:
    """The table in Markdown; behind a BLEU score stand the lines whose score differs from it significantly."""
    header = ["", "algorithm", "tuned on", "features", "active", "epoch", *TESTS, "minutes"]
    rows = [header, ["---"] * len(header)]
    bleu = {test: _scores(systems, test, data) for test in TESTS}
    for n, system in enumerate(systems):
        epochs = [json.loads(line) for line in (system.run / "metrics.jsonl").read_text().splitlines()]
        best = max(epochs, key=lambda epoch: epoch["devtest_bleu"] or 0.0) if _chooses(system) else epochs[-1]
        minutes = sum(epoch["seconds"] for epoch in epochs) / 60
        features, epoch = f"{best['selected_features']:,}", f"{best['epoch']} of {len(epochs)}"
        about = [_letter(n), system.algorithm, system.tuned_on, system.features, features, epoch]
        rows.append([*about, *(bleu[test][n] for test in TESTS), f"{minutes:.1f}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _chooses(system: System) -> bool:
    """Algorithms 3 and 4 choose their epoch on the devtest set; 1 and 2 return a mean over all epochs."""
    return system.algorithm[0] in "34"


def _scores(systems: Sequence[System], test: str, data: Path) -> list[str]:
    """BLEU of each system, with the letters of those that differ (approximate randomisation, p < `LEVEL`)."""
    references = [("reference", _text(data / f"{test}.en.gz"))]
    texts = [(_letter(n), _text(system.run / f"{test}.out")) for n, system in enumerate(systems)]
    cells = []
    for first in texts:
        others = [text for text in texts if text is not first]
        found = evaluate(references, [first, *others], test="ar").scores
        different = sorted(score.system for score in found[1:] if score.p_value is not None and score.p_value < LEVEL)
        cells.append(f"{found[0].bleu:.2f}" + (f" <sup>{' '.join(different)}</sup>" if different else ""))
    return cells


def _text(file: Path) -> list[str]:
    return [line for _, line in lines(file)]


def _letter(n: int) -> str:
    return "abcdefgh"[n]


if __name__ == "__main__":
    main()
