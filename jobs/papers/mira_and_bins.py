"""Pairings of MIRA, and features in bins, on the development set of any corpus, each with several seeds.

    MPITUNE_DATA=... python jobs/papers/mira_and_bins.py --corpus NAME [--sentences N] [--test N] [--only SYSTEM ...]

The first table follows tables 3 and 4 of Eidelman, "Optimization Strategies for Online Large-Margin Learning in Machine
Translation" (WMT 2012), with the perceptron and its defaults beside them; the second the experiments of Clark, Dyer and
Lavie, "Locally Non-Linear Learning for Statistical Machine Translation via Discretization and Structured
Regularization" (TACL 2014), with systems of methods.py and discretised.py. Corpora are in corpora.toml; the test is the
first of a corpus. Each table is `mpitune evaluate --system` over all seeds. The weights are those of the last epoch, as
no set is left to choose it. It works on one process. Finished work is not repeated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from corpora import Corpus, corpora

from mpitune.corpus.lines import lines
from mpitune.run_folder.layout import RunFolder

JOBS = Path(__file__).resolve().parents[1]
SEEDS = (1, 2, 3)
EPOCHS = 3
COMMON = (
    "data.devtest.source=",
    "data.devtest.references=[]",
    "learner.algorithm=itermix",
    "parallel.shards=5",
    f"learner.epochs={EPOCHS}",
)
"""Settings of all systems: no devtest set."""
START = JOBS / "papers" / "start.weights"
"""Initial weights of MIRA: those of a grammar with the same features."""
WITHOUT_PHRASE_PROBABILITY = (
    'learner.frozen=["EgivenFCoherent"]',
    f"learner.initial_weights={JOBS / 'papers' / 'discretised.weights'}",
)
"""As in discretised.py: the initial weight of the phrase probability is 0, and stays."""
BINS = 'features.discretize.features=["SampleCountF", "CountEF", "MaxLexFgivenE", "MaxLexEgivenF"]'


@dataclass(frozen=True)
class System:
    """A line of a table: a job with settings, ``table.key=value``."""

    name: str
    settings: tuple[str, ...]


def mira(pairing: str) -> System:
    """MIRA with a pairing of oracle and prediction."""
    oracle, prediction = pairing.split("/")
    picks = f"learner.mira.oracle={oracle}", f"learner.mira.prediction={prediction}"
    return System(pairing, ("learner.method=mira", *picks, f"learner.initial_weights={START}"))


def pro(name: str, *settings: str) -> System:
    """PRO without the phrase probability."""
    return System(name, ("learner.method=pro", *WITHOUT_PHRASE_PROBABILITY, *settings))


TABLES = {
    "pairings": [
        *(mira(pairing) for pairing in ("M-C/M+C", "LU/MC", "M-C/PB", "LU/PB", "LU/M+C")),
        System("perceptron", ()),
    ],
    "bins": [
        pro("linear"),
        pro("bins", BINS),
        pro("bins-linear-neighbours", BINS, "features.discretize.regularizer=linear"),
    ],
}


@dataclass(frozen=True)
class Experiment:
    """Folders, sizes, and the systems' commands."""

    corpus: Corpus
    data: Path
    """The folder of the corpus."""
    runs: Path
    sentences: int
    """Sentences tuned on."""
    test: int
    """Sentences translated, the first of the first test set."""

    def run(self, system: System) -> Path:
        """The folder of the system's runs, one for each seed."""
        return self.runs / system.name.lower().replace("/", "-").replace("+", "p")

    def given(self, system: System) -> list[str]:
        """All settings of the system's job."""
        own = f"run.dir={self.run(system)}", f"run.store={self.runs / 'store'}", f"data.limit={self.sentences}"
        return [*own, *COMMON, *system.settings]

    def output(self, system: System, seed: int) -> Path:
        """File of the translation of the test set."""
        return self.run(system) / f"seed-{seed}" / f"test-{self.test}.out"

    def cut(self, language: str) -> Path:
        """The first sentences of the test set, as a file."""
        cut = self.runs / f"test-{self.test}.{language}"
        if not cut.exists():
            text = islice(lines(self.data / f"{self.corpus.tests[0]}.{language}.gz"), self.test)
            cut.write_text("".join(f"{line}\n" for _, line in text), encoding="utf-8")
        return cut

    def train(self, system: System) -> None:
        """Train with all seeds; finished runs stay as they are."""
        self._mpitune("train", system, "--seeds", f"{SEEDS[0]}..{SEEDS[-1]}")

    def translate(self, system: System) -> None:
        """Translate the test set with the weights of each seed, where that has not been done."""
        for seed in SEEDS:
            output = self.output(system, seed)
            if not output.exists():
                weights = str(RunFolder(output.parent).result)
                files = ("--input", str(self.cut(self.corpus.languages[0])), "--output", str(output))
                self._mpitune("decode", system, *files, "--weights", weights)

    def _mpitune(self, command: str, system: System, *more: str) -> None:
        given = [word for setting in self.given(system) for word in ("--set", setting)]
        print(f"\n== {system.name}: {command}", flush=True)
        _run(["mpitune", command, str(JOBS / self.corpus.dev), *given, *more], {"MPITUNE_DATA": str(self.data.parent)})

    def evaluate(self, systems: Sequence[System]) -> str:
        """The table of `mpitune evaluate`, in Markdown; all systems are compared with the first."""
        words = ["mpitune", "evaluate", "--refs", str(self.cut(self.corpus.languages[1])), "--test", "ar", "--markdown"]
        for system in systems:
            words += ["--system", system.name, *(str(self.output(system, seed)) for seed in SEEDS)]
        return _run(words, {}, output=True)


def _run(words: Sequence[str], environment: dict[str, str], *, output: bool = False) -> str:
    pipe = subprocess.PIPE if output else None
    done = subprocess.run(words, env={**os.environ, **environment}, stdout=pipe, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout or ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=corpora(), default="europarl", help="a section of corpora.toml")
    parser.add_argument("--sentences", type=int, default=500, metavar="N", help="sentences tuned on (default 500)")
    parser.add_argument("--test", type=int, default=1000, metavar="N", help="sentences translated (default 1000)")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="default: jobs/runs/CORPUS-mira-and-bins")
    names = [system.name for systems in TABLES.values() for system in systems]
    help_ = f"systems to run, of {', '.join(names)} (default: all)"
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="SYSTEM", help=help_)
    options = parser.parse_args(arguments)
    if "MPITUNE_DATA" not in os.environ:
        sys.exit(f"{parser.prog}: MPITUNE_DATA is not set: set it to the folder that contains {options.corpus}/")
    data = Path(os.environ["MPITUNE_DATA"]) / options.corpus
    runs = options.runs or JOBS / "runs" / f"{options.corpus}-mira-and-bins"
    work = Experiment(corpora()[options.corpus], data, runs, options.sentences, options.test)
    work.runs.mkdir(parents=True, exist_ok=True)
    wanted = {name: [system for system in table if system.name in options.only] for name, table in TABLES.items()}
    for name, systems in wanted.items():
        if not systems:
            continue
        for system in systems:
            work.train(system)
            work.translate(system)
        text = work.evaluate(systems)
        (work.runs / f"{name}.md").write_text(text, encoding="utf-8")
        print(text, end="", flush=True)


if __name__ == "__main__":
    main()
