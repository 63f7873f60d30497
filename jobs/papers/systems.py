"""Tune systems on a corpus and translate with them, for the scripts of this folder.

Finished work is not repeated: a script that is started again resumes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from corpora import Corpus, corpora

from mpitune.corpus.lines import lines
from mpitune.metrics.evaluation import Score, SystemRuns, evaluate
from mpitune.run_folder.layout import RunFolder

JOBS = Path(__file__).resolve().parents[1]
MULTI30K = corpora()["multi30k"]
TESTS = MULTI30K.tests
LEVEL = 0.05
_FEW, _SOME = 20, 2000
"""Sentences of each set, and pairs of the bitext, under --small."""


@dataclass(frozen=True)
class System:
    """A job with settings, ``table.key=value``."""

    name: str
    job: str
    settings: tuple[str, ...] = ()
    store: str = field(default="", kw_only=True)
    """The name of its store, if it is not that of all systems of its job."""
    initial: str = field(default="", kw_only=True)
    """The name of the system whose weights it starts from, if it does not start from those of its job."""


@dataclass(frozen=True)
class Place:
    """Folders of data and runs, and settings common to all systems."""

    data: Path
    """The corpus's folder."""
    runs: Path
    ranks: int = 2
    settings: tuple[str, ...] = ()
    """Settings of every job."""
    corpus: Corpus = MULTI30K

    def run(self, system: System) -> Path:
        """Run folder of a system."""
        return self._run_of(system.name)

    def _run_of(self, name: str) -> Path:
        return self.runs / f"{self.corpus.name}-{name}"

    def weights(self, system: System) -> Path:
        """File of a system's weights."""
        return RunFolder(self.run(system)).result

    def output(self, system: System, text: str) -> Path:
        """File of a system's translation of ``text``, a text of the corpus."""
        return self.run(system) / f"{text}.out"

    def source(self, text: str) -> Path:
        """The source side of ``text``."""
        return self.data / f"{text}.{self.corpus.languages[0]}.gz"

    def reference(self, text: str) -> Path:
        """The target side of ``text``."""
        return self.data / f"{text}.{self.corpus.languages[1]}.gz"

    def train(self, systems: Sequence[System]) -> None:
        """Train each system, or resume its training; finished runs stay unchanged."""
        for system in systems:
            self._mpitune("train", system)

    def translate(self, systems: Sequence[System], texts: Sequence[str]) -> None:
        """Translate with the runs' weights, unless a translation is newer than its weights."""
        # Text by text, because the store holds the grammars of the text translated last.
        for text in texts:
            for system in systems:
                output, weights = self.output(system, text), self.weights(system)
                if not output.exists() or output.stat().st_mtime < weights.stat().st_mtime:
                    files = "--input", str(self.source(text)), "--output", str(output)
                    self._mpitune("decode", system, *files, "--weights", str(weights))

    def given(self, system: System) -> list[str]:
        """All settings of the system's job, ``table.key=value``."""
        store = self.runs / f"{system.store or Path(system.job).stem}-store"
        initial = RunFolder(self._run_of(system.initial)).result
        start = [f"learner.initial_weights={initial}"] if system.initial else []
        return [f"run.dir={self.run(system)}", f"run.store={store}", *start, *system.settings, *self.settings]

    def _mpitune(self, command: str, system: System, *more: str) -> None:
        given = [word for setting in self.given(system) for word in ("--set", setting)]
        words = ["mpirun", "-n", str(self.ranks), "mpitune", command, str(JOBS / system.job), *given, *more]
        print(f"\n== {system.name}: {command}", flush=True)
        done = subprocess.run(words, env={**os.environ, "MPITUNE_DATA": str(self.data.parent)}, check=False)
        if done.returncode:
            sys.exit(done.returncode)

    def epochs(self, system: System) -> list[dict[str, Any]]:
        """Metrics of a system's epochs."""
        return [json.loads(line) for _, line in lines(self.run(system) / "metrics.jsonl")]

    def scores(self, systems: Sequence[System], text: str) -> list[Score]:
        """Score the systems on ``text``; each but the first is tested against the first."""
        return self.scores_of_runs([(system.name, [system]) for system in systems], text)

    def scores_of_runs(self, systems: Sequence[tuple[str, Sequence[System]]], text: str) -> list[Score]:
        """The same for systems that have several runs each, with a name for each system."""
        references = [("reference", read(self.reference(text)))]
        translations = [
            SystemRuns(name, [(run.name, read(self.output(run, text))) for run in runs]) for name, runs in systems
        ]
        return evaluate(references, translations, test="ar" if len(systems) > 1 else None).scores


def read(file: Path) -> list[str]:
    """Read the lines of ``file``."""
    return [line for _, line in lines(file)]


def place(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> tuple[Place, argparse.Namespace]:
    """Parse the options of ``parser`` and those common to all scripts; returns the place that they choose, and them.

    The corpus is that of the option --corpus, if ``parser`` has it, else Multi30k.
    """
    parser.add_argument("--ranks", type=int, default=2, help="number of MPI ranks (default 2)")
    parser.add_argument(
        "--small", action="store_true", help="test the script on a few sentences; scores are meaningless"
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="no more than N epochs (default: that of each job)")
    options = parser.parse_args(arguments)
    corpus = corpora()[getattr(options, "corpus", MULTI30K.name)]
    if "MPITUNE_DATA" not in os.environ:
        sys.exit(f"{parser.prog}: MPITUNE_DATA is not set: set it to the folder that contains {corpus.name}/")
    data, runs = Path(os.environ["MPITUNE_DATA"]) / corpus.name, JOBS / "runs"
    epochs = (f"learner.epochs={options.epochs}",) if options.epochs else ()
    if not options.small:
        return Place(data, runs, options.ranks, epochs, corpus), options
    small = runs / "small"
    _cut(data, small / corpus.name)
    return Place(small / corpus.name, small, options.ranks, ("learner.epochs=2",), corpus), options


def written(where: Place, options: argparse.Namespace) -> Path:
    """The folder that the option --write chooses, by default that of the runs; made if there is none."""
    folder: Path = options.write or where.runs
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _cut(data: Path, small: Path) -> None:
    """Write the beginnings of all texts into ``small``."""
    small.mkdir(parents=True, exist_ok=True)
    for file in data.iterdir():
        most = _SOME if file.name.startswith(("train", "lm")) else _FEW
        if ".arpa" in file.name:
            most = sys.maxsize
        if not (cut := small / file.name).exists():
            with gzip.open(file, "rt", encoding="utf-8") as whole, gzip.open(cut, "wt", encoding="utf-8") as part:
                part.writelines(islice(whole, most))


def show(rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table; the first row is its header."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))
