"""Tune systems on a corpus and translate with them, for the scripts of this folder.

Finished work is not repeated: a script that is started again resumes.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from corpora import Corpus, corpora

import mpitune
from mpitune.corpus.lines import lines
from mpitune.metrics.evaluation import Evaluation, Score

JOBS = Path(__file__).resolve().parents[1]
MULTI30K = corpora()["multi30k"]
TESTS = MULTI30K.tests
LEVEL = 0.05
_FEW, _SOME = 20, 2000
"""Sentences of each set, and pairs of the bitext, under --small."""


@dataclass(frozen=True)
class System:
    """A job with settings, values of dotted keys."""

    name: str
    job: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
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
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of every job."""
    corpus: Corpus = MULTI30K

    def run(self, system: System) -> mpitune.Run:
        """The run of a system, done or not."""
        return mpitune.Run(self._folder(system.name))

    def _folder(self, name: str) -> Path:
        return self.runs / f"{self.corpus.name}-{name}"

    def output(self, system: System, text: str) -> Path:
        """File of a system's translation of ``text``, a text of the corpus."""
        return self.run(system).folder / f"{text}.out"

    def is_translated(self, system: System, output: Path) -> bool:
        """True if ``output`` is newer than the system's weights."""
        weights = self.run(system).folder / "weights.txt.gz"
        return output.exists() and output.stat().st_mtime >= weights.stat().st_mtime

    def source(self, text: str) -> Path:
        """The source side of ``text``."""
        return self.data / f"{text}.{self.corpus.languages[0]}.gz"

    def reference(self, text: str) -> Path:
        """The target side of ``text``."""
        return self.data / f"{text}.{self.corpus.languages[1]}.gz"

    def job(self, system: System) -> mpitune.Job:
        """The system's job."""
        store = self.runs / f"{system.store or Path(system.job).stem}-store"
        folders = {"run.dir": self._folder(system.name), "run.store": store}
        initial = {"learner.initial_weights": self._folder(system.initial)} if system.initial else {}
        return mpitune.Job(JOBS / system.job).replace({**folders, **initial, **system.settings, **self.settings})

    def train(self, systems: Sequence[System]) -> None:
        """Train each system, or resume its training; finished runs stay unchanged."""
        for system in systems:
            print(f"\n== {system.name}: train", flush=True)
            on_ranks(self.ranks, "train", self.job(system))

    def translate(self, systems: Sequence[System], texts: Sequence[str]) -> None:
        """Translate with the runs' weights, unless a translation is newer than its weights."""
        # Text by text, because the store holds the grammars of the text translated last.
        for text in texts:
            for system in systems:
                output = self.output(system, text)
                if not self.is_translated(system, output):
                    print(f"\n== {system.name}: decode", flush=True)
                    files = "--input", self.source(text), "--output", output
                    on_ranks(self.ranks, "decode", self.job(system), *files)

    def scores(self, systems: Sequence[System], text: str) -> list[Score]:
        """Score the systems on ``text``; each but the first is tested against the first."""
        return self.evaluate({system.name: [system] for system in systems}, text).scores

    def evaluate(self, systems: Mapping[str, Sequence[System]], text: str) -> Evaluation:
        """The same for systems that have several runs each."""
        translations = {name: [read(self.output(run, text)) for run in runs] for name, runs in systems.items()}
        return mpitune.evaluate(translations, read(self.reference(text)), test="ar" if len(systems) > 1 else None)


def on_ranks(ranks: int, command: str, job: mpitune.Job, *more: str | Path) -> str:
    """Run a command of mpitune on a job by mpirun; returns what it tells on standard error, which is shown too.

    Only a launcher starts several processes. The job is in a file beside its run folder.
    """
    file = Path(f"{job['run.dir']}.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(job.to_toml(), encoding="utf-8")
    words = ["mpirun", "-n", str(ranks), "mpitune", command, str(file), *map(str, more)]
    told = ""
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace") as process:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            told += line
    if process.returncode:
        sys.exit(process.returncode)
    return told


def read(file: Path) -> list[str]:
    """Read the lines of ``file``."""
    return [line for _, line in lines(file)]


def place(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> tuple[Place, argparse.Namespace]:
    """Parse the options of ``parser`` and those common to all scripts; returns the place that they choose, and them.

    The corpus is that of the option --corpus, if ``parser`` has it, else Multi30k. Jobs find its files by MPITUNE_DATA,
    which --small changes.
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
    data, runs = Path(os.environ["MPITUNE_DATA"]).resolve(), JOBS / "runs"
    settings = {"learner.epochs": options.epochs} if options.epochs else {}
    if options.small:
        runs, settings = runs / "small", {"learner.epochs": 2}
        (runs / corpus.name).mkdir(parents=True, exist_ok=True)
        for file in (data / corpus.name).iterdir():
            most = sys.maxsize if ".arpa" in file.name else _SOME if file.name.startswith(("train", "lm")) else _FEW
            cut(file, runs / corpus.name / file.name, most)
        data = runs
    os.environ["MPITUNE_DATA"] = str(data)
    return Place(data / corpus.name, runs, options.ranks, settings, corpus), options


def cut(file: Path, beginning: Path, most: int) -> None:
    """Write the first ``most`` lines of a gzipped ``file``, if they are not there."""
    if not beginning.exists():
        with gzip.open(file, "rt", encoding="utf-8") as whole, gzip.open(beginning, "wt", encoding="utf-8") as part:
            part.writelines(islice(whole, most))


def written(where: Place, options: argparse.Namespace) -> Path:
    """The folder that the option --write chooses, by default that of the runs; made if there is none."""
    folder: Path = options.write or where.runs
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def starred(score: Score) -> str:
    """BLEU; ``*``: it differs significantly from that of the first system."""
    return f"{score.bleu:.2f}{'*' * (score.p_value is not None and score.p_value < LEVEL)}"


def show(rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table; the first row is its header."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))
