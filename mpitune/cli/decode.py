"""The command `mpitune decode`, and what it shares with `mpitune local`."""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mpitune.cli.output import (
    load_job,
    open_output,
    print_message,
    raised_on_all_ranks,
    report_write_errors,
    write_output,
)
from mpitune.config.spec import Job
from mpitune.corpus.text import SourceSentence, read_sentences
from mpitune.corpus.vocabulary import Vocabulary
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
from mpitune.runtime.signals import StopFlag
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.inputs import Texts
from mpitune.store.store import open_store
from mpitune.training import factory, parallel_map
from mpitune.training.session import InitialModel

DecodeFunction = Callable[[int], tuple[list[str], bytes]]
"""From a sentence's number to its lines in the output and its line in the file of hypergraphs."""

FORESTS_AT_ONCE = 8
"""Number of hypergraphs, of some MB each, that a rank holds in memory before rank 0 writes them."""


def run_decode(options: argparse.Namespace, comm: Comm) -> None:
    """Translate sentences with fixed weights; alone, or under mpirun or srun."""
    job = load_job(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size, quiet=options.output is None)
    _check_decode_options(options, job)
    path = options.weights or job.run.dir
    initial = comm.on_root(read_model, job, path)
    kbest = options.explain or options.nbest
    decoder, model, sentences = open_decoder(job, comm, options.input, kbest, initial.scoring)
    if initial.weights and not comm.on_root(model.fires_any, initial.weights):
        comm.on_root(print_message, f"warning: {path}: none of its features occurs in this job")
    weights = _weight_vector(initial.weights, decoder)
    decode = _decode_function(options, decoder, sentences, weights, model.words.words)
    if isinstance(decoder, EmbeddedDecoder):
        compile_kernels(comm, decode, sentences)
    lines = _decode_all(options, comm, len(sentences), decode)
    write_translations(options, comm, decoder, len(sentences), lines)
    remove_decoder_folder(job)


def _check_decode_options(options: argparse.Namespace, job: Job) -> None:
    """Raise UsageError, on all ranks, for options that exclude each other or that the decoder does not support."""
    message = None
    if options.explain and (options.nbest > 1 or options.format != "text"):
        message = "--explain has a fixed output format: leave out --nbest and --format"
    elif options.nbest > 1 and options.format == "text":
        message = f"--nbest {options.nbest} needs --format cdec, moses or json"
    elif (options.explain or options.forest) and job.decoder.backend != "embedded":
        message = "--explain and --forest need the embedded decoder: --set decoder.backend=embedded"
    if message:
        raise raised_on_all_ranks(UsageError(message))


def _weight_vector(weights: Mapping[str, float], decoder: Decoder) -> np.ndarray:
    """float64 [D]: ``weights`` by slot of the decoder's features, to which unknown names are added."""
    slots = decoder.features.slots(list(weights))
    vector = np.zeros(len(decoder.features))
    vector[slots] = list(weights.values())
    return vector


def _decode_function(
    options: argparse.Namespace,
    decoder: Decoder,
    sentences: Sequence[Sentence],
    weights: np.ndarray,
    words: Sequence[str],
) -> DecodeFunction:
    """The function that decodes one sentence in the output format of the ``options``; ``words``: the vocabulary."""
    format_kbest, kbest = parallel_map.FORMATS[options.format], options.explain or options.nbest

    def translate(i: int) -> list[str]:
        return format_kbest(i, decoder.decode(sentences[i], weights, kbest), words, decoder.features)

    def decode(i: int) -> tuple[list[str], bytes]:
        if not (isinstance(decoder, EmbeddedDecoder) and (options.explain or options.forest)):
            return translate(i), b""
        forest = NamedHypergraph(decoder.forest(sentences[i], weights, kbest), weights, decoder.features)
        lines = forest.as_text(i) if options.explain else translate(i)
        return lines, f"{forest.as_json(i)}\n".encode() if options.forest else b""

    return decode


def _decode_all(options: argparse.Namespace, comm: Comm, count: int, decode: DecodeFunction) -> list[str]:
    """Decode ``count`` sentences on all ranks and write their hypergraphs to ``--forest``.

    Returns the lines of all sentences on rank 0, none on the other ranks.
    """
    lines: list[str] = []
    at_once = FORESTS_AT_ONCE if options.forest else None
    with ExitStack() as stack:
        forest_files: list[BinaryIO] = []  # one on rank 0, none on the other ranks

        def open_forest_file() -> None:
            forest_files.append(stack.enter_context(open_output(options.forest)))

        if options.forest:
            comm.on_root(open_forest_file)
        quiet = options.output is None
        decoded = parallel_map.parallel_map(comm, count, decode, "decode", quiet=quiet, at_once=at_once)
        for sentence_lines, forest in decoded:
            lines += sentence_lines
            for file in forest_files:
                file.write(forest)
    return lines


def compile_kernels(comm: Comm, work: Callable[[int], object], sentences: Sequence[Sentence]) -> None:
    """Run ``work`` on the shortest sentence on rank 0: it compiles the kernels, which the other ranks then load."""
    if sentences:
        shortest = min(range(len(sentences)), key=lambda i: len(sentences[i].words) or np.inf)
        comm.on_root(work, shortest)


def write_translations(
    options: argparse.Namespace, comm: Comm, decoder: Decoder, sentences: int, lines: Sequence[str]
) -> None:
    """Write the output unless the decoder has failed on too many ``sentences``, which raises MachineError."""
    comm.on_root(parallel_map.check_failed, comm.sum(decoder.failed), sentences)
    comm.on_root(write_output, options.output, "".join(f"{line}\n" for line in lines))


def _decoder_folder(job: Job) -> Path:
    """Folder for the files of this process's external decoder; its error output remains there if decoding fails.

    It is in the run folder, or in the temporary folder if the run folder is read-only.
    """
    name = f"decode-{socket.gethostname()}-{os.getpid()}"
    return RunFolder(job.run.dir if _is_writable(job.run.dir) else _temporary_folder()).decoder_folder(name)


def remove_decoder_folder(job: Job) -> None:
    """Remove the files of this process's external decoder."""
    shutil.rmtree(_decoder_folder(job), ignore_errors=True)


def read_model(job: Job, path: Path) -> InitialModel:
    """Read the weights in ``path``, a file or a run folder, and the transforms of the grammar's scores.

    Weights of features that are replaced by bins are assigned to the bins, as for initial weights of training.
    """
    if not path.exists():
        raise UsageError(f"{path}: found no such file or folder, expected --weights, or a run with an epoch done")
    weights, scoring = model_weights.read_model(path), _read_scoring(job, path)
    return InitialModel(scoring.to_bin_weights(weights) if scoring else weights, scoring)


def _read_scoring(job: Job, model: Path) -> Scoring | None:
    """Read the transforms of the grammar's scores of the run that ``model`` comes from.

    For a weights file outside its run folder, those of the job's run folder are used.
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
    """Build the stores that are missing and open the job's decoder.

    ``scoring``: the transforms of the grammar's scores. Returns also the model and the sentences of ``file``.
    """
    if job.decoder.backend == "lists":
        error = UsageError(f'{job.file}: decoder.backend = "lists" translates nothing; mpitune rerank sorts lists')
        raise raised_on_all_ranks(error)
    folder, sources = job.run.store, factory.sources(job)
    lines: list[SourceSentence] = []
    if sources.grammar is not None:
        # Read before the store is built, which may take minutes.
        lines = comm.on_root(read_sentences, file)
    else:
        # The input names its own grammars.
        folder = comm.on_root(_input_folder, job)
        texts = Texts(comm.on_root(_regular_file, file, folder))
        sources = replace(sources, train=texts, devtest=None, leave_one_out=False, lm_texts=())
        if texts.source != file and sources.grammar_folder is None:
            # A pipe is in no folder: its grammars are below the working folder.
            sources = replace(sources, grammar_folder=Path.cwd())
    with StopFlag() as stop:
        extract_and_build(comm, sources, folder, job.run.store, print_message, partial(progress, rank=comm.rank), stop)
    if scoring is not None and sources.external:
        error = UsageError("cdec reads grammar files itself, with unchanged scores: no bins, no transforms")
        raise raised_on_all_ranks(error)
    store = open_store(sources, folder, scoring, lms=job.run.store)
    assert isinstance(store.model, TranslationModel)  # checked above
    if sources.grammar is None:
        corpus = store.train
        assert corpus is not None
        sentences = [corpus.sentence(i) for i in range(corpus.size)]
    else:
        sentences = [Sentence(i, store.model.words.encode(line.words), 0) for i, line in enumerate(lines)]
    grammars = comm.on_root(factory.sentence_grammars, job, sources)
    decoder = factory.decoder(job, store, _decoder_folder(job), kbest, grammars)
    if sources.external:
        _register_pass_through(decoder, sources.templates, store.model.words, sentences)
    return decoder, store.model, sentences


def _register_pass_through(
    decoder: Decoder, templates: Sequence[str], vocabulary: Vocabulary, sentences: Sequence[Sentence]
) -> None:
    """Register the features of pass-through rules, in the same order on all ranks: cdec may break ties by that order.

    All words of the input are included: a word in the vocabulary may occur on target sides only.
    """
    numbers = dict.fromkeys(word for sentence in sentences for word in sentence.words.tolist())
    for word in vocabulary.decode(np.array(list(numbers), dtype=np.int32)):
        for name, _ in features(templates, pass_through(word)):
            decoder.features.slot(name)


def _input_folder(job: Job) -> Path:
    """Folder for the compiled grammars of the input: in the store, or in the temporary folder if that is read-only."""
    return job.run.store / "decode" if _is_writable(job.run.store) else _temporary_folder() / "store"


def _is_writable(folder: Path) -> bool:
    """True if this user may write to ``folder``, or create it."""
    return os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)


@cache
def _temporary_folder() -> Path:
    """A folder of this process, which is removed when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="mpitune-decode-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _regular_file(file: Path, folder: Path) -> Path:
    """``file``, or a copy of it in ``folder`` if it is a pipe, which can be read only once."""
    if not (file.is_fifo() or file.is_char_device()):
        return file
    copy = folder / "input"
    with report_write_errors(copy):
        folder.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    return copy
