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
from dataclasses import dataclass, replace
from string import ascii_lowercase

from corpora import Corpus, corpora
from systems import LEVEL, MULTI30K, Place, System, place, show
from training_set import ALL, DENSE, WORDS, learned, refitted

PRINTED = {"learner.preset": "simianer2012"}


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
    dev, first = corpus.dev, corpus.tabulated[0]
    sparse = {"features.templates": ALL}
    yield Row("mira", dev, {"learner.method": "mira", "learner.algorithm": "itermix"}, "MIRA", "dev", "dense")
    yield Row("dev", dev, {}, "1 SGD", "dev", "dense", seeds=True)
    for template in ALL:
        yield Row(f"dev-{template}", dev, {"features.templates": [template]}, "1 SGD", "dev", f"+ {template}")
    yield Row("dev-sparse", dev, sparse, "1 SGD", "dev", "all")
    yield Row("paper-dev", dev, PRINTED, "1 SGD, as printed", "dev", "dense")
    yield Row("paper-dev-sparse", dev, {**PRINTED, **sparse}, "1 SGD, as printed", "dev", "all")
    again = "1 SGD, dense weights"
    for algorithm, title, templates, named in (
        ("itersel", "4 IterSelSGD", DENSE, "dense"),
        ("mix", "2 MixSGD", ALL, "all"),
        ("itermix", "3 IterMixSGD", ALL, "all"),
    ):
        yield _row(learned(corpus, first, algorithm, templates), title, f"{first:,} of train", named)
    for size in corpus.tabulated:
        for templates, named in ((ALL, "all"), (WORDS, "all, words")):
            if size == first or templates == WORDS:
                text = f"{size:,} of train"
                yield _row(learned(corpus, size, "itersel", templates), "4 IterSelSGD", text, named, seeds=True)
                yield _row(refitted(corpus, size, templates), again, f"{text}, then dev", named, seeds=True)
    if corpus.other_domain is not None:
        name, chosen_on = corpus.other_domain
        store = f"{corpus.name}-{name}"
        texts = {**_texts(corpus, "data", name), **_texts(corpus, "data.devtest", chosen_on)}
        words = {"features.templates": WORDS}
        yield Row("other", dev, texts, "1 SGD", name, "dense", seeds=True, store=store)
        yield Row("other-sparse", dev, {**texts, **sparse}, "1 SGD", name, "all", seeds=True, store=store)
        yield Row("other-words", dev, {**texts, **words}, "1 SGD", name, "all, words", seeds=True, store=store)
        refit = replace(refitted(corpus, first), name="refitted-other", store=store)
        refit = replace(refit, settings={**texts, **refit.settings})
        yield _row(refit, again, f"{first:,} of train, then {name}", "all", seeds=True)


def _row(system: System, algorithm: str, tuned_on: str, features: str, *, seeds: bool = False) -> Row:
    return Row(**vars(system), algorithm=algorithm, tuned_on=tuned_on, features=features, seeds=seeds)


def _texts(corpus: Corpus, table: str, text: str) -> dict[str, object]:
    """Settings that make ``text``, a text of the corpus, the data of ``table``."""
    source, target = (f"${{MPITUNE_DATA}}/{corpus.name}/{text}.{language}.gz" for language in corpus.languages)
    return {f"{table}.source": source, f"{table}.references": [target]}


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
    settings = {**row.settings, "run.seed": seed}
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
        run = where.run(row)
        epochs = run.metrics
        best, score = epochs.result
        epoch = f"{best} of {len(epochs)}" if best else "dense start"
        minutes = sum(each["seconds"] for each in epochs) / 60
        devtest = "" if score is None else f"{score:.2f}"
        about = [_letter(n), row.algorithm, row.tuned_on, row.features, str(len(runs(row, seeds)))]
        scores = (bleu[test][n] for test in tests)
        memory = max(peak for each in epochs for peak in each["peak_memory_bytes"]) / 1e9
        cells.append([*about, f"{len(run.weights):,}", epoch, devtest, *scores, f"{minutes:.1f}", f"{memory:.1f}"])
    return show(cells)


def _scores(rows: Sequence[Row], test: str, where: Place, seeds: int) -> list[str]:
    """BLEU of each system, with the letters of those that differ (approximate randomisation, p < `LEVEL`)."""
    letters = {row.name: _letter(n) for n, row in enumerate(rows)}
    cells = []
    for first in rows:
        order = [first, *(row for row in rows if row is not first)]
        found = where.evaluate({row.name: runs(row, seeds) for row in order}, test).scores
        different = sorted(
            letters[score.system] for score in found[1:] if score.p_value is not None and score.p_value < LEVEL
        )
        cells.append(f"{found[0].bleu:.2f}" + (f" <sup>{' '.join(different)}</sup>" if different else ""))
    return cells


def _letter(n: int) -> str:
    return ascii_lowercase[n]


if __name__ == "__main__":
    main()
