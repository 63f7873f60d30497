"""MIRA's pairings over 20 epochs on Multi30k's validation set: corpus BLEU of what is picked, as E12's figures have it.

    MPITUNE_DATA=... python jobs/multi30k/curves.py [--write FOLDER] [--small]

Runs are those of methods.py. Draws mira.svg: for each pairing the 1-best translations, the oracles and the predictions
of each epoch, all found while the weights move from sentence to sentence; and the 1-best where weights begin at 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from methods import FROM_ZERO, PAIRINGS, Method
from systems import JOBS, Place, place, show

TRACKED_HYPOTHESES = {"oracle": ("s--", "tab:green"), "best": ("o-", "tab:blue"), "prediction": ("^:", "tab:red")}
"""How what metrics call ``oracle_bleu`` and so on is drawn."""
COLUMNS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is lacking, draw it and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, default=JOBS / "runs", metavar="FOLDER", help="for mira.svg")
    where, options = place(parser, arguments)
    where.train([*PAIRINGS, *FROM_ZERO])
    draw(PAIRINGS, FROM_ZERO, where, options.write / "mira.svg")
    print(table([*PAIRINGS, *FROM_ZERO], where), end="")


def curves(method: Method, where: Place) -> dict[str, list[float]]:
    """Corpus BLEU by epoch of each of `TRACKED_HYPOTHESES`."""
    epochs = where.epochs(method)
    return {name: [epoch[f"{name}_bleu"] for epoch in epochs] for name in TRACKED_HYPOTHESES}


def table(methods: Sequence[Method], where: Place) -> str:
    """BLEU of the 1-best: the first epoch, the best one, the worst one of the second half, the last."""
    rows = [["pairing", "starts from", "epoch 1", "highest", "lowest of the second half", "last"]]
    for method in methods:
        best = curves(method, where)["best"]
        values = best[0], max(best), min(best[len(best) // 2 :]), best[-1]
        rows.append([method.title, method.start, *(f"{value:.2f}" for value in values)])
    return show(rows)


def draw(methods: Sequence[Method], from_zero: Sequence[Method], where: Place, path: Path) -> None:
    """A panel for each pairing, all with the same axes; those of ``from_zero`` lie below."""
    below = {method.title: curves(method, where)["best"] for method in from_zero}
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mira", "font.size": 8})
    rows = -(-len(methods) // COLUMNS)
    figure, grid = pyplot.subplots(
        rows,
        COLUMNS,
        figsize=(3.2 * COLUMNS, 2.6 * rows),
        layout="constrained",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for panel, method in zip(grid.flat, methods, strict=False):
        for name, values in curves(method, where).items():
            style, colour = TRACKED_HYPOTHESES[name]
            panel.plot(range(1, len(values) + 1), values, style, color=colour, markersize=3, linewidth=1, label=name)
        if values := below.get(method.title, []):
            panel.plot(range(1, len(values) + 1), values, "-", color="tab:gray", linewidth=1, label="best, from 0")
        panel.set_title(method.title.removeprefix("MIRA "), fontsize=9)
        panel.grid(axis="y", linewidth=0.3)
        panel.xaxis.get_major_locator().set_params(integer=True)
    for panel in grid.flat[len(methods) :]:
        panel.set_visible(False)
    grid[0, 0].legend()
    figure.supxlabel("epoch")
    figure.supylabel("BLEU, validation set")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
