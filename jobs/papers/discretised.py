"""Compare linear features, with and without logarithms, with bins on Multi30k: `make discretised`.

    MPITUNE_DATA=... python jobs/papers/discretised.py [--only NAME ...] [--write FOLDER] [--small]

The experiment follows Clark, Dyer and Lavie, "Locally Non-Linear Learning for Statistical Machine Translation via
Discretization and Structured Regularization" (TACL 2014). All variants but the last are tuned by PRO on the validation
set for 20 epochs, from the same initial weights of their common features; the last is the perceptron of
multi30k-dev.toml with bins. All but the first leave out the grammar's phrase probability. Rule counts and lexical
probabilities are given as logarithms, without logarithms, or in 20 bins each. Writes the table to discretised.md and
draws the learned response curves to discretised.svg. Finished work is not repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from methods import JOB, SETS, learner
from systems import Place, System, place, show, starred, written

import mpitune
from mpitune.report.charts import Response, responses
from mpitune.run_folder.model_weights import read_scoring

HERE = Path(__file__).resolve().parent
SCORES = dict.fromkeys(("SampleCountF", "CountEF"), "count") | dict.fromkeys(
    ("MaxLexFgivenE", "MaxLexEgivenF"), "probability"
)
"""Binned features, and the quantity of which each is a logarithm."""
UNLOGGED = {
    "features.unlog.minus_log10": ["MaxLexFgivenE", "MaxLexEgivenF"],
    "features.unlog.log10_plus_1": ["SampleCountF", "CountEF"],
}
DROPPED = {"learner.frozen": ["EgivenFCoherent"]}
"""Its initial weight is 0."""


@dataclass(frozen=True)
class Variant(System):
    """One line of the table."""

    title: str = ""


def variant(name: str, title: str, settings: Mapping[str, Any], start: str = "discretised.weights") -> Variant:
    """Make a variant tuned by PRO."""
    pro = learner({"method": "pro", "epochs": 20, "initial_weights": HERE / start})
    return Variant(name, JOB, {**pro, **settings}, title)


def binned(**keys: Any) -> dict[str, Any]:
    """Settings for bins, with ``keys`` of features.discretize; undoing logarithms changes only the curves' axes."""
    keys["features"] = list(SCORES)
    return DROPPED | UNLOGGED | {f"features.discretize.{key}": value for key, value in keys.items()}


LINEAR = (
    variant("pro", "linear, logarithms, all 12 features", {}, "start.weights"),  # of `make methods` too
    variant("logs", "linear, logarithms", DROPPED),
    variant("no-logs", "linear, no logarithms", DROPPED | UNLOGGED, "unlogged.weights"),
)
IN_BINS = (
    variant("bins", "bins", binned()),
    variant("bins-overlap", "bins, overlapping", binned(overlap=1)),
    variant("bins-linear", "bins, linear neighbours", binned(regularizer="linear")),
    variant("bins-monotone", "bins, monotone neighbours", binned(regularizer="monotone")),
    Variant("bins-online", JOB, binned(regularizer="linear"), "bins, linear neighbours, perceptron"),
)
FEW = ("no-logs", "bins-monotone", "bins-online")
"""Variants of --small."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs, write the table and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [each.name for each in (*LINEAR, *IN_BINS)][1:]
    help_ = f"variants to run besides pro, of {', '.join(names)} (default: all)"
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=help_)
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", help="folder for the table and the curves (default: that of the runs)"
    )
    where, options = place(parser, arguments)
    folder = written(where, options)
    chosen = options.only or (FEW if options.small else names)
    wanted = [each for each in (*LINEAR, *IN_BINS) if each.name in ("pro", *chosen)]
    where.train(wanted)
    where.translate(wanted, SETS)
    text = table(wanted, where)
    (folder / "discretised.md").write_text(text, encoding="utf-8")
    if with_bins := [each for each in wanted if each in IN_BINS]:
        draw(with_bins, where, folder / "discretised.svg")
    print(text, end="")


def table(variants: Sequence[Variant], where: Place) -> str:
    """Make the table in Markdown; ``*``: the score differs significantly from that of the first line."""
    scores = {text: where.scores(variants, text) for text in SETS}
    cells = [["features", "tuned", *SETS, "length", "seconds an epoch"]]
    for n, each in enumerate(variants):
        epochs, found = where.run(each).metrics, [scores[text][n] for text in SETS]
        seconds = sum(epoch["seconds"] for epoch in epochs) / len(epochs)
        weights = str(epochs[-1]["selected_features"])
        cells.append(
            [each.title, weights, *map(starred, found), f"{found[1].values['length_ratio']:.3f}", f"{seconds:.1f}"]
        )
    return show(cells)


def draw(variants: Sequence[Variant], where: Place, path: Path) -> None:
    """Draw a row of panels for each feature: responses by value, and by bin number with the bin populations."""
    curves = {each.title: learned(where.run(each)) for each in variants}
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "discretised", "font.size": 8})
    size = {"figsize": (8.5, 2.4 * len(SCORES)), "layout": "constrained", "squeeze": False}
    figure, grid = pyplot.subplots(len(SCORES), 2, **size)
    for (by_value, by_number), feature in zip(grid, SCORES, strict=True):
        populated = by_number.twinx()
        for title, of_features in curves.items():
            curve = of_features[feature]
            numbers = range(1, len(curve.contribution) + 1)
            worth = curve.contribution - curve.contribution.mean()
            [drawn] = by_number.plot(numbers, worth, "o-", markersize=3, linewidth=1, label=title)
            by_value.plot(
                (curve.least + curve.most) / 2, worth, "o-", markersize=3, linewidth=1, color=drawn.get_color()
            )
        # The bins, and so their populations, are the same in all runs.
        populated.bar(numbers, curve.population, color="0.9", width=0.9)
        by_value.set_xlabel(f"{feature}, {SCORES[feature]}")
        by_number.set_xlabel("bin")
        by_number.set_zorder(populated.get_zorder() + 1)
        by_number.patch.set_visible(False)
        by_number.xaxis.get_major_locator().set_params(integer=True)
        populated.set_ylabel("rules", color="0.5")
    figure.legend(*grid[0, 1].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.supylabel("worth of a rule, less its mean over the bins")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def learned(run: mpitune.Run) -> dict[str, Response]:
    """Read the response curves of a run, by feature."""
    scoring = read_scoring(run.folder)
    assert scoring is not None
    return {curve.feature: curve for curve in responses(scoring, run.weights)}


if __name__ == "__main__":
    main()
