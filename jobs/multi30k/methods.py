"""Tunes 12 dense weights on Multi30k's validation set by each method, and writes their table: `make methods`.

    MPITUNE_DATA=... python jobs/multi30k/methods.py [--only NAME ...] [--small]

All see the same k-best decoder, sentences and features. The weights are those of the last epoch (of the perceptron, the
mean over epochs, as algorithm 1 has it): none is chosen, as the validation set, which could choose, is what is tuned
on. The perceptron starts from 0, the others from start.weights. Batch methods need some: by weights of 0 all
translations are equally good, and the first lists hold nothing worth learning from. MIRA is also started from 0: costs
are larger than model scores then, and where the prediction is the 1-best, nothing makes the weights grow. What is
there already is not done again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systems import LEVEL, TESTS, Place, System, place, show

JOB = "multi30k-dev.toml"
SETS = ("val", *TESTS)
LARGEST = 5000
"""How many translations the oracle MB is picked from: with E12's 50,000, decoding takes four times as long."""
START = f"learner.initial_weights={Path(__file__).with_name('start.weights')}"


@dataclass(frozen=True)
class Method(System):
    """One line of the table."""

    title: str = ""
    start: str = "0"


def mira(pairing: str, start: str = "given", variant: str = "1-best") -> Method:
    """MIRA with that pairing, and E12's settings: 20 epochs, 20 shards, 500-best lists, BLEU in context."""
    oracle, prediction = pairing.split("/")
    picks = f"mira.oracle={oracle}", f"mira.prediction={prediction}", f"mira.variant={variant}"
    settings = _learner("method=mira", "algorithm=itermix", "epochs=20", *picks)
    if oracle == "MB":
        settings += _learner(f"mira.oracle_kbest={LARGEST}")
    name, title = f"mira-{oracle}-{prediction}".lower().replace("+", "p"), f"MIRA {pairing}"
    if variant != "1-best":
        name, title = f"{name}-{variant}", f"{title}, {variant}"
    if start == "given":
        name, settings = f"{name}-given", (*settings, START)
    return Method(name, JOB, settings, title, start)


def batch(method: str, epochs: int, title: str, *settings: str) -> Method:
    """A batch method."""
    name = "-".join([method, *(setting.rpartition("=")[2] for setting in settings)])
    return Method(name, JOB, (*_learner(f"method={method}", f"epochs={epochs}", *settings), START), title, "given")


def _learner(*settings: str) -> tuple[str, ...]:
    return tuple(f"learner.{setting}" for setting in settings)


STABLE, *OTHERS = "M-C/M+C", "LU/MC", "LU/PB", "LU/M+C", "M-C/PB"
PAIRINGS = [mira(pairing) for pairing in (STABLE, *OTHERS, "MB/MC")]
FROM_ZERO = [mira(pairing, "0") for pairing in (STABLE, *OTHERS)]
METHODS = (
    Method("dev", JOB, (), "perceptron"),  # of `make multi30k` too
    *PAIRINGS,
    *(mira(STABLE, variant=variant) for variant in ("k-constraint", "cutting-plane")),
    *FROM_ZERO,
    batch("pro", 20, "PRO"),
    batch("mert", 10, "MERT"),
    batch("mert", 5, "MERT, hypergraphs", "mert.search=hypergraph", "mert.restarts=2"),
    batch("minrisk", 10, "minimum risk"),
    batch("rampion", 20, "RAMPION"),
)
FEW = ("mira-m-c-mpc-given", "pro", "mert")
"""What the script is tried with."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is lacking, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [method.name for method in METHODS[1:]]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"beside dev, of {', '.join(names)}")
    where, options = place(parser, arguments)
    chosen = options.only or (FEW if options.small else names)
    wanted = [method for method in METHODS if method.name in ("dev", *chosen)]
    where.train(wanted)
    where.translate(wanted, SETS)
    text = table(wanted, where)
    (where.runs / "multi30k-methods.md").write_text(text, encoding="utf-8")
    print(text, end="")


def table(methods: Sequence[Method], where: Place) -> str:
    """The table in Markdown; ``*``: the score on a test set differs significantly from that of the first method."""
    scores = {text: where.scores(methods, text) for text in SETS}
    cells = [["method", "starts from", "epochs", *SETS, "length", "seconds an epoch", "of all ranks, busy"]]
    for n, method in enumerate(methods):
        epochs = where.epochs(method)
        found = [scores[text][n] for text in SETS]
        bleu = [f"{score.bleu:.2f}{'*' * (score.p_value is not None and score.p_value < LEVEL)}" for score in found]
        seconds, busy = (_mean(epochs, key) for key in ("seconds", "busy_seconds"))
        about = [method.title, method.start, str(len(epochs))]
        cells.append([*about, *bleu, f"{found[1].length_ratio:.3f}", f"{seconds:.1f}", f"{busy:.1f}"])
    return show(cells)


def _mean(epochs: Sequence[dict[str, Any]], key: str) -> float:
    """The mean over epochs of a metric, summed over the ranks where it is one a rank."""
    values = [sum(epoch[key]) if isinstance(epoch[key], list) else epoch[key] for epoch in epochs]
    return float(sum(values) / len(values))


if __name__ == "__main__":
    main()
