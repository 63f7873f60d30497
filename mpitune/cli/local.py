"""The command `mpitune local`: translation of each sentence with weights learned for it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mpitune.api.opened import initial_model, load_kernels, opened_decoder
from mpitune.cli.job import load_job
from mpitune.cli.output import print_message, print_warning, write_output, write_translations
from mpitune.config.checks import check_retraining, require_data
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.wording import counted
from mpitune.decoder.base import Sentence
from mpitune.decoder.kbest_formats import text
from mpitune.errors import UsageError, raised_on_all_ranks
from mpitune.exchange.comm import Comm
from mpitune.training.local.learning import learner
from mpitune.training.local.retrieval import Retrieval
from mpitune.training.local.training_lists import training_data
from mpitune.training.local.translation import SentenceTimings, Translator, summary
from mpitune.training.open_run import unused_weights
from mpitune.training.scheduler import parallel_map


def run_local(options: argparse.Namespace, comm: Comm) -> None:
    """Translate each sentence with its own weights, learned from similar training data; alone, or under mpirun."""
    job = load_job(options, comm)
    comm.on_root(require_data, job)
    comm.on_root(check_retraining, job)
    initial = comm.on_root(initial_model, job, options.weights, print_warning)
    # Opened before the training data are decoded, which may take hours, so that errors in the input are found first.
    with opened_decoder(job, comm, options.input, 1, initial.scoring) as (decoder, model, sentences):
        if options.explain is not None and options.explain >= len(sentences):
            count = counted(len(sentences), "sentence")
            error = UsageError(f"--explain {options.explain}: {options.input} has {count}, the first is number 0")
            raise raised_on_all_ranks(error)
        if told := comm.on_root(unused_weights, initial.weights, job, model):
            comm.on_root(print_warning, f"{options.weights}: {told}")
        training = training_data(job, comm, initial)
        retrieval = Retrieval(comm, training, job.local.k, job.local.theta)
        learn = learner(job, training)
        translator = Translator(training, learn, decoder, initial.weights)
        if options.explain is not None:
            _explain_sentence(options, comm, retrieval, translator, sentences[options.explain], model.words)
        else:
            lines, timings = _translate_locally(options, comm, retrieval, translator, sentences, model.words)
            write_translations(options, comm, decoder, len(sentences), lines)
            _print_summary(comm, timings, retrieval.seconds)


def _explain_sentence(
    options: argparse.Namespace,
    comm: Comm,
    retrieval: Retrieval,
    translator: Translator,
    sentence: Sentence,
    words: Vocabulary,
) -> None:
    """Write the training sentences, the change of the weights and the translations of one sentence."""
    nearest = retrieval.nearest([words.decode(sentence.words)])[0]

    def explain() -> None:
        write_output(options.output, translator.explain(sentence, nearest, words))

    comm.on_root(explain)


def _translate_locally(
    options: argparse.Namespace,
    comm: Comm,
    retrieval: Retrieval,
    translator: Translator,
    sentences: Sequence[Sentence],
    words: Vocabulary,
) -> tuple[list[str], list[SentenceTimings]]:
    """Retrieve, learn and translate on all ranks; returns translations and timings on rank 0, none on the others."""
    nearest = retrieval.nearest([words.decode(sentence.words) for sentence in sentences])

    def translate(i: int) -> tuple[str, SentenceTimings]:
        done = translator.translate(sentences[i], nearest[i])
        return text(done.best, words.words), done.timings()

    load_kernels(comm, translate, sentences)
    lines, timings = [], []
    for line, timing in parallel_map(comm, len(sentences), translate, "local"):
        lines.append(line)
        timings.append(timing)
    return lines, timings


def _print_summary(comm: Comm, timings: Sequence[SentenceTimings], search_seconds: float) -> None:
    """Print times and distances of all sentences; ``search_seconds``: time that this rank has spent on retrieval."""
    seconds = comm.gather(search_seconds)

    def print_summary() -> None:
        for line in summary(timings, sum(seconds or [])).splitlines():
            print_message(line)

    comm.on_root(print_summary)
