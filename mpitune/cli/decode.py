"""The command `mpitune decode`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import numpy as np

from mpitune.api.opened import initial_model, load_kernels, opened_decoder
from mpitune.array_files.atomic import open_output
from mpitune.cli.job import load_job
from mpitune.cli.output import print_warning, write_translations
from mpitune.config.spec import Job
from mpitune.decoder.base import Decoder, Sentence
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.decoder.kbest_formats import FORMATS
from mpitune.errors import UsageError, raised_on_all_ranks
from mpitune.exchange.comm import Comm
from mpitune.report.readable import NamedHypergraph
from mpitune.training.open_run import unused_weights
from mpitune.training.scheduler import parallel_map

DecodeFunction = Callable[[int], tuple[list[str], bytes]]
"""From a sentence's number to its lines in the output and its line in the file of hypergraphs."""

FORESTS_AT_ONCE = 8
"""Number of hypergraphs, of some MB each, that a rank holds in memory before rank 0 writes them."""


def run_decode(options: argparse.Namespace, comm: Comm) -> None:
    """Translate sentences with fixed weights; alone, or under mpirun or srun."""
    job = load_job(options, comm)
    _check_decode_options(options, job)
    path = options.weights or job.run.dir
    initial = comm.on_root(initial_model, job, path, print_warning)
    kbest = options.explain or options.nbest
    with opened_decoder(job, comm, options.input, kbest, initial.scoring) as (decoder, model, sentences):
        if told := comm.on_root(unused_weights, initial.weights, job, model):
            comm.on_root(print_warning, f"{path}: {told}")
        weights = _weight_vector(initial.weights, decoder)
        decode = _decode_function(options, decoder, sentences, weights, model.words.words)
        if isinstance(decoder, EmbeddedDecoder):
            load_kernels(comm, decode, sentences)
        lines = _decode_all(options, comm, len(sentences), decode)
        write_translations(options, comm, decoder, len(sentences), lines)


def _check_decode_options(options: argparse.Namespace, job: Job) -> None:
    """Raise UsageError, on all ranks, for options that exclude each other or that the decoder does not support."""
    message = None
    if options.explain and (options.nbest > 1 or options.format != "text"):
        message = "--explain has a fixed output format: leave out --nbest and --format"
    elif options.nbest > 1 and options.format == "text":
        message = f"--nbest {options.nbest} needs --format cdec, moses or json"
    elif (options.explain or options.forest) and job.decoder.backend != "embedded":
        message = "--explain and --forest need the embedded decoder: --set decoder.backend=embedded"
    elif options.forest and options.forest == options.output:
        message = f"--output and --forest: found {options.output} twice, expected two files"
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
    format_kbest, kbest = FORMATS[options.format], options.explain or options.nbest

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
        decoded = parallel_map(comm, count, decode, "decode", at_once=at_once)
        for sentence_lines, forest in decoded:
            lines += sentence_lines
            for file in forest_files:
                file.write(forest)
    return lines
