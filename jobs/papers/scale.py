"""BLEU of a corpus's first test by the number of training sentences, and by that of selected features, as a figure.

    MPITUNE_DATA=... python jobs/papers/scale.py --corpus NAME [--most N] [--write FOLDER] [--small]

Algorithm 4 of Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed Stochastic Learning for Large-Scale
Discriminative Training in SMT" (ACL 2012), with the paper's templates and those of words; the same with its dense
weights then tuned on the development set; and the dense system of the development set. Corpora are in corpora.toml.
Finished work is not repeated; a second call resumes the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from corpora import Corpus, corpora
from matplotlib import pyplot
from systems import MULTI30K, Place, System, place, show, written
from training_set import WORDS, learned, refitted

SELECTED = (100, 1_000, 10_000, None)
"""Numbers of features to be selected; None: the default."""
DEFAULT = 100_000
LEARNED = "algorithm 4"


def dense(corpus: Corpus) -> System:
    """The system of the dashed line, which the table has too."""
    return System("dev", corpus.dev)


def by_size(corpus: Corpus, most: int | None) -> dict[str, dict[int, System]]:
    """The systems by title and number of sentences, at most ``most``."""
    sizes = [size for size in corpus.sizes if most is None or size <= most]
    return {
        LEARNED: {size: learned(corpus, size, "itersel", WORDS) for size in sizes},
        "then dense weights on dev": {size: refitted(corpus, size, WORDS) for size in sizes},
    }


def by_selection(corpus: Corpus, size: int) -> dict[int, System]:
    """The systems of algorithm 4 on ``size`` sentences, by the number of features that it selects."""
    return {k or DEFAULT: learned(corpus, size, "itersel", WORDS, k=k) for k in SELECTED}


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs, draw the figure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=corpora(), default=MULTI30K.name, help="a section of corpora.toml")
    parser.add_argument("--most", type=int, metavar="N", help="tune on no more than N training sentences")
    help_ = "folder for scale-NAME.svg (default: that of the runs)"
    parser.add_argument("--write", type=Path, metavar="FOLDER", help=help_)
    where, options = place(parser, arguments)
    folder = written(where, options)
    corpus = where.corpus
    lines = by_size(corpus, options.most)
    size = min(corpus.tabulated[0], max(lines[LEARNED]))
    selections = by_selection(corpus, size)
    systems = [dense(corpus), *(system for of in (*lines.values(), selections) for system in of.values())]
    where.train(systems)
    where.translate(systems, corpus.tests[:1])
    draw(lines, selections, where, folder / f"scale-{corpus.name}.svg")
    for title, tabulated in [*lines.items(), (f"{LEARNED}, {size:,} sentences, by K", selections)]:
        print(f"{title}\n\n{table(tabulated, where)}")


def bleu(system: System, where: Place) -> float:
    """BLEU of ``system`` on the first test of the corpus."""
    return where.scores([system], where.corpus.tests[0])[0].bleu


def table(systems: dict[int, System], where: Place) -> str:
    """Tabulate BLEU by number, with that of the dense system below."""
    named = [*((f"{number:,}", system) for number, system in systems.items()), ("dense, dev", dense(where.corpus))]
    return show([["", where.corpus.tests[0]], *([name, f"{bleu(system, where):.2f}"] for name, system in named)])


def draw(lines: dict[str, dict[int, System]], selections: dict[int, System], where: Place, path: Path) -> None:
    """Draw BLEU by sentences and by features."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scale", "font.size": 8})
    figure, [left, right] = pyplot.subplots(1, 2, figsize=(6.4, 2.4), layout="constrained", sharey=True)
    for title, systems in lines.items():
        left.plot(list(systems), [bleu(each, where) for each in systems.values()], "o-", markersize=3, label=title)
    right.plot(list(selections), [bleu(each, where) for each in selections.values()], "o-", markersize=3)
    flat = bleu(dense(where.corpus), where)
    for panel in (left, right):
        panel.axhline(flat, color="tab:gray", linestyle="--", linewidth=1, label="dense, dev")
        panel.set_xscale("log")
        panel.grid(axis="y", linewidth=0.3)
    left.set_ylabel(f"BLEU, {where.corpus.tests[0]}")
    left.set_xlabel("training sentences")
    right.set_xlabel("features selected (K)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=len(lines) + 1)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
