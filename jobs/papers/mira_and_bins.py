"""Pairings of MIRA, and features in bins, on the development set of any corpus, each with several seeds.

    MPITUNE_DATA=... python jobs/papers/mira_and_bins.py --corpus NAME [--sentences N] [--test N] [--only SYSTEM ...]

The first table follows tables 3 and 4 of Eidelman, "Optimization Strategies for Online Large-Margin Learning in Machine
Translation" (WMT 2012), with the perceptron and its defaults beside them; the second the experiments of Clark, Dyer and
Lavie, "Locally Non-Linear Learning for Statistical Machine Translation via Discretization and Structured
Regularization" (TACL 2014), with systems of methods.py and discretised.py. Corpora are in corpora.toml; the test is the
first of a corpus. Each table compares all seeds of its systems with those of the first. The weights are those of the
last epoch, as no set is left to choose it. Finished work is not repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpora import Corpus, corpora
from discretised import DROPPED, HERE, SCORES
from methods import START, learner
from systems import Place, System, cut, place

SEEDS = (1, 2, 3)
COMMON = {
    "data.devtest.source": "",
    "data.devtest.references": [],
    "parallel.shards": 5,
    **learner({"algorithm": "itermix", "epochs": 3}),
}
"""Settings of all systems: no devtest set."""


def mira(pairing: str) -> dict[str, Any]:
    """MIRA with a pairing of oracle and prediction."""
    oracle, prediction = pairing.split("/")
    return learner({"method": "mira", "mira.oracle": oracle, "mira.prediction": prediction, **START})


def pro(**discretize: Any) -> dict[str, Any]:
    """PRO without the phrase probability, whose initial weight is 0 and stays; ``discretize``: keys of bins."""
    bins = {f"features.discretize.{key}": value for key, value in discretize.items()}
    return learner({"method": "pro", "initial_weights": HERE / "discretised.weights"}) | DROPPED | bins


TABLES = {
    "pairings": {
        **{pairing: mira(pairing) for pairing in ("M-C/M+C", "LU/MC", "M-C/PB", "LU/PB", "LU/M+C")},
        "perceptron": {},
    },
    "bins": {
        "linear": pro(),
        "bins": pro(features=list(SCORES)),
        "bins-linear-neighbours": pro(features=list(SCORES), regularizer="linear"),
    },
}
"""By table and name of the system: its settings."""


def runs(corpus: Corpus, name: str, settings: Mapping[str, Any], sentences: int) -> list[System]:
    """A system for each seed, tuned on the first ``sentences``."""
    folder, given = name.lower().replace("/", "-").replace("+", "p"), {**COMMON, **settings, "data.limit": sentences}
    return [System(f"{folder}/seed-{n}", corpus.dev, {**given, "run.seed": n}) for n in SEEDS]


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=corpora(), default="europarl", help="a section of corpora.toml")
    parser.add_argument("--sentences", type=int, default=500, metavar="N", help="sentences tuned on (default 500)")
    parser.add_argument("--test", type=int, default=1000, metavar="N", help="sentences translated (default 1000)")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="default: jobs/runs/CORPUS-mira-and-bins")
    names = [name for systems in TABLES.values() for name in systems]
    help_ = f"systems to run, of {', '.join(names)} (default: all)"
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="SYSTEM", help=help_)
    where, options = place(parser, arguments)
    corpus, folder = where.corpus, (options.runs or where.runs / f"{where.corpus.name}-mira-and-bins").resolve()
    # The first sentences of the test are a text of their own.
    text, tested = f"{corpus.tests[0]}-{options.test}", replace(where, data=folder, runs=folder)
    folder.mkdir(parents=True, exist_ok=True)
    for side in (Place.source, Place.reference):
        cut(side(where, corpus.tests[0]), side(tested, text), options.test)
    for table, systems in TABLES.items():
        wanted = {name: settings for name, settings in systems.items() if name in options.only}
        found = {name: runs(corpus, name, settings, options.sentences) for name, settings in wanted.items()}
        if not found:
            continue
        every = [run for of_system in found.values() for run in of_system]
        tested.train(every)
        tested.translate(every, [text])
        markdown = f"{tested.evaluate(found, text).as_markdown()}\n"
        (folder / f"{table}.md").write_text(markdown, encoding="utf-8")
        print(markdown, end="", flush=True)


if __name__ == "__main__":
    main()
