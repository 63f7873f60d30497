"""Look at local training sentence by sentence, against the best of five MERT runs, on Multi30k's test sets.

    MPITUNE_DATA=... python jobs/papers/sentences.py [--sentences N] [--small]

Four tables after Liu, Cao, Watanabe, Zhao, Yu and Zhu, "Locally Training the Log-Linear Model for SMT" (EMNLP 2012;
L12): the baseline, which is the best of five MERT runs (section 6; here by BLEU on the validation set, which they are
tuned on); how similar the test sets are to the validation set (table 4); sentences with a BLEU of 0 (table 6); BLEU if
the better of MERT's and EBUU's translations were known (table 8). Finished work is not repeated.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, sqrt

import numpy as np
from local import GLOBAL, LAMBDA, Setting, Study
from methods import METHODS, SETS
from systems import TESTS, Place, System, place, read, show

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.metrics.bleu import text_statistics
from mpitune.metrics.sentence_bleu import bleu_plus_one, papineni

VAL = SETS[0]
SEEDS = range(1, 6)
LINES = (GLOBAL, *(Setting(method, best) for method, best in LAMBDA.items()))
_RETRIEVED_FROM = 10
"""With --sentences: pairs to retrieve from, for each sentence tuned on."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the missing runs and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    help_ = f"for a trial: tune on N sentences, retrieve from {_RETRIEVED_FROM} N (default: all)"
    parser.add_argument("--sentences", type=int, default=0, metavar="N", help=help_)
    where, options = place(parser, arguments)
    runs = mert_runs(options.sentences)
    where.train(runs)
    where.translate(runs, [VAL])
    bleu = [score.bleu for score in where.scores(runs, VAL)]
    best = bleu.index(max(bleu))
    study = Study(where, runs[best], _RETRIEVED_FROM * options.sentences)
    study.translate(LINES)
    found = {text: {line: of_sentences(study, line, text) for line in LINES} for text in TESTS}
    training = [line.split() for line in read(where.source("train"))]
    tables = [baseline(bleu, best), similarity(where, training), zeros(found), better_of_two(found)]
    text = "\n".join(tables)
    (where.runs / "multi30k-sentences.md").write_text(text, encoding="utf-8")
    print(text, end="")


def mert_runs(sentences: int) -> list[System]:
    """MERT of methods.py with five seeds, on the first ``sentences``; 0: all."""
    [mert] = [method for method in METHODS if method.name == "mert"]
    suffix, settings = (
        (f"-{sentences}", {**mert.settings, "data.limit": sentences}) if sentences else ("", mert.settings)
    )
    store = f"multi30k-dev{suffix}"
    return [System(f"mert{suffix}-seed{seed}", mert.job, {**settings, "run.seed": seed}, store=store) for seed in SEEDS]


def of_sentences(study: Study, line: Setting, text: str) -> np.ndarray:
    """int64 [sentences, 11]: BLEU's statistics of each translation of ``text``."""
    words, rows = Vocabulary(), []
    references = read(study.where.reference(text))
    for translation, reference in zip(read(study.output(line, text)), references, strict=True):
        encoded, other = (np.array([words.add(w) for w in side.split()], np.int32) for side in (translation, reference))
        rows.append(text_statistics(np.array([0, len(encoded)]), encoded, [other])[0])
    return np.array(rows)


def baseline(bleu: Sequence[float], best: int) -> str:
    """Tabulate BLEU of the MERT runs on the validation set."""
    seeds = [f"{seed}, the baseline" if n == best else f"{seed}" for n, seed in enumerate(SEEDS)]
    summary = f"{statistics.mean(bleu):.2f}", f"{statistics.stdev(bleu):.2f}"
    rows = ["MERT, seed", *seeds, "mean", "standard deviation"], [VAL, *(f"{score:.2f}" for score in bleu), *summary]
    return show(rows)


def similarity(where: Place, training: Sequence[Sequence[str]]) -> str:
    """Tabulate the similarity of the test sets and, for comparison, the validation set to the validation set."""
    sets = {text: [line.split() for line in read(where.source(text))] for text in SETS}
    means = [f"{mean_similarity(sets[VAL], sentences, training):.3f}" for sentences in sets.values()]
    return show([["similarity to", *sets], [VAL, *means]])


def mean_similarity(
    development: Sequence[Sequence[str]], sentences: Sequence[Sequence[str]], collection: Sequence[Sequence[str]]
) -> float:
    """The mean over ``sentences`` of the cosine of their TF-IDF vectors with that of the whole ``development`` set.

    The paper's footnote 5 compares the set with each sentence, but does not define the weights; here they are those of
    `mpitune.corpus.retrieval`: counts times ln((S + 1) / (df + 1)) in a ``collection`` of S sentences.
    """
    frequency = Counter(word for words in collection for word in set(words))

    def vector(words: Counter[str]) -> dict[str, float]:
        return {word: n * log((len(collection) + 1) / (frequency[word] + 1)) for word, n in words.items()}

    def norm(one: Mapping[str, float]) -> float:
        return sqrt(sum(value * value for value in one.values()))

    whole = vector(Counter(word for words in development for word in words))
    norm_of_whole, cosines = norm(whole), list[float]()
    for words in sentences:
        one = vector(Counter(words))
        length = norm(one) * norm_of_whole
        cosines.append(sum(value * whole.get(word, 0.0) for word, value in one.items()) / length if length else 0.0)
    return statistics.mean(cosines)


def zeros(found: Mapping[str, Mapping[Setting, np.ndarray]]) -> str:
    """Tabulate the numbers of sentences with a BLEU of 0: without a match of some order, unsmoothed."""
    rows = [["sentences with BLEU 0", *found]]
    for line in LINES:
        counts = [int((papineni(of_lines[line]) == 0.0).sum()) for of_lines in found.values()]
        rows.append([_name(line), *map(str, counts)])
    return show([*rows, ["of", *(str(len(of_lines[GLOBAL])) for of_lines in found.values())]])


def better_of_two(found: Mapping[str, Mapping[Setting, np.ndarray]]) -> str:
    """Tabulate unsmoothed BLEU of MERT, of EBUU, and of the translations of either with the larger `bleu+1`."""
    rows = [["BLEU", *found]]
    mert, ebuu = GLOBAL, LINES[-1]
    texts = [(of_lines[mert], of_lines[ebuu]) for of_lines in found.values()]
    best = [np.where((bleu_plus_one(one) >= bleu_plus_one(other))[:, None], one, other) for one, other in texts]
    columns = {
        _name(mert): [one for one, _ in texts],
        _name(ebuu): [other for _, other in texts],
        "better of two": best,
    }
    for name, sets in columns.items():
        rows.append([name, *(f"{100 * papineni(rows_.sum(axis=0, keepdims=True))[0]:.2f}" for rows_ in sets)])
    return show(rows)


def _name(line: Setting) -> str:
    return "MERT" if line == GLOBAL else line.method.upper()


if __name__ == "__main__":
    main()
