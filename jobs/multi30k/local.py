"""Local training on Multi30k: MBUU and EBUU against the global weights that they start from, on both test sets.

    MPITUNE_DATA=... python jobs/multi30k/local.py [--model NAME] [--write FOLDER] [--small]

The global weights are those of methods.py that are called NAME (mert). The 29,000 training sentences are decoded once
with them, leave-one-out. Prints a table, in the pattern of L12's tables 2, 3 and 7, with milliseconds a sentence; a
star marks a score that differs from the global weights' (paired bootstrap). Draws local.svg: BLEU by lambda, and by K.
The first line is the same command with lambda = 0, which gives the global translations. What is there already is not
done again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from methods import METHODS
from systems import JOBS, LEVEL, TESTS, Place, System, place, read, show

from mpitune.config.spec import LocalKeys
from mpitune.metrics.significance import Score, evaluate

LAMBDA = {"mbuu": 0.018, "ebuu": 0.06}
"""L12's."""
SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""What else is tried: so many times that."""
SIZES = (40, 70, 100)
"""K."""
TIMES = re.compile(r"each: (\S+) ms retrieval, (\S+) ms learning, (\S+) ms decoding; \|\|w - w_b\|\| (\S+)")
_LIMIT = 300
"""How many training sentences there are where the script is only tried."""


@dataclass(frozen=True)
class Setting:
    """One line of the table."""

    method: str
    strength: float
    k: int = LocalKeys.k

    @property
    def name(self) -> str:
        """In the names of files."""
        return f"{self.method}-{self.strength:g}-{self.k}"

    @property
    def given(self) -> tuple[str, ...]:
        """What is set in the job."""
        return f"local.method={self.method}", f"local.lambda={self.strength}", f"local.k={self.k}"


GLOBAL = Setting("ebuu", 0.0, 1)
BY_LAMBDA = {method: [Setting(method, round(scale * best, 6)) for scale in SCALES] for method, best in LAMBDA.items()}
BY_K = {method: [Setting(method, best, k) for k in SIZES] for method, best in LAMBDA.items()}
SETTINGS = list(dict.fromkeys([GLOBAL, *(one for by in (BY_LAMBDA, BY_K) for some in by.values() for one in some)]))


@dataclass(frozen=True)
class Told:
    """What a run says of itself: milliseconds a sentence, and how far weights move on average."""

    retrieval: float
    learning: float
    decoding: float
    distance: float


@dataclass(frozen=True)
class Study:
    """Where all that is, for one global model."""

    where: Place
    model: System

    @property
    def system(self) -> System:
        """The job whose training data are learned from."""
        limit = (f"data.limit={_LIMIT}",) if self.where.settings else ()
        return System(f"local-{self.model.name}", "multi30k-train.toml", ("features.templates=[]", *limit))

    def output(self, setting: Setting, text: str) -> Path:
        """The translation of ``text``; what was told of it has ``.told`` behind its name."""
        return self.where.run(self.system) / f"{text}.{setting.name}.out"

    def translate(self, settings: Sequence[Setting]) -> None:
        """Translate what was not translated since the global weights were written."""
        self.where.train([self.model])
        weights = self.where.run(self.model) / "weights.txt.gz"
        # Text by text, as systems.py has it.
        for text in TESTS:
            for setting in settings:
                told = self._told_file(setting, text)
                if not told.exists() or told.stat().st_mtime < weights.stat().st_mtime:
                    self._translate(setting, text, weights)

    def _translate(self, setting: Setting, text: str, weights: Path) -> None:
        where, output = self.where, self.output(setting, text)
        given = [word for one in (*where.given(self.system), *setting.given) for word in ("--set", one)]
        files = ["--input", str(where.data / f"{text}.de.gz"), "--weights", str(weights), "--output", str(output)]
        command = ["mpirun", "-n", str(where.ranks), "mpitune", "local", str(JOBS / self.system.job), *given, *files]
        print(f"\n== {setting.name}: {text}", flush=True)
        environment = {**os.environ, "MPITUNE_DATA": str(where.data.parent)}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            told = ""
            for line in process.stderr:
                sys.stderr.write(line)
                told += line if TIMES.search(line) else ""
        if process.returncode:
            sys.exit(process.returncode)
        self._told_file(setting, text).write_text(told, encoding="utf-8")

    def told(self, setting: Setting) -> Told:
        """Means over the test sets."""
        found = [TIMES.search(self._told_file(setting, text).read_text(encoding="utf-8")) for text in TESTS]
        rows = [[float(number) for number in match.groups()] for match in found if match]
        return Told(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))

    def _told_file(self, setting: Setting, text: str) -> Path:
        output = self.output(setting, text)
        return output.with_name(f"{output.name}.told")

    def scores(self, settings: Sequence[Setting], text: str) -> list[Score]:
        """Each tested against the first."""
        references = [("reference", read(self.where.data / f"{text}.en.gz"))]
        translations = [(setting.name, read(self.output(setting, text))) for setting in settings]
        return evaluate(references, translations, test="bootstrap").scores


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is lacking, draw it and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    models = {method.name: method for method in METHODS}
    parser.add_argument("--model", choices=list(models), default="mert", metavar="NAME", help=f"of {', '.join(models)}")
    parser.add_argument("--write", type=Path, default=JOBS / "runs", metavar="FOLDER", help="for local.svg")
    where, options = place(parser, arguments)
    study = Study(where, models[options.model])
    study.translate(SETTINGS)
    bleu = {text: study.scores(SETTINGS, text) for text in TESTS}
    draw(bleu, options.write / "local.svg")
    text = table(study, bleu, models[options.model].title)
    (where.runs / "multi30k-local.md").write_text(text, encoding="utf-8")
    print(text, end="")


def table(study: Study, bleu: dict[str, list[Score]], title: str) -> str:
    """All settings; the last column is learning and decoding, as a multiple of plain decoding."""
    plain = study.told(GLOBAL).decoding
    rows = [["", "lambda", "K", *TESTS, "distance", "retrieval, ms", "learning", "decoding", "to plain decoding"]]
    for n, setting in enumerate(SETTINGS):
        told = study.told(setting)
        scores = [bleu[text][n] for text in TESTS]
        marked = [f"{one.bleu:.2f}{'*' * (one.p_value is not None and one.p_value < LEVEL)}" for one in scores]
        about = [setting.method.upper(), f"{setting.strength:g}", str(setting.k)] if n else [title, "0", ""]
        times = [f"{time:.1f}" for time in (told.retrieval, told.learning, told.decoding)]
        rows.append([*about, *marked, f"{told.distance:.3g}", *times, f"{(told.learning + told.decoding) / plain:.2f}"])
    return show(rows)


def draw(bleu: dict[str, list[Score]], path: Path) -> None:
    """BLEU by lambda at K = 100 and by K at L12's lambda: a row for each test set, a line for each method."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "local", "font.size": 8})
    size = 3.2 * len(TESTS), 2.6 * 2
    figure, grid = pyplot.subplots(len(TESTS), 2, figsize=size, layout="constrained", sharex="col", sharey="row")
    for row, text in zip(grid, TESTS, strict=True):
        score = {setting: found.bleu for setting, found in zip(SETTINGS, bleu[text], strict=True)}
        for panel, by, of in zip(row, (BY_LAMBDA, BY_K), ("strength", "k"), strict=True):
            for method, settings in by.items():
                places = [getattr(setting, of) for setting in settings]
                panel.plot(places, [score[setting] for setting in settings], "o-", markersize=3, label=method.upper())
            panel.axhline(score[GLOBAL], color="tab:gray", linewidth=1, label="global")
            panel.grid(axis="y", linewidth=0.3)
        row[0].set_xscale("log")
        row[0].set_ylabel(f"BLEU, {text}")
    grid[-1, 0].set_xlabel("lambda (K = 100)")
    grid[-1, 1].set_xlabel("K (L12's lambda)")
    grid[0, 0].legend()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
