"""Run the systems of the table, translate both test sets with each, and write the table: `make multi30k`.

    MPITUNE_DATA=... python jobs/multi30k/table.py

The table follows table 2 of Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed Stochastic Learning for
Large-Scale Discriminative Training in SMT" (ACL 2012). Finished work is not repeated; a second call resumes the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from systems import LEVEL, TESTS, Place, System, place, show

from mpitune.run_folder.best_epoch import chosen_epoch, devtest_scores

ALL = 'features.templates=["id", "source-bigram", "shape"]'


@dataclass(frozen=True)
class Row(System):
    """One line of the table."""

    algorithm: str = ""
    tuned_on: str = ""
    features: str = ""


DEV, TRAIN = "multi30k-dev.toml", "multi30k-train.toml"
ROWS = (
    Row("dev", DEV, (), "1 SGD", "dev", "12 dense"),
    Row("dev-sparse", DEV, (ALL,), "1 SGD", "dev", "all"),
    Row("mix", TRAIN, ("learner.algorithm=mix",), "2 MixSGD", "train", "all"),
    Row("itermix", TRAIN, ("learner.algorithm=itermix",), "3 IterMixSGD", "train", "all"),
    Row("itersel", TRAIN, (), "4 IterSelSGD", "train", "all"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and write the table."""
    where, _ = place(argparse.ArgumentParser(description=__doc__), arguments)
    where.train(ROWS)
    where.translate(ROWS, TESTS)
    text = table(ROWS, where)
    (where.runs / "multi30k.md").write_text(text, encoding="utf-8")
    print(text, end="")


def table(rows: Sequence[Row], where: Place) -> str:
    """Make the table in Markdown; each BLEU score is followed by the lines that differ from it significantly."""
    cells = [["", "algorithm", "tuned on", "features", "active", "epoch", *TESTS, "minutes"]]
    bleu = {test: _scores(rows, test, where) for test in TESTS}
    for n, row in enumerate(rows):
        epochs = where.epochs(row)
        best = epochs[chosen_epoch(devtest_scores(epochs)) - 1]
        minutes = sum(epoch["seconds"] for epoch in epochs) / 60
        features, epoch = f"{best['selected_features']:,}", f"{best['epoch']} of {len(epochs)}"
        about = [_letter(n), row.algorithm, row.tuned_on, row.features, features, epoch]
        cells.append([*about, *(bleu[test][n] for test in TESTS), f"{minutes:.1f}"])
    return show(cells)


def _scores(rows: Sequence[Row], test: str, where: Place) -> list[str]:
    """BLEU of each system, with the letters of those that differ (approximate randomisation, p < `LEVEL`)."""
    letters = {row.name: _letter(n) for n, row in enumerate(rows)}
    cells = []
    for first in rows:
        found = where.scores([first, *(row for row in rows if row is not first)], test)
        different = sorted(
            letters[score.system] for score in found[1:] if score.p_value is not None and score.p_value < LEVEL
        )
        cells.append(f"{found[0].bleu:.2f}" + (f" <sup>{' '.join(different)}</sup>" if different else ""))
    return cells


def _letter(n: int) -> str:
    return "abcdefgh"[n]


if __name__ == "__main__":
    main()
