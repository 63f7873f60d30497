"""What `mpitune decode` and `mpitune local` do, from their parsed options to the modules that do the work."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mpitune.cli.output import job_of, on_all, print_message, write, writing, written
from mpitune.config import load
from mpitune.config.spec import Job
from mpitune.corpus.text import SourceSentence, counted, read_sentences
from mpitune.decoder.base import Decoder, Sentence, TranslationModel
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.errors import UsageError
from mpitune.exchange.comm import Comm
from mpitune.grammar.score_transforms import Scoring
from mpitune.grammar.templates import features, pass_through
from mpitune.report.derivations import NamedHypergraph
from mpitune.run_folder import model_weights
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.scoring import read_scoring
from mpitune.runtime.log import start_logging
from mpitune.runtime.progress import progress
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.inputs import Texts
from mpitune.training import factory, local_training, parallel_map
from mpitune.training.fit_bins import open_scored
from mpitune.training.session import InitialModel

FORESTS_AT_ONCE = 8
"""How many hypergraphs a rank keeps, of some MB each, before they are written."""


def run_decode(options: argparse.Namespace, comm: Comm) -> None:
    """Translate; alone, or under mpirun or srun."""
    job = job_of(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size, quiet=True)
    if options.explain and (options.nbest > 1 or options.format != "text"):
        raise on_all(UsageError("--explain has a form of its own: leave out --nbest and --format"))
    if options.nbest > 1 and options.format == "text":
        raise on_all(UsageError(f"--nbest {options.nbest} needs --format cdec or moses"))
    if (options.explain or options.forest) and job.decoder.backend != "embedded":
        raise on_all(UsageError("--explain and --forest need the embedded decoder: --set decoder.backend=embedded"))
    path = options.weights or job.run.dir
    given, scoring = comm.on_root(_read_given, job, path)
    decoder, model, sentences = open_decoder(job, comm, options.input, options.explain or options.nbest, scoring)
    if given and not any(name in decoder.features for name in given):
        comm.on_root(print_message, f"warning: {path}: nothing in this job fires any of its features")
    slots = [decoder.features.slot(name) for name in given]
    weights = np.zeros(len(decoder.features))
    weights[slots] = list(given.values())
    format_, best = parallel_map.FORMATS[options.format], options.explain or options.nbest
    embedded = decoder if isinstance(decoder, EmbeddedDecoder) else None

    def translated(i: int) -> list[str]:
        return format_(i, decoder.decode(sentences[i], weights, best), model.words.words, decoder.features)

    def decode(i: int) -> tuple[list[str], bytes]:
        """The lines of sentence ``i`` in the output and its line in the file of forests."""
        if embedded is None or not (options.explain or options.forest):
            return translated(i), b""
        forest = NamedHypergraph(embedded.forest(sentences[i], weights, best), weights, decoder.features)
        lines = forest.as_text(i) if options.explain else translated(i)
        return lines, f"{forest.as_json(i)}\n".encode() if options.forest else b""

    if sentences and embedded is not None:
        # Kernels are compiled, where they are not yet, by one rank: the others load them.
        comm.on_root(decode, _shortest(sentences))
    text: list[str] = []
    with ExitStack() as stack:
        files: list[BinaryIO] = []

        def open_forest() -> None:
            files.append(stack.enter_context(written(options.forest)))

        if options.forest:
            comm.on_root(open_forest)
        at_once = FORESTS_AT_ONCE if options.forest else None
        quiet = options.output is None
        for lines, forest in parallel_map.parallel_map(
            comm, len(sentences), decode, "decode", quiet=quiet, at_once=at_once
        ):
            text += [f"{line}\n" for line in lines]
            for file in files:
                file.write(forest)
    failures = comm.gather(decoder.failed)
    comm.on_root(parallel_map.check_failed, sum(failures or []), len(sentences))
    comm.on_root(write, options.output, "".join(text))
    shutil.rmtree(_decoder_folder(job), ignore_errors=True)


def run_local(options: argparse.Namespace, comm: Comm) -> None:
    """Translate each sentence with weights of its own, learned from similar training data; alone, or under mpirun."""
    job = job_of(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size)
    comm.on_root(load.require_data, job)
    given, scoring = comm.on_root(_read_given, job, options.weights)
    # Before the training data are decoded, which may take hours.
    decoder, model, sentences = open_decoder(job, comm, options.input, 1, scoring)
    if options.explain is not None and options.explain >= len(sentences):
        count = counted(len(sentences), "sentence")
        raise on_all(UsageError(f"--explain {options.explain}: {options.input} has {count}, the first is number 0"))
    training = local_training.training_data(job, comm, InitialModel(given, scoring))
    retrieval = local_training.Retrieval(comm, training, job.local.k, job.local.theta)
    translator = local_training.Translator(training, factory.local_update(job), decoder, given)
    if options.explain is not None:
        sentence = sentences[options.explain]
        found = retrieval.nearest([model.words.decode(sentence.words)], quiet=True)[0]

        def explain() -> None:
            write(options.output, translator.explain(sentence, found, model.words))

        comm.on_root(explain)
        shutil.rmtree(_decoder_folder(job), ignore_errors=True)
        return
    quiet = options.output is None
    nearest = retrieval.nearest([model.words.decode(sentence.words) for sentence in sentences], quiet=quiet)

    def translate_(i: int) -> tuple[str, local_training.SentenceTimings]:
        done = translator.translate(sentences[i], nearest[i])
        return parallel_map.text(done.best, model.words.words), done.told()

    if sentences:
        # As in run_decode.
        comm.on_root(translate_, _shortest(sentences))
    text, told = [], []
    for line, of_one in parallel_map.parallel_map(comm, len(sentences), translate_, "local", quiet=quiet):
        text.append(f"{line}\n")
        told.append(of_one)
    failures, searching = comm.sum(decoder.failed), comm.gather(retrieval.seconds)
    comm.on_root(parallel_map.check_failed, failures, len(sentences))
    comm.on_root(write, options.output, "".join(text))

    def summarise() -> None:
        print_message(local_training.summary(told, sum(searching or [])))

    comm.on_root(summarise)
    shutil.rmtree(_decoder_folder(job), ignore_errors=True)


def _shortest(sentences: Sequence[Sentence]) -> int:
    """Which of them has the fewest words, one at least if any has."""
    return min(range(len(sentences)), key=lambda i: len(sentences[i].words) or np.inf)


def _decoder_folder(job: Job) -> Path:
    """For the files of this process's external decoder; what it said is left there where decoding fails."""
    return RunFolder(job.run.dir).of_decoder(f"decode-{socket.gethostname()}-{os.getpid()}")


def _read_given(job: Job, path: Path) -> InitialModel:
    """The weights in ``path``, a file or a run, and what has become of the grammar's scores there.

    Weights of features that are replaced by bins become weights of these, as where training begins with them.
    """
    if not path.exists():
        raise UsageError(f"{path}: found no such file or folder, expected weights: --weights, or a run that has some")
    weights, scoring = model_weights.read_model(path), _read_scoring(job, path)
    return InitialModel(scoring.spread(weights) if scoring else weights, scoring)


def _read_scoring(job: Job, model: Path) -> Scoring | None:
    """What has become of the grammar's scores in the run that ``model`` comes from.

    A file of weights that lies apart from its run is taken for one of the job's own.
    """
    found = read_scoring(model)
    if found is None and model.is_file() and model.suffix != ".h5":
        found = read_scoring(job.run.dir)
    if found is None and (job.features.unlog.features or job.features.discretize.features):
        expected = f"{RunFolder(job.run.dir).scoring.name} of the run that it comes from beside it or in run.dir"
        raise UsageError(f"{model}: found no bins or transforms of scores for it, expected {expected}")
    return found


def open_decoder(
    job: Job, comm: Comm, file: Path, kbest: int, scoring: Scoring | None
) -> tuple[Decoder, TranslationModel, list[Sentence]]:
    """The job's decoder, and the sentences of ``file`` in its words; scores become what ``scoring`` says."""
    folder, sources = job.run.store, factory.sources(job)
    read: list[SourceSentence] = []
    if sources.grammar is not None:
        # Before the store is made, which may take minutes.
        read = comm.on_root(read_sentences, file)
    else:
        # The input names grammars of its own: they are compiled beside the job's store.
        folder /= "decode"
        texts = Texts(comm.on_root(_rereadable, file, folder))
        sources = replace(sources, train=texts, devtest=None, leave_one_out=False)
    extract_and_build(comm, sources, folder, job.run.store, print_message, partial(progress, rank=comm.rank))
    if scoring is not None and sources.external:
        raise on_all(UsageError("cdec reads grammars itself, with the scores that they have: no bins, no transforms"))
    store = open_scored(comm, sources, folder, scoring, print_message, lms=job.run.store)
    if sources.grammar is None:
        corpus = store.train
        assert corpus is not None
        sentences = [corpus.sentence(i) for i in range(corpus.size)]
    else:
        sentences = [Sentence(i, store.model.words.encode(line.words), 0) for i, line in enumerate(read)]
    grammars = comm.on_root(factory.sentence_grammars, job, sources)
    decoder = factory.decoder(job, store, _decoder_folder(job), kbest, grammars)
    if sources.external:
        # On all ranks, and in one order: its choice among equals may depend on that. A word that the vocabulary has
        # may be one of target sides only.
        numbers = dict.fromkeys(word for sentence in sentences for word in sentence.words.tolist())
        for word in store.model.words.decode(np.array(list(numbers), dtype=np.int32)):
            for name, _ in features(sources.templates, pass_through(word)):
                decoder.features.slot(name)
    return decoder, store.model, sentences


def _rereadable(file: Path, folder: Path) -> Path:
    """``file``, or a copy of it in ``folder`` where it is a pipe, which can be read only once."""
    if not (file.is_fifo() or file.is_char_device()):
        return file
    copy = folder / "input"
    with writing(copy):
        folder.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    return copy
