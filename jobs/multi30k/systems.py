"""Systems on Multi30k: tuned, and set to translating, by the scripts of this folder.

What is there already is not done again: a script that is started once more goes on where it was.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mpitune.corpus.text import lines
from mpitune.metrics.significance import Score, evaluate

JOBS = Path(__file__).resolve().parents[1]
TESTS = ("test_2016_flickr", "test_2017_flickr")
LEVEL = 0.05
_FEW, _SOME = 20, 2000
"""How many sentences there are of each set, and how many pairs to extract from, where scripts are only tried."""


@dataclass(frozen=True)
class System:
    """A job, and what is set in it."""

    name: str
    job: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where the data are, and where systems run."""

    data: Path
    """The folder multi30k."""
    runs: Path
    ranks: int = 2
    settings: tuple[str, ...] = ()
    """Set in every job."""

    def run(self, system: System) -> Path:
        """Its run folder."""
        return self.runs / f"multi30k-{system.name}"

    def output(self, system: System, text: str) -> Path:
        """Its translation of ``text``, `TESTS` or val."""
        return self.run(system) / f"{text}.out"

    def train(self, systems: Sequence[System]) -> None:
        """Learn, or go on learning; a finished run is left as it is."""
        for system in systems:
            self._mpitune("train", system)

    def translate(self, systems: Sequence[System], texts: Sequence[str]) -> None:
        """Translate with the runs' weights, unless that was done since they were written."""
        # Text by text: the grammars of the one that was translated last are kept in the store.
        for text in texts:
            for system in systems:
                output, weights = self.output(system, text), self.run(system) / "weights.txt.gz"
                if not output.exists() or output.stat().st_mtime < weights.stat().st_mtime:
                    files = "--input", str(self.data / f"{text}.de.gz"), "--output", str(output)
                    self._mpitune("decode", system, *files, "--weights", str(weights))

    def given(self, system: System) -> list[str]:
        """What is set in the system's job, ``table.key=value``."""
        store = self.runs / f"{Path(system.job).stem}-store"
        return [f"run.dir={self.run(system)}", f"run.store={store}", *system.settings, *self.settings]

    def _mpitune(self, command: str, system: System, *more: str) -> None:
        given = [word for setting in self.given(system) for word in ("--set", setting)]
        words = ["mpirun", "-n", str(self.ranks), "mpitune", command, str(JOBS / system.job), *given, *more]
        print(f"\n== {system.name}: {command}", flush=True)
        done = subprocess.run(words, env={**os.environ, "MPITUNE_DATA": str(self.data.parent)}, check=False)
        if done.returncode:
            sys.exit(done.returncode)

    def epochs(self, system: System) -> list[dict[str, Any]]:
        """The metrics of its epochs."""
        return [json.loads(line) for _, line in lines(self.run(system) / "metrics.jsonl")]

    def scores(self, systems: Sequence[System], text: str) -> list[Score]:
        """How the systems did on ``text``, each of them but the first tested against the first."""
        references = [("reference", read(self.data / f"{text}.en.gz"))]
        translations = [(system.name, read(self.output(system, text))) for system in systems]
        return evaluate(references, translations, test="ar").scores


def read(file: Path) -> list[str]:
    """The lines of ``file``."""
    return [line for _, line in lines(file)]


def place(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> tuple[Place, argparse.Namespace]:
    """Where the options say; they are those of ``parser`` and those that all scripts have."""
    parser.add_argument("--ranks", type=int, default=2, help="for mpirun -n (default 2)")
    parser.add_argument("--small", action="store_true", help="try the script with a few sentences; scores mean nothing")
    options = parser.parse_args(arguments)
    if "MPITUNE_DATA" not in os.environ:
        sys.exit(f"{parser.prog}: MPITUNE_DATA is not set: it names the folder that holds multi30k/")
    data, runs = Path(os.environ["MPITUNE_DATA"]) / "multi30k", JOBS / "runs"
    if not options.small:
        return Place(data, runs, options.ranks), options
    small = runs / "small"
    _cut(data, small / "multi30k")
    return Place(small / "multi30k", small, options.ranks, ("learner.epochs=2",)), options


def _cut(data: Path, small: Path) -> None:
    """The beginnings of all texts."""
    small.mkdir(parents=True, exist_ok=True)
    for file in data.iterdir():
        most = _SOME if file.name.startswith("train") else _FEW
        if file.name.startswith("lm"):
            most = sys.maxsize
        if not (cut := small / file.name).exists():
            with gzip.open(file, "rt", encoding="utf-8") as whole, gzip.open(cut, "wt", encoding="utf-8") as part:
                part.writelines(islice(whole, most))


def show(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))
