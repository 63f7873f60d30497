"""The command `mpitune rerank`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from mpitune.api.opened import initial_model
from mpitune.array_files.atomic import open_output
from mpitune.cli.job import load_job
from mpitune.cli.output import print_message, print_warning
from mpitune.config.spec import Job, column_metrics
from mpitune.corpus.text import read_sentences
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.wording import counted
from mpitune.decoder.base import as_kbest
from mpitune.decoder.lists.features import ScoreFiles, TextFeatures
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.stream import line_with_score, model_score, read_lists
from mpitune.errors import DataError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.metrics.minimum_bayes_risk import ExpectedGain
from mpitune.metrics.sacrebleu import word_tokenizer
from mpitune.training.open_run import lacking_templates


def run_rerank(options: argparse.Namespace, comm: Comm) -> None:
    """Sort n-best lists by the learned weights: write the best hypothesis of each list, or the lists."""
    job = load_job(options, comm)

    def rerank() -> None:
        path = options.weights or job.run.dir
        weights, lists = initial_model(job, path, print_warning).weights, 0
        unseen = set(weights)
        next_line, missing = 0, list[tuple[int, int]]()
        with nullcontext(sys.stdout.buffer) if options.output is None else open_output(options.output) as file:
            for number, entries, score in _scored(options, job, weights):
                order = np.argsort(-score, kind="stable").tolist()
                if options.nbest is None:
                    # A line for each sentence, also for those without a list.
                    if number > next_line:
                        missing.append((next_line, number - next_line))
                    file.write(b"\n" * (number - next_line) + f"{' '.join(entries[order[0]].words)}\n".encode())
                    next_line = number + 1
                else:
                    best = order[: options.nbest]
                    file.write("".join(f"{line_with_score(entries[j], score[j])}\n" for j in best).encode())
                # A program at the other end of a pipe may wait for this list.
                file.flush()
                lists += 1
                for entry in entries:
                    unseen.difference_update(entry.features)
        if lists and weights and len(unseen) == len(weights):
            print_message(f"warning: {path}: none of its features occurs in the lists")
        elif lists and (lacking := lacking_templates(unseen, len(weights), job)):
            print_message(f"warning: {path}: {lacking}")
        if missing:
            count = sum(count for _, count in missing)
            what = f"{count} of {next_line} sentences have no list, such as number {missing[0][0]}"
            print_message(f"warning: {what}: they have empty lines")
        if options.output is not None:
            print_message(f"{options.output}: {counted(lists, 'list')}")

    comm.on_root(rerank)


def _score_files(options: argparse.Namespace, job: Job) -> ScoreFiles:
    """The files of the option ``--scores``, which have the features of the job's ``[[features.files]]``."""
    names = [of.name for of in job.features.files if of.name not in column_metrics(job)]
    if len(options.scores) != len(names):
        found, expected = counted(len(options.scores), "file"), f"{len(names)} ({', '.join(names)})"
        raise UsageError(f"--scores: found {found}, expected {expected}, as features.files has")
    if names and len(options.input) > 1:
        raise UsageError("--scores: found beside several files of lists, expected one file")
    return ScoreFiles(dict(zip(names, options.scores, strict=True)))


def _sources(options: argparse.Namespace, job: Job) -> list[list[str]]:
    """The words of each source sentence, of the option ``--source``, if the job's templates need them."""
    if ("lexicon-pair" in job.features.templates) != (options.source is not None):
        raise UsageError('--source: expected beside the template "lexicon-pair" (features.templates), and only there')
    return [sentence.words for sentence in read_sentences(options.source)] if options.source else []


def _scored(
    options: argparse.Namespace, job: Job, weights: Mapping[str, float]
) -> Iterator[tuple[int, list[Entry], np.ndarray]]:
    """The input's lists, with their numbers and float64 [entries], the scores by which they are to be sorted."""
    scores, sources = _score_files(options, job), _sources(options, job)
    text = TextFeatures(job.features.templates, job.features.lexicon)

    def add_features(entry: Entry, path: Path) -> None:
        if sources and entry.sentence >= len(sources):
            expected = f"at most {len(sources) - 1}, as {options.source} has {counted(len(sources), 'line')}"
            raise DataError.at(path, entry.line, found=f"number {entry.sentence}", expected=expected)
        scores.add_to(entry, path)
        text.add_to(entry, path, sources[entry.sentence] if sources else ())

    words, tokenize = Vocabulary(), word_tokenizer(job.data.tokenize if job.data else "none")
    gain = ExpectedGain(options.mbr, words.words) if options.mbr else None
    for number, entries in read_lists(options.input, add_features):
        score = np.array([model_score(entry, weights) for entry in entries])
        if gain is not None:
            score = gain.of(as_kbest([words.encode(tokenize(entry.words)) for entry in entries], score))
        yield number, entries, score
    scores.check_ends()
