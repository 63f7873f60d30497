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
from mpitune.cli.notation import given_notation
from mpitune.cli.output import print_message, print_warning
from mpitune.config.spec import Job, column_metrics
from mpitune.corpus.text import read_sentences
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.wording import counted
from mpitune.decoder.base import as_kbest
from mpitune.decoder.lists.features import ScoreFiles, TextFeatures
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.notation import AS_FOUND
from mpitune.decoder.lists.stream import all_lists, line_with_score, model_score, read_lists
from mpitune.errors import UsageError
from mpitune.exchange.comm import Comm
from mpitune.metrics.minimum_bayes_risk import ExpectedGain
from mpitune.training.open_run import lacking_templates


def run_rerank(options: argparse.Namespace, comm: Comm) -> None:
    """Sort n-best lists by the learned weights: write the best hypothesis of each list, or the lists."""
    job = load_job(options, comm)

    def rerank() -> None:
        path = options.weights or job.run.dir
        weights, lists = initial_model(job, path, print_warning).weights, 0
        unseen = set(weights)
        sentences, missing, first_missing = 0, 0, 0
        with nullcontext(sys.stdout.buffer) if options.output is None else open_output(options.output) as file:
            for number, entries, score in _scored(options, job, weights):
                sentences = number + 1
                if not entries:
                    missing, first_missing = missing + 1, first_missing if missing else number
                order = np.argsort(-score, kind="stable").tolist()
                if options.nbest is None:
                    # A line for each sentence, also for those without a list.
                    words = entries[order[0]].words if entries else []
                    file.write(f"{' '.join(words)}\n".encode())
                else:
                    best = [line_with_score(entries[j], score[j]) for j in order[: options.nbest]]
                    file.write("".join(f"{line}\n" for line in best).encode())
                if entries:
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
            what = f"{missing} of {sentences} sentences have no list, such as number {first_missing}"
            print_message(f"warning: {what}: they have {'empty' if options.nbest is None else 'no'} lines")
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
    """The words of each source sentence, of the option ``--source``."""
    if "lexicon-pair" in job.features.templates and options.source is None:
        raise UsageError('--source: found none, expected the source sentences, for the template "lexicon-pair"')
    return [sentence.words for sentence in read_sentences(options.source)] if options.source else []


def _scored(
    options: argparse.Namespace, job: Job, weights: Mapping[str, float]
) -> Iterator[tuple[int, list[Entry], np.ndarray]]:
    """The input's lists, with their numbers and float64 [entries], the scores by which they are to be sorted."""
    scores, sources = _score_files(options, job), _sources(options, job)
    text = TextFeatures(job.features.templates, job.features.lexicon)
    count = len(sources) if options.source else options.sentences

    def add_features(entry: Entry, path: Path) -> None:
        scores.add_to(entry, path)
        text.add_to(entry, path, sources[entry.sentence] if entry.sentence < len(sources) else ())

    def model(entry: Entry) -> float:
        return model_score(entry, weights)

    words = Vocabulary()
    gain = ExpectedGain(options.mbr, words.words) if options.mbr else None
    notation = given_notation(options, job.data.notation if job.data else AS_FOUND)._replace(sentences=count)
    for number, entries in all_lists(read_lists(options.input, add_features, notation, model), count):
        score = np.array([model(entry) for entry in entries])
        if gain is not None and entries:
            score = gain.of(as_kbest([words.encode(entry.words) for entry in entries], score))
        yield number, entries, score
    scores.check_ends()
