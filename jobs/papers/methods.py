"""Tune weights on Multi30k's validation set with each method, and write the table: `make methods`.

    MPITUNE_DATA=... python jobs/papers/methods.py [--only NAME ...] [--small]

All methods use the same k-best decoder, sentences and 12 dense features; two pairings of MIRA are run with sparse ones
too (Eidelman 2012, table 5). The result is the weights of the last epoch (for the perceptron, algorithm 1's mean over
epochs): no epoch is chosen, because the validation set is the tuning set. The perceptron starts from 0, the others from
start.weights: with weights of 0 all translations score the same, and a batch method's first lists hold little to learn
from. MIRA is also started from 0: costs are then larger than model scores, and if the prediction is the 1-best, nothing
makes the weights grow. Finished work is not repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systems import TESTS, Place, System, place, show, starred

JOB = "multi30k-dev.toml"
SETS = ("val", *TESTS)
LARGEST = 5000
"""Length of the list from which the oracle MB is taken. Eidelman, "Optimization Strategies for Online Large-Margin
Learning in Machine Translation" (WMT 2012), takes 50,000, with which decoding takes four times as long."""
START = {"initial_weights": Path(__file__).with_name("start.weights")}


@dataclass(frozen=True)
class Method(System):
    """One line of the table."""

    title: str = ""
    start: str = "0"


SPARSE = {"features.templates": ["word-pair-all", "insertion", "target-words"]}
"""The sparse features of Eidelman 2012, section 3.3."""


def mira(pairing: str, start: str = "given", variant: str = "1-best", *, sparse: bool = False) -> Method:
    """MIRA with a pairing and the settings of Eidelman 2012: 20 epochs, 20 shards, 500-best lists, BLEU in context."""
    oracle, prediction = pairing.split("/")
    keys = {"method": "mira", "algorithm": "itermix", "epochs": 20}
    keys |= {"mira.oracle": oracle, "mira.prediction": prediction, "mira.variant": variant}
    if oracle == "MB":
        keys["mira.oracle_kbest"] = LARGEST
    name, title = f"mira-{oracle}-{prediction}".lower().replace("+", "p"), f"MIRA {pairing}"
    if variant != "1-best":
        name, title = f"{name}-{variant}", f"{title}, {variant}"
    if sparse:
        name, title = f"{name}-sparse", f"{title}, sparse features"
    if start == "given":
        name, keys = f"{name}-given", {**keys, **START}
    return Method(name, JOB, learner(keys) | (SPARSE if sparse else {}), title, start)


def batch(method: str, epochs: int, title: str, **keys: Any) -> Method:
    """A batch method, with ``keys`` of its own."""
    name = "-".join([method, *map(str, keys.values())])
    own = {f"{method}.{key}": value for key, value in keys.items()}
    return Method(name, JOB, learner({"method": method, "epochs": epochs, **own, **START}), title, "given")


def learner(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the learner."""
    return {f"learner.{key}": value for key, value in keys.items()}


STABLE, *OTHERS = "M-C/M+C", "LU/MC", "LU/PB", "LU/M+C", "M-C/PB", "M-C/MC"
PAIRINGS = [mira(pairing) for pairing in (STABLE, *OTHERS, "MB/MC")]
FROM_ZERO = [mira(pairing, "0") for pairing in (STABLE, *OTHERS)]
METHODS = (
    Method("dev", JOB, {}, "perceptron"),  # of `make multi30k` too
    *PAIRINGS,
    *(mira(STABLE, variant=variant) for variant in ("k-constraint", "cutting-plane")),
    *(mira(pairing, sparse=True) for pairing in (STABLE, "LU/MC")),
    *FROM_ZERO,
    batch("pro", 20, "PRO"),
    batch("mert", 10, "MERT"),
    batch("mert", 5, "MERT, hypergraphs", search="hypergraph", restarts=2),
    batch("minrisk", 10, "minimum risk"),
    batch("rampion", 20, "RAMPION"),
)
FEW = ("mira-m-c-mpc-given", "pro", "mert")
"""Methods of --small."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [method.name for method in METHODS[1:]]
    help_ = f"methods to run besides dev, of {', '.join(names)} (default: all)"
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=help_)
    where, options = place(parser, arguments)
    chosen = options.only or (FEW if options.small else names)
    wanted = [method for method in METHODS if method.name in ("dev", *chosen)]
    where.train(wanted)
    where.translate(wanted, SETS)
    text = table(wanted, where)
    (where.runs / "multi30k-methods.md").write_text(text, encoding="utf-8")
    print(text, end="")


def table(methods: Sequence[Method], where: Place) -> str:
    """Make the table in Markdown; ``*``: the test score differs significantly from that of the first method."""
    scores = {text: where.scores(methods, text) for text in SETS}
    cells = [["method", "starts from", "epochs", *SETS, "length", "seconds an epoch", "of all ranks, busy"]]
    for n, method in enumerate(methods):
        epochs = where.run(method).metrics
        found = [scores[text][n] for text in SETS]
        seconds, busy = (_mean(epochs, key) for key in ("seconds", "busy_seconds"))
        about = [method.title, method.start, str(len(epochs))]
        cells.append(
            [*about, *map(starred, found), f"{found[1].values['length_ratio']:.3f}", f"{seconds:.1f}", f"{busy:.1f}"]
        )
    return show(cells)


def _mean(epochs: Sequence[dict[str, Any]], key: str) -> float:
    """Mean of a metric over epochs; a metric with a value per rank is summed over ranks."""
    values = [sum(epoch[key]) if isinstance(epoch[key], list) else epoch[key] for epoch in epochs]
    return float(sum(values) / len(values))


if __name__ == "__main__":
    main()
