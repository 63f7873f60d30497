"""Evaluation, language models and word alignment from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mpitune.api.call import alone
from mpitune.array_files.atomic import check_output, open_output
from mpitune.corpus.eflomal import write_alignment
from mpitune.corpus.text import joined_references
from mpitune.errors import UsageError
from mpitune.files import writing
from mpitune.lm import kneser_ney
from mpitune.metrics import evaluation
from mpitune.metrics.choices import SignificanceTest, Tokenizer
from mpitune.metrics.evaluation import Evaluation, SystemRuns
from mpitune.metrics.sacrebleu import check_counts
from mpitune.ownership import reads
from mpitune.runtime.log import LOG
from mpitune.runtime.memory import machine_memory

Lines = Sequence[str]


def evaluate(
    systems: Mapping[str, Lines | Sequence[Lines]],
    references: Lines | Sequence[Lines],
    *,
    test: SignificanceTest | None = None,
    tokenize: Tokenizer = "none",
    lowercase: bool = False,
) -> Evaluation:
    """Score translations, and ``test`` systems against the first one: "ar", approximate randomisation, or "bootstrap".

    ``systems``: by name, the translations of one run, a sentence each, or those of several runs; ``references``: one
    text, or several, where an empty line is a missing reference. The result prints as a table by ``as_text()``.
    Raises DataError for texts of different lengths, UsageError for a test of fewer than two systems.

    >>> scores = evaluate({"before": ["a house"], "after": ["the house"]}, ["the house"]).scores
    >>> [round(score.ter) for score in scores]
    [50, 0]
    """
    runs = [
        SystemRuns(name, [(f"{name}, run {n}", list(lines)) for n, lines in enumerate(texts_of(given), start=1)])
        for name, given in systems.items()
    ]
    texts = texts_of(references)
    names = [f"references {n}" for n in range(1, len(texts) + 1)]
    check_counts(list(zip(names, texts, strict=True)))
    joined = joined_references(zip(*texts, strict=True), [Path(name) for name in names], LOG.warning)
    both = list(zip(names, zip(*joined, strict=True), strict=True))
    with alone():
        return evaluation.evaluate(both, runs, test=test, tokenize=tokenize, lowercase=lowercase)


def texts_of(given: Lines | Sequence[Lines]) -> list[Lines]:
    """The texts of ``given``, one text or several."""
    if isinstance(given, str):
        raise UsageError(f"found the string {given[:60]!r}, expected a list of sentences")
    return [given] if not given or isinstance(given[0], str) else list(given)  # type: ignore[list-item]


def estimate_lm(
    text: str | os.PathLike[str],
    order: int,
    output: str | os.PathLike[str],
    *,
    vocabulary: str | os.PathLike[str] | None = None,
    memory: int | None = None,
) -> None:
    """Estimate a language model of n-grams up to ``order`` by modified Kneser-Ney, written as ARPA (.gz: gzipped).

    ``text``: a file of tokenised sentences, a line each; ``vocabulary``: a file of words, the others count as <unk>;
    ``memory``: bytes to use, about, by default half of the machine's. Raises DataError for a text without sentences, or
    a line that no ARPA file can hold; UsageError if ``output`` cannot be written.
    """
    text, output = Path(text), Path(output)
    words = None if vocabulary is None else Path(vocabulary)
    with alone(), writing(output):
        reads([text, words])
        check_output(output)
        kneser_ney.estimate(text, order, output, vocabulary=words, memory=memory or machine_memory() // 2)


def align(source: str | os.PathLike[str], target: str | os.PathLike[str], output: str | os.PathLike[str]) -> int:
    """Align the words of two files of tokenised sentences by eflomal, into a file of links ``0-0 1-2`` a line.

    Returns the number of links. Raises UsageError where eflomal is not installed, DataError for texts of different
    lengths. eflomal is a random sampler without a seed: links differ slightly between runs.
    """
    source, target, output = Path(source), Path(target), Path(output)
    with alone():
        reads([source, target])
        check_output(output)
        with open_output(output) as file:
            return write_alignment(file, source, target)
