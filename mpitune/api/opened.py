"""Opening of a job's decoder, with the stores that it needs, for the sentences of a file."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.atomic import atomic_replace
from mpitune.config.spec import Job
from mpitune.corpus.lines import line_blocks
from mpitune.corpus.text import read_sentences
from mpitune.decoder.base import Decoder, Sentence, TranslationModel
from mpitune.errors import MachineError, UsageError, raised_on_all_ranks
from mpitune.exchange.comm import Comm
from mpitune.files import (
    STANDARD_INPUT,
    is_file,
    is_writable,
    make_folder,
    status,
    temporary_place,
    working_folder,
    writing,
)
from mpitune.grammar.score_transforms import Scoring
from mpitune.grammar.templates import features, pass_through
from mpitune.ownership import dissolve
from mpitune.run_folder import model_weights
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import read_scoring
from mpitune.runtime.signals import StopFlag
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import open_store
from mpitune.training import factory, job_inputs
from mpitune.training.hosts import compile_kernels, compile_side_by_side
from mpitune.training.open_run import InitialModel

Warn = Callable[[str], None]


def initial_model(job: Job, path: Path, warn: Warn) -> InitialModel:
    """Read the weights in ``path``, a file or a run folder, and the transforms of the grammar's scores.

    Weights of features that are replaced by bins are assigned to the bins, as for initial weights of training.
    ``warn`` is told of a file without weights.
    """
    weights, scoring = model_weights.read_model(path), read_scoring_for(job, path)
    if not weights:
        warn(f"{path}: found no weights: all are 0; is it the file of a run that has learned?")
    return InitialModel(scoring.to_bin_weights(weights) if scoring else weights, scoring)


def read_scoring_for(job: Job, model: Path) -> Scoring | None:
    """Read the transforms of the grammar's scores of the run that ``model`` comes from.

    For a weights file outside its run folder, those of the job's run folder are used.
    """
    found = read_scoring(model)
    if found is None and is_file(model) and model.suffix != ".h5":
        found = read_scoring(job.run.dir)
    if found is None and (job.features.unlog.features or job.features.discretize.features):
        expected = f"{RunFolder(job.run.dir).scoring.name} of the run that it comes from beside it or in run.dir"
        raise UsageError(f"{model}: found no bins or transforms of scores for it, expected {expected}")
    return found


class OpenedDecoder(NamedTuple):
    """A decoder, its model, and the sentences of the input."""

    decoder: Decoder
    model: TranslationModel
    sentences: list[Sentence]


@contextmanager
def opened_decoder(job: Job, comm: Comm, file: Path, kbest: int, scoring: Scoring | None) -> Iterator[OpenedDecoder]:
    """Build the stores that are missing, and open the job's decoder for the sentences of ``file``.

    ``scoring``: the transforms of the grammar's scores. At the end, the files that only this process uses are removed;
    if it fails, the error output of an external decoder remains.
    """
    with ExitStack() as stack:
        sources = translation_inputs(job)
        if sources.grammar is not None:
            # Read before the store is built, which may take minutes.
            lines = comm.on_root(read_sentences, file)
            opened = open_for(job, comm, sources, job.run.store, kbest, scoring)
            words = opened.model.words
            opened = opened._replace(
                sentences=[Sentence(i, words.encode(line.words), 0) for i, line in enumerate(lines)]
            )
        else:
            # The input names its own grammars.
            folder = comm.on_root(stack.enter_context, _input_folder(job))
            sources = inputs_of(sources, comm.on_root(_regular_file, file, folder), file)
            opened = open_for(job, comm, sources, folder, kbest, scoring)
        if sources.external:
            register_pass_through(opened)
        yield opened
        shutil.rmtree(_decoder_folder(job), ignore_errors=True)


def translation_inputs(job: Job) -> StoreInputs:
    """The inputs of the job's store. Raises UsageError for a job without a decoder that translates."""
    if job.decoder.backend == "lists":
        error = UsageError(f'{job.file}: decoder.backend = "lists" translates nothing; mpitune rerank sorts lists')
        raise raised_on_all_ranks(error)
    return job_inputs.sources(job)


def open_for(
    job: Job, comm: Comm, sources: StoreInputs, folder: Path, kbest: int, scoring: Scoring | None
) -> OpenedDecoder:
    """Build the store of ``sources`` in ``folder`` where it is missing, and open the job's decoder on it.

    ``kbest``: the longest list that an external decoder will be asked for. The sentences are those of the store.
    """
    with StopFlag():
        compile_side_by_side(comm, job, sources)
        extract_and_build(comm, sources, folder, job.run.store)
    if scoring is not None and sources.external:
        error = UsageError("cdec reads grammar files itself, with unchanged scores: no bins, no transforms")
        raise raised_on_all_ranks(error)
    store = open_store(sources, folder, scoring, lms=job.run.store)
    assert isinstance(store.model, TranslationModel)  # checked by `translation_inputs`
    corpus = store.train if sources.grammar is None else None
    sentences = [corpus.sentence(i) for i in range(corpus.size)] if corpus is not None else []
    grammars = comm.on_root(job_inputs.sentence_grammars, job, sources)
    return OpenedDecoder(factory.decoder(job, store, _decoder_folder(job), kbest, grammars), store.model, sentences)


def inputs_of(sources: StoreInputs, text: Path, file: Path) -> StoreInputs:
    """The inputs of a store for ``text``, which is ``file`` or a copy of it."""
    inputs = replace(sources, train=Texts(text), devtest=None, leave_one_out=False, lm_texts=())
    if text != file and inputs.grammar_folder is None:
        # A pipe is in no folder: its grammars are below the working folder.
        inputs = replace(inputs, grammar_folder=working_folder())
    return inputs


def register_pass_through(opened: OpenedDecoder) -> None:
    """Register the features of pass-through rules, in the same order on all ranks: cdec may break ties by that order.

    All words of the input are included: a word in the vocabulary may occur on target sides only.
    """
    numbers = dict.fromkeys(word for sentence in opened.sentences for word in sentence.words.tolist())
    for word in opened.model.words.decode(np.array(list(numbers), dtype=np.int32)):
        for name, _ in features(opened.model.templates, pass_through(word)):
            opened.decoder.features.slot(name)


def load_kernels(comm: Comm, work: Callable[[int], object], sentences: Sequence[Sentence]) -> None:
    """Run ``work`` on the shortest sentence: it compiles the kernels on each machine, and other ranks load them."""
    if sentences and comm.size > 1:
        shortest = min(range(len(sentences)), key=lambda i: len(sentences[i].words) or np.inf)
        compile_kernels(comm, partial(work, shortest))


def _decoder_folder(job: Job) -> Path:
    """Folder for the files of this process's external decoder; its error output remains there if decoding fails.

    It is in the run folder, or in the temporary folder if the run folder is read-only.
    """
    name = f"decode-{socket.gethostname()}-{os.getpid()}"
    return RunFolder(job.run.dir if is_writable(job.run.dir) else _temporary_folder()).decoder_folder(name)


@contextmanager
def _input_folder(job: Job) -> Iterator[Path]:
    """Folder for the compiled grammars of the input, which no other process writes to meanwhile.

    It is `decode` in the store, which keeps the grammars of the text that was translated last. While another process
    uses that, it is a folder beside it, which is removed at the end; if the store is read-only, a temporary one.
    """
    if not is_writable(job.run.store):
        yield _temporary_folder() / "store"
        return
    kept = job.run.store / "decode"
    make_folder(kept)
    with writing(kept):
        in_use = open(kept / "in-use", "a", encoding="utf-8")  # noqa: SIM115 (closed below)
    with in_use:
        try:
            fcntl.flock(in_use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # held by another process, or a file system without locks
            own = kept.with_name(f"decode-{socket.gethostname()}-{os.getpid()}")
            try:
                yield own
            finally:
                dissolve(own / "parts", "store")
                dissolve(own, "store")
        else:
            yield kept


@cache
def _temporary_folder() -> Path:
    """A folder of this process, which is removed when it ends."""
    with writing(temporary_place(), MachineError):
        folder = Path(tempfile.mkdtemp(prefix="mpitune-decode-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _regular_file(file: Path, folder: Path) -> Path:
    """``file``, or a copy of it in ``folder`` if it is standard input or a pipe, which can be read only once."""
    if file != STANDARD_INPUT and ((found := status(file)) is None or stat.S_ISREG(found.st_mode)):
        return file
    copy = folder / "input"
    make_folder(folder)
    with writing(copy), atomic_replace(copy) as aside, open(aside, "wb") as written:
        written.writelines(line_blocks(file))
    return copy
