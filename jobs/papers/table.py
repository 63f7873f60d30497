"""Run the systems of the table, translate the test sets with each, and write the table.

    MPITUNE_DATA=... python jobs/papers/table.py --corpus NAME [--only SYSTEM ...] [--seeds N] [--small]

The table follows tables 2 and 3 of Simianer, Riezler and Dyer, "Joint Feature Selection in Distributed Stochastic
Learning for Large-Scale Discriminative Training in SMT" (ACL 2012). Corpora are in corpora.toml; every learning key has
its default but the algorithm (``paper-*``: the values printed in the paper). Finished work is not repeated; a second
call resumes the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from string import ascii_lowercase

from corpora import Corpus, corpora
from systems import LEVEL, MULTI30K, Place, System, place, show
from training_set import ALL, REFIT, WORDS, learned, refitted

from mpitune.corpus.weights import read_weights
from mpitune.run_folder.run_state import chosen_epoch, dense_start_is_best, dense_start_score, devtest_scores

DENSE = "features.templates=[]"
PRINTED = "learner.preset=simianer2012"


@dataclass(frozen=True)
class Row(System):
    """One line of the table."""

    algorithm: str = ""
    tuned_on: str = ""
    features: str = ""
    seeds: bool = False
    """True for a system that --seeds repeats: those of the development sets, algorithm 4, and what starts from it."""


def rows_of(corpus: Corpus) -> Iterator[Row]:
    """The lines of the table of ``corpus``."""
    dev, other = corpus.dev, corpus.other_domain
    yield Row("mira", dev, ("learner.method=mira", "learner.algorithm=itermix"), "MIRA", "dev", "dense")
    yield Row("dev", dev, (), "1 SGD", "dev", "dense", seeds=True)
    for template in ("id", "source-bigram", "shape"):
        yield Row(f"dev-{template}", dev, (f'features.templates=["{template}"]',), "1 SGD", "dev", f"+ {template}")
    yield Row("dev-sparse", dev, (ALL,), "1 SGD", "dev", "all")
    yield Row("paper-dev", dev, (PRINTED,), "1 SGD, as printed", "dev", "dense")
    yield Row("paper-dev-sparse", dev, (PRINTED, ALL), "1 SGD, as printed", "dev", "all")
    first, again = corpus.tabulated[0], "1 SGD, dense weights"
    for algorithm, title, features, named in (
        ("itersel", "4 IterSelSGD", DENSE, "dense"),
        ("mix", "2 MixSGD", ALL, "all"),
        ("itermix", "3 IterMixSGD", ALL, "all"),
    ):
        yield _row(learned(corpus, first, algorithm, features), title, f"{first:,} of train", named)
    for size in corpus.tabulated:
        templates = ((ALL, "all"), (WORDS, "all, words")) if size == first else ((WORDS, "all, words"),)
        for features, named in templates:
            text = f"{size:,} of train"
            yield _row(learned(corpus, size, "itersel", features), "4 IterSelSGD", text, named, seeds=True)
            yield _row(refitted(corpus, size, features), again, f"{text}, then dev", named, seeds=True)
    if other is not None:
        name, store = other[0], f"{corpus.name}-{other[0]}"
        texts = (*_texts(corpus, "data", other[0]), *_texts(corpus, "data.devtest", other[1]))
        yield Row("other", dev, texts, "1 SGD", name, "dense", seeds=True, store=store)
        yield Row("other-sparse", dev, (*texts, ALL), "1 SGD", name, "all", seeds=True, store=store)
        yield Row("other-words", dev, (*texts, WORDS), "1 SGD", name, "all, words", seeds=True, store=store)
        on_both, settings = f"{first:,} of train, then {name}", (*texts, ALL, REFIT)
        initial = learned(corpus, first, "itersel").name
        yield Row("refitted-other", dev, settings, again, on_both, "all", seeds=True, initial=initial, store=store)


def _row(system: System, algorithm: str, tuned_on: str, features: str, *, seeds: bool = False) -> Row:
    return Row(
        **{each.name: getattr(system, each.name) for each in fields(System)},
        algorithm=algorithm,
        tuned_on=tuned_on,
        features=features,
        seeds=seeds,
    )


def _texts(corpus: Corpus, table: str, text: str) -> tuple[str, str]:
    """Settings that make ``text``, a text of the corpus, the data of ``table``."""
    source, target = (f"${{MPITUNE_DATA}}/{corpus.name}/{text}.{language}.gz" for language in corpus.languages)
    return f'{table}.source="{source}"', f'{table}.references=["{target}"]'


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=corpora(), default=MULTI30K.name, help="a section of corpora.toml")
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", help="systems of the table (default: all)")
    parser.add_argument(
        "--seeds", type=int, default=1, help="runs of the systems that are compared most closely (default 1)"
    )
    where, options = place(parser, arguments)
    rows = list(rows_of(where.corpus))
    if unknown := set(options.only or ()) - {row.name for row in rows}:
        parser.error(f"no system {', '.join(sorted(unknown))}: expected any of {', '.join(row.name for row in rows)}")
    rows = [row for row in rows if options.only is None or row.name in options.only]
    systems = [run for row in rows for run in runs(row, options.seeds)]
    where.train(systems)
    where.translate(systems, where.corpus.tests)
    text = table(rows, where, options.seeds)
    (where.runs / f"{where.corpus.name}.md").write_text(text, encoding="utf-8")
    print(text, end="")


def runs(row: Row, seeds: int) -> list[Row]:
    """One system for each run of ``row``: seeds 1 to ``seeds`` if it is one that is repeated, else the first alone."""
    again = range(2, seeds + 1) if row.seeds else ()
    return [row, *(_with_seed(row, n) for n in again)]


def _with_seed(row: Row, seed: int) -> Row:
    """The same system with another seed; if it starts from another system's weights, from those with this seed."""
    initial = f"{row.initial}-{seed}" if row.initial else ""
    settings = *row.settings, f"run.seed={seed}"
    return replace(row, name=f"{row.name}-{seed}", settings=settings, initial=initial)


def table(rows: Sequence[Row], where: Place, seeds: int = 1) -> str:
    """Make the table in Markdown; each BLEU score is followed by the lines that differ from it significantly.

    BLEU is the mean over runs; devtest BLEU, features, epoch, time and memory are those of the first one. Active
    features are the weights of its result, minutes the wall time of all its epochs; GB is the largest memory of a rank,
    with the pages of files that it has mapped.
    """
    tests = where.corpus.tests
    cells = [["", "algorithm", "tuned on", "features", "runs", "active", "epoch", "devtest", *tests, "minutes", "GB"]]
    bleu = {test: _scores(rows, test, where, seeds) for test in tests}
    for n, row in enumerate(rows):
        epochs = where.epochs(row)
        best = epochs[chosen_epoch(devtest_scores(epochs)) - 1]
        epoch, score = f"{best['epoch']} of {len(epochs)}", best["devtest_bleu"]
        if dense_start_is_best(epochs):
            epoch, score = "dense start", dense_start_score(epochs)
        minutes = sum(each["seconds"] for each in epochs) / 60
        features = f"{len(read_weights(where.weights(row))):,}"
        devtest = "" if score is None else f"{score:.2f}"
        about = [_letter(n), row.algorithm, row.tuned_on, row.features, str(len(runs(row, seeds)))]
        scores = (bleu[test][n] for test in tests)
        memory = max(peak for each in epochs for peak in each["peak_memory_bytes"]) / 1e9
        cells.append([*about, features, epoch, devtest, *scores, f"{minutes:.1f}", f"{memory:.1f}"])
    return show(cells)


def _scores(rows: Sequence[Row], test: str, where: Place, seeds: int) -> list[str]:
    """BLEU of each system, with the letters of those that differ (approximate randomisation, p < `LEVEL`)."""
    letters = {row.name: _letter(n) for n, row in enumerate(rows)}
    cells = []
    for first in rows:
        order = [first, *(row for row in rows if row is not first)]
        found = where.scores_of_runs([(row.name, runs(row, seeds)) for row in order], test)
        different = sorted(
            letters[score.system] for score in found[1:] if score.p_value is not None and score.p_value < LEVEL
        )
        cells.append(f"{found[0].bleu:.2f}" + (f" <sup>{' '.join(different)}</sup>" if different else ""))
    return cells


def _letter(n: int) -> str:
    return ascii_lowercase[n]


if __name__ == "__main__":
    main()
