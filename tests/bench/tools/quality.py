"""Search quality: model scores of the best translations and of whole k-best lists, compared with the reference's."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mpitune.lm.kneser_ney import estimate
from tools.cdec import Entry, Reference, read_kbest
from tools.ours import K, Ours, multi30k, news_commentary

TITLES = ("search", "sentences", "ours", "reference", "better", "equal", "worse", "ranks no worse")
ROUNDING = 6e-6
"""Relative rounding error of the scores that the reference prints."""


def rows(data: Path, golden: Path, work: Path, most: int) -> Iterator[Sequence[str]]:
    """Yield the rows under `TITLES`, each a mean over sentences, and notes of one field on missing files.

    ``work``: a folder for files; ``most``: largest number of sentences.
    """
    nc = news_commentary(data, golden)
    sparse = replace(nc, templates=("id", "source-bigram", "shape"), weights=golden / "nc-sparse.weights")
    for name, task, lists, pop_limit in (
        ("nc, dense", nc, "nc.kbest.gz", 200),
        ("nc, dense, pop limit 2000", nc, "nc.pop2000.1best.gz", 2000),
        ("nc, id, source-bigram, shape", sparse, "nc-sparse.kbest.gz", 200),
        ("Multi30k", multi30k(data, golden), "multi30k.kbest.gz", 200),
    ):
        if missing := [file for file in (*task.missing(), golden / lists) if not file.exists()]:
            yield (f"{name}: skipped: there is no {missing[0]}",)
            continue
        with gzip.open(golden / lists, "rt", encoding="utf-8") as file:
            theirs = read_kbest(file)[:most]
        ours = Ours(replace(task, sentences=(0, len(theirs))), work / lists, pop_limit)
        yield _compared(name, ours.scores(max(map(len, theirs))), theirs)
    for order in (3, 5):
        name, folder = f"nc, sentences 51 to {50 + most}, {order}-gram LM", work / f"unseen-{order}"
        if shutil.which("cdec") is None or nc.missing():
            yield (f"{name}: skipped: there is no {(nc.missing() or ['cdec'])[0]}",)
            continue
        task = replace(nc, sentences=(50, 50 + most))
        if order != 3:
            task = replace(task, lm=work / f"lm.{order}.arpa")
            estimate(nc.references, order, task.lm)
        yield _compared(name, Ours(task, folder).scores(K), Reference(task, folder).kbest())


def _compared(name: str, ours: Sequence[np.ndarray], theirs: Sequence[Sequence[Entry]]) -> Sequence[str]:
    ranks = [_compare(own, [entry.score for entry in other]) for own, other in zip(ours, theirs, strict=True)]
    first = np.array([row[0] for row in ranks])
    return [
        name,
        str(len(ranks)),
        f"{np.mean([own[0] for own in ours]):.3f}",
        f"{np.mean([other[0].score for other in theirs]):.3f}",
        *(str(np.count_nonzero(first == sign)) for sign in (1, 0, -1)),
        f"{100 * np.mean(np.concatenate(ranks) >= 0):.2f} %" if max(map(len, ranks)) > 1 else "",
    ]


def _compare(ours: np.ndarray, theirs: Sequence[float]) -> np.ndarray:
    """int64: at each list rank 1 if mpitune's score is higher, 0 if both are equal up to rounding, -1 if it is lower.

    Ranks that mpitune's list lacks count as -1.
    """
    reference = np.array(theirs)
    found = np.full(len(reference), -np.inf)
    size = min(len(ours), len(found))
    found[:size] = ours[:size]
    difference = found - reference
    return np.where(np.abs(difference) <= ROUNDING * np.abs(reference), 0, np.sign(difference)).astype(np.int64)
