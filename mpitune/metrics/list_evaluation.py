"""Evaluation of n-best lists: the metric of the first entries, of the best ones, and of a random choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from mpitune.corpus.tokenisation import SAMPLE, warn_of_other_words
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import as_kbest, empty_translation
from mpitune.decoder.lists.compiler import check_metric
from mpitune.decoder.lists.formats import Entry, read_sentences
from mpitune.decoder.lists.notation import AS_FOUND, Notation
from mpitune.decoder.lists.stream import all_lists, read_lists
from mpitune.errors import DataError, UsageError, printable
from mpitune.metrics.choices import Tokenizer
from mpitune.metrics.sacrebleu import tokenizer
from mpitune.metrics.tuning_metric import CHOICES, METRICS, Metric, known_metrics

DEFAULT = ("bleu", "ter", "chrf")
"""Metrics that lists are scored by with references, if none are named."""

Scores = Mapping[str, Sequence[float]]
"""By metric: its score for each of `CHOICES`; BLEU and chrF 0 to 100, TER in edits per 100 words, columns as means."""


def evaluate_lists(
    path: Path,
    references: Sequence[Sequence[str | None]],
    warn: Callable[[str], None],
    metrics: Sequence[str] = DEFAULT,
    tokenize: Tokenizer = "none",
    notation: Notation = AS_FOUND,
) -> Scores:
    """The scores of the lists in ``path``, whose numbers ascend: of the metrics of JSON lines, which are those of the
    first entry, and, with ``references`` (one or more texts, or none), ``metrics``, which are some of `METRICS`;
    ``tokenize`` is for those that are `tokenized`. Lists may bring references along, see `Notation`.

    A line of ``references`` is None where one is missing. Sentences without a list count as translated to nothing;
    ``warn`` is told how many they are. Raises DataError for a malformed entry, one without a metric, or a list beyond
    the references; UsageError for an unknown metric, or if there is nothing to score by.
    """
    computed, with_tokens = known_metrics(metrics, "--metrics"), tokenizer(tokenize)
    if not references and notation.has_sentences:
        references = [[" ".join(pair.references[0]) for pair in read_sentences(path, notation)]]
    count = len(references[0]) if references else None
    words, lists = Vocabulary(), _all_lists(path, notation._replace(sentences=count))
    beginning = [next(lists)]
    while not beginning[-1][1]:
        beginning.append(next(lists))
    first = beginning[-1][1][0]
    columns = list(first.metrics)
    if taken := [name for name in columns if name in METRICS]:
        expected = f"another name: {', '.join(METRICS)} are computed from references"
        raise DataError.at(path, first.line, found=f"a metric called {taken[0]}", expected=expected)
    names = [*(computed if references else ()), *columns]
    if not names:
        raise UsageError(f"{path}: found no metrics in the lists, and no references: expected one or the other")
    by_name = {name: Metric({name: 1.0}, words.words) for name in names}
    sums = {name: np.zeros((len(CHOICES), metric.width)) for name, metric in by_name.items()}
    kinds = {name: tokenize != "none" and name in METRICS and METRICS[name].tokenized for name in names}
    missing, first_entries = list[int](), list[list[str]]()
    for number, entries in chain(beginning, lists):
        missing += [] if entries else [number]
        values = _values(path, entries, columns)
        texts = [" ".join(entry.words) for entry in entries]
        if number < SAMPLE:
            first_entries.append(texts[0].split() if texts else [])
        wanted = [line for text in references if (line := text[number]) is not None]
        for tokenized in {*kinds.values()}:
            # Words as sacreBLEU splits them, at blanks of all scripts, here and in the references.
            encoded, translated = (
                [words.encode((with_tokens(line.rstrip()) if tokenized else line).split()) for line in lines]
                for lines in (wanted, texts)
            )
            kbest = as_kbest(translated, metrics=values) if translated else empty_translation(len(columns))
            for name, metric in by_name.items():
                if kinds[name] == tokenized:
                    own = kbest.metrics[:, columns.index(name)][:, None] if name in columns else kbest.metrics
                    counted = metric.statistics(kbest._replace(metrics=own), encoded)
                    sums[name] += metric.choices(counted)
    if missing:
        what = f"{len(missing)} of {number + 1} sentences have no list, such as number {missing[0]}"
        warn(f"warning: {path}: {what}: they count as translated to nothing")
    reference_words = [line.split() for text in references for line in text[:SAMPLE] if line is not None]
    warn_of_other_words([path], first_entries, reference_words)
    found = {name: metric.of_choices(sums[name]) for name, metric in by_name.items()}
    turned = {name for name in names if name in METRICS and not METRICS[name].larger_is_better}
    return {name: [-score for score in scores] if name in turned else scores for name, scores in found.items()}


def as_table(scores: Mapping[str, Scores]) -> str:
    """A plain table of several files' ``scores``."""
    metrics = list(dict.fromkeys(name for of_file in scores.values() for name in of_file))
    rows = [["lists", "choice", *map(printable, metrics)]]
    for file, of_file in scores.items():
        for n, choice in enumerate(CHOICES):
            rows.append(
                [printable(file), choice, *(f"{of_file[name][n]:.5g}" if name in of_file else "" for name in metrics)]
            )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _all_lists(path: Path, notation: Notation) -> Iterator[tuple[int, list[Entry]]]:
    """The lists with their numbers; where the number of sentences is known, also those without entries."""
    lists = read_lists([path], notation=notation)
    first = next(lists, None)
    if first is None:
        raise DataError.at(path, None, found="no entries", expected="n-best lists")
    given = chain([first], lists)
    return iter(given) if notation.sentences is None else all_lists(given, notation.sentences)


def _values(path: Path, entries: Sequence[Entry], columns: Sequence[str]) -> np.ndarray:
    """float64 [entries, columns]: the metrics of JSON lines."""
    for entry in entries:
        if lacking := [name for name in columns if name not in entry.metrics]:
            expected = "a value, as the first entry has one"
            raise DataError.at(path, entry.line, found=f"no {lacking[0]} among the metrics", expected=expected)
        for name in columns:
            check_metric(name, entry.metrics[name], entry, path)
    return np.array([[entry.metrics[name] for name in columns] for entry in entries]).reshape(
        len(entries), len(columns)
    )
