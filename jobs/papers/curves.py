"""Plot corpus BLEU of MIRA's 1-best, oracles and predictions over 20 epochs on Multi30k's validation set.

    MPITUNE_DATA=... python jobs/papers/curves.py [--write FOLDER] [--small]

The figure follows Eidelman, "Optimization Strategies for Online Large-Margin Learning in Machine Translation" (WMT
2012). The runs are those of methods.py. Writes mira.svg, a panel for each pairing of oracle and prediction: BLEU of the
1-best translations, the oracles and the predictions of each epoch, selected while the weights change from sentence to
sentence; in gray the 1-best of a run with initial weights 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from methods import FROM_ZERO, PAIRINGS, Method
from systems import Place, place, show, written

TRACKED_HYPOTHESES = {"oracle": ("s--", "tab:green"), "best": ("o-", "tab:blue"), "prediction": ("^:", "tab:red")}
"""Line style and colour of each metric ``<name>_bleu``."""
COLUMNS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs, draw the figure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="folder for mira.svg (default: that of the runs)")
    where, options = place(parser, arguments)
    folder = written(where, options)
    where.train([*PAIRINGS, *FROM_ZERO])
    draw(PAIRINGS, FROM_ZERO, where, folder / "mira.svg")
    print(table([*PAIRINGS, *FROM_ZERO], where), end="")


def curves(method: Method, where: Place) -> dict[str, list[float]]:
    """Corpus BLEU by epoch of each of `TRACKED_HYPOTHESES`."""
    epochs = where.run(method).metrics
    return {name: [epoch[f"{name}_bleu"] for epoch in epochs] for name in TRACKED_HYPOTHESES}


def table(methods: Sequence[Method], where: Place) -> str:
    """Tabulate BLEU of the 1-best: first epoch, highest, lowest of the second half, last epoch."""
    rows = [["pairing", "starts from", "epoch 1", "highest", "lowest of the second half", "last"]]
    for method in methods:
        best = curves(method, where)["best"]
        values = best[0], max(best), min(best[len(best) // 2 :]), best[-1]
        rows.append([method.title, method.start, *(f"{value:.2f}" for value in values)])
    return show(rows)


def draw(methods: Sequence[Method], from_zero: Sequence[Method], where: Place, path: Path) -> None:
    """Draw a panel for each pairing, with shared axes; runs of ``from_zero`` are drawn underneath."""
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
