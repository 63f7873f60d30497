"""Compare local training, MBUU and EBUU, with the global weights that it starts from, on Multi30k's test sets.

    MPITUNE_DATA=... python jobs/papers/local.py [--model NAME] [--write FOLDER] [--small]

The global weights are those of the method NAME of methods.py (default: mert). The 29,000 training sentences are decoded
once with them, with leave-one-out grammars. Prints a table like tables 2, 3 and 7 of Liu, Cao, Watanabe, Zhao, Yu and
Zhu, "Locally Training the Log-Linear Model for SMT" (EMNLP 2012), with milliseconds per sentence; a star marks a score
that differs significantly from that of the global weights (paired bootstrap). A second table has lambda chosen on the
first test set, and BLEU on the other. Draws local.svg: BLEU by lambda and by K.
The first line is the same command with lambda = 0, which gives the global translations. Finished work is not repeated.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from methods import METHODS
from systems import TESTS, Place, System, on_ranks, place, read, show, starred, written

import mpitune
from mpitune.metrics.evaluation import Score

LAMBDA = {"mbuu": 0.018, "ebuu": 0.06}
"""Values of the paper."""
SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Multiples of `LAMBDA` that are measured."""
SIZES = (40, 70, 100)
"""K."""
TIMES = re.compile(r"each: (\S+) ms retrieval, (\S+) ms learning, (\S+) ms decoding; \|\|w - w_b\|\| (\S+)")
_LIMIT = 300
"""Training sentences under --small."""


@dataclass(frozen=True)
class Setting:
    """One line of the table."""

    method: str
    strength: float
    k: int = 100

    @property
    def name(self) -> str:
        """Name of the setting in file names."""
        return f"{self.method}-{self.strength:g}-{self.k}"

    @property
    def keys(self) -> dict[str, Any]:
        """Settings of the job."""
        return {"local.method": self.method, "local.lambda": self.strength, "local.k": self.k}


GLOBAL = Setting("ebuu", 0.0, 1)
BY_LAMBDA = {method: [Setting(method, round(scale * best, 6)) for scale in SCALES] for method, best in LAMBDA.items()}
BY_K = {method: [Setting(method, best, k) for k in SIZES] for method, best in LAMBDA.items()}
SETTINGS = list(dict.fromkeys([GLOBAL, *(one for by in (BY_LAMBDA, BY_K) for some in by.values() for one in some)]))


@dataclass(frozen=True)
class Timings:
    """Summary that a run prints: milliseconds per sentence, and the mean distance that weights move."""

    retrieval: float
    learning: float
    decoding: float
    distance: float


@dataclass(frozen=True)
class Study:
    """All settings for one global model, with the folders of their translations."""

    where: Place
    model: System
    limit: int = 0
    """Training sentences; 0: all, or `_LIMIT` under --small."""

    @property
    def system(self) -> System:
        """The job of the training data that local training learns from."""
        most = self.limit or (_LIMIT if self.where.settings else 0)
        settings = {"features.templates": []} | ({"data.limit": most} if most else {})
        store = f"multi30k-train-{self.limit}" if self.limit else ""
        return System(f"local-{self.model.name}", "multi30k-train.toml", settings, store=store)

    def output(self, setting: Setting, text: str) -> Path:
        """File of the translation of ``text``; its timings are in a file with ``.told`` appended to the name."""
        return self.where.run(self.system).folder / f"{text}.{setting.name}.out"

    def job(self, setting: Setting) -> mpitune.Job:
        """The job of local training."""
        return self.where.job(self.system).replace(setting.keys)

    def translate(self, settings: Sequence[Setting]) -> None:
        """Translate the test sets, unless a translation is newer than the global weights."""
        self.where.train([self.model])
        self.where.run(self.system).folder.mkdir(exist_ok=True)
        # Text by text, as in systems.py.
        for text in TESTS:
            for setting in settings:
                timings = self._timings_file(setting, text)
                if not self.where.is_translated(self.model, timings):
                    print(f"\n== {setting.name}: {text}", flush=True)
                    files = "--input", self.where.source(text), "--output", self.output(setting, text)
                    weights = "--weights", self.where.run(self.model).folder
                    told = on_ranks(self.where.ranks, "local", self.job(setting), *files, *weights)
                    timings.write_text(told, encoding="utf-8")

    def timings(self, setting: Setting) -> Timings:
        """Means over the test sets."""
        found = [TIMES.search(self._timings_file(setting, text).read_text(encoding="utf-8")) for text in TESTS]
        rows = [[float(number) for number in match.groups()] for match in found if match]
        return Timings(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))

    def _timings_file(self, setting: Setting, text: str) -> Path:
        output = self.output(setting, text)
        return output.with_name(f"{output.name}.told")

    def scores(self, settings: Sequence[Setting], text: str) -> list[Score]:
        """Score the settings on ``text``; each is tested against the first."""
        translations = {setting.name: read(self.output(setting, text)) for setting in settings}
        return mpitune.evaluate(translations, read(self.where.reference(text)), test="bootstrap").scores


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing translations, draw the figure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    models = {method.name: method for method in METHODS}
    help_ = f"global model, one of {', '.join(models)} (default mert)"
    parser.add_argument("--model", choices=list(models), default="mert", metavar="NAME", help=help_)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="folder for local.svg (default: that of the runs)")
    where, options = place(parser, arguments)
    folder = written(where, options)
    study = Study(where, models[options.model])
    study.translate(SETTINGS)
    bleu = {text: study.scores(SETTINGS, text) for text in TESTS}
    draw(bleu, folder / "local.svg")
    text = f"{table(study, bleu, models[options.model].title)}\n{chosen(bleu)}"
    (where.runs / "multi30k-local.md").write_text(text, encoding="utf-8")
    print(text, end="")


def table(study: Study, bleu: dict[str, list[Score]], title: str) -> str:
    """Tabulate all settings; the last column is the time of learning and decoding as a multiple of plain decoding."""
    plain = study.timings(GLOBAL).decoding
    rows = [["", "lambda", "K", *TESTS, "distance", "retrieval, ms", "learning", "decoding", "to plain decoding"]]
    for n, setting in enumerate(SETTINGS):
        timings = study.timings(setting)
        scores = [starred(bleu[text][n]) for text in TESTS]
        about = [setting.method.upper(), f"{setting.strength:g}", str(setting.k)] if n else [title, "0", ""]
        times = [f"{time:.1f}" for time in (timings.retrieval, timings.learning, timings.decoding)]
        ratio = (timings.learning + timings.decoding) / plain
        rows.append([*about, *scores, f"{timings.distance:.3g}", *times, f"{ratio:.2f}"])
    return show(rows)


def chosen(bleu: dict[str, list[Score]]) -> str:
    """Tabulate lambda chosen on the first test set, which the paper does with NIST05, and BLEU on the other."""
    first, other = ({setting: score.bleu for setting, score in zip(SETTINGS, bleu[t], strict=True)} for t in TESTS)
    rows = [["", f"lambda chosen on {TESTS[0]}", f"BLEU on {TESTS[1]}", "global"]]
    for method, settings in BY_LAMBDA.items():
        best = max(settings, key=lambda setting: first[setting])
        rows.append([method.upper(), f"{best.strength:g}", f"{other[best]:.2f}", f"{other[GLOBAL]:.2f}"])
    return show(rows)


def draw(bleu: dict[str, list[Score]], path: Path) -> None:
    """Draw BLEU by lambda at K = 100 and by K at the paper's lambda: a row per test set, a line per method."""
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
