"""What each subcommand does, from its parsed options to the modules that do the work."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mpitune import assemble, config, local, prepare, translate
from mpitune.config import Job, load
from mpitune.corpus.align import align
from mpitune.corpus.aligned import AlignedFiles
from mpitune.corpus.files import opened
from mpitune.corpus.text import SourceSentence, counted, lines, read_sentences
from mpitune.corpus.weights import write_weights
from mpitune.decoder.base import Decoder, Sentence, TranslationModel
from mpitune.decoder.embedded import EmbeddedDecoder
from mpitune.discretize import open_fitted, open_scored
from mpitune.dtrain import import_job
from mpitune.errors import MachineError, MpituneError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.extraction import Extraction, check_same, make_store, read_inputs, warm_up
from mpitune.grammar.features import features, pass_through
from mpitune.grammar.kneser_ney import estimate
from mpitune.grammar.scores import Scoring
from mpitune.results import evaluate, inspect
from mpitune.results.explain import NamedHypergraph
from mpitune.results.folder import RunFolder
from mpitune.results.names import rule_in_words
from mpitune.results.scoring import read_scoring
from mpitune.results.status import follow
from mpitune.run import Given
from mpitune.runtime import progress, start_logging
from mpitune.sources import Texts
from mpitune.train import train

STORED_BITEXT = ".bitext"
"""Where `mpitune extract` keeps the compiled bitext while it is at work."""
EXAMPLES = 3
"""How many rules a report shows beside a feature that they fire, at most."""
EACH = "each"
"""Where a template is asked for: one after the other."""
NEAREST = 10
"""How many rules are shown that are near to something, where nobody says."""
FORESTS_AT_ONCE = 8
"""How many hypergraphs a rank keeps, of some MB each, before they are written."""


def _load(options: argparse.Namespace, comm: Comm) -> Job:
    job = comm.at_root(lambda: assemble.load_job(options.job, options.set))
    options.folder = job.run.dir
    return job


def run_train(options: argparse.Namespace, comm: Comm) -> None:
    """Learn the weights, going on from checkpoints; alone, or under mpirun or srun."""
    job = _load(options, comm)
    if options.dry_run:
        comm.at_root(lambda: print(job.to_toml(), end="", flush=True))
    else:
        train(job, comm, resume=options.resume, quiet=options.quiet)


def run_prepare(options: argparse.Namespace, comm: Comm) -> None:
    """Build the job's store (train does it by itself)."""
    job = _load(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size)
    store, sources = job.run.store, assemble.sources(job)
    made = make_store(comm, sources, store, store, _tell, partial(progress, rank=comm.rank))
    if sources.train is not None:
        open_fitted(comm, job, sources, store, _tell)
    comm.at_root(lambda: print(f"{store}: {', '.join(made)} made" if made else f"{store}: up to date", flush=True))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_decode(options: argparse.Namespace, comm: Comm) -> None:
    """Translate; alone, or under mpirun or srun."""
    job = _load(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size, quiet=True)
    if options.explain and (options.nbest > 1 or options.format != "text"):
        raise _on_all(UsageError("--explain has a form of its own: leave out --nbest and --format"))
    if options.nbest > 1 and options.format == "text":
        raise _on_all(UsageError(f"--nbest {options.nbest} needs --format cdec or moses"))
    if (options.explain or options.forest) and job.decoder.backend != "embedded":
        raise _on_all(UsageError("--explain and --forest need the embedded decoder: --set decoder.backend=embedded"))
    path = options.weights or job.run.dir
    given = comm.at_root(lambda: _read_model(path))
    scoring = comm.at_root(lambda: _read_scoring(job, path))
    decoder, model, sentences = _open_decoder(job, comm, options.input, options.explain or options.nbest, scoring)
    if given and not any(name in decoder.features for name in given):
        comm.at_root(lambda: _tell(f"warning: {path}: nothing in this job fires any of its features"))
    slots = [decoder.features.slot(name) for name in given]
    weights = np.zeros(len(decoder.features))
    weights[slots] = list(given.values())
    write, best = translate.FORMATS[options.format], options.explain or options.nbest
    embedded = decoder if isinstance(decoder, EmbeddedDecoder) else None

    def translated(i: int) -> list[str]:
        return write(i, decoder.decode(sentences[i], weights, best), model.words.words, decoder.features)

    def decode(i: int) -> tuple[list[str], bytes]:
        """The lines of sentence ``i`` in the output and its line in the file of forests."""
        if embedded is None or not (options.explain or options.forest):
            return translated(i), b""
        forest = NamedHypergraph(embedded.forest(sentences[i], weights, best), weights, decoder.features)
        lines = forest.as_text(i) if options.explain else translated(i)
        return lines, f"{forest.as_json(i)}\n".encode() if options.forest else b""

    if sentences and embedded is not None:
        # Kernels are compiled, where they are not yet, by one rank: the others load them.
        shortest = min(range(len(sentences)), key=lambda i: len(sentences[i].words) or np.inf)
        comm.at_root(lambda: len(decode(shortest)))
    text: list[str] = []
    with ExitStack() as stack:
        files: list[BinaryIO] = []
        if options.forest:
            comm.at_root(lambda: files.append(stack.enter_context(_written(options.forest))))
        at_once = FORESTS_AT_ONCE if options.forest else None
        quiet = options.output is None
        for lines, forest in translate.spread(comm, len(sentences), decode, "decode", quiet=quiet, at_once=at_once):
            text += [f"{line}\n" for line in lines]
            for file in files:
                file.write(forest)
    failures = comm.gather(decoder.failed)
    comm.at_root(lambda: translate.check_failed(sum(failures or []), len(sentences)))
    comm.at_root(lambda: _write(options.output, "".join(text)))
    shutil.rmtree(_decoder_folder(job), ignore_errors=True)


def run_local(options: argparse.Namespace, comm: Comm) -> None:
    """Translate each sentence with weights of its own, learned from similar training data; alone, or under mpirun."""
    job = _load(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size)
    comm.at_root(lambda: config.require_data(job))
    given = comm.at_root(lambda: _read_model(options.weights))
    scoring = comm.at_root(lambda: _read_scoring(job, options.weights))
    # Before the training data are decoded, which may take hours.
    decoder, model, sentences = _open_decoder(job, comm, options.input, 1, scoring)
    if options.explain is not None and options.explain >= len(sentences):
        count = counted(len(sentences), "sentence")
        raise _on_all(UsageError(f"--explain {options.explain}: {options.input} has {count}, the first is number 0"))
    training = local.training_data(job, comm, Given(given, scoring))
    retrieval = local.Retrieval(comm, training, job.local.k, job.local.theta)
    translator = local.Translator(training, assemble.local_update(job), decoder, given)
    if options.explain is not None:
        sentence = sentences[options.explain]
        found = retrieval.nearest([model.words.decode(sentence.words)], quiet=True)[0]
        comm.at_root(lambda: _write(options.output, translator.explain(sentence, found, model.words)))
        shutil.rmtree(_decoder_folder(job), ignore_errors=True)
        return
    quiet = options.output is None
    nearest = retrieval.nearest([model.words.decode(sentence.words) for sentence in sentences], quiet=quiet)
    if sentences:
        # As in run_decode.
        shortest = min(range(len(sentences)), key=lambda i: len(sentences[i].words) or np.inf)
        comm.at_root(lambda: translator.translate(sentences[shortest], nearest[shortest]).learned.distance)

    def translate_(i: int) -> tuple[str, local.Told]:
        done = translator.translate(sentences[i], nearest[i])
        return translate.text(done.best, model.words.words), done.told()

    text, told = [], []
    for line, of_one in translate.spread(comm, len(sentences), translate_, "local", quiet=quiet):
        text.append(f"{line}\n")
        told.append(of_one)
    failures, searching = comm.sum(decoder.failed), comm.gather(retrieval.seconds)
    comm.at_root(lambda: translate.check_failed(failures, len(sentences)))
    comm.at_root(lambda: _write(options.output, "".join(text)))
    comm.at_root(lambda: _tell(local.summary(told, sum(searching or []))))
    shutil.rmtree(_decoder_folder(job), ignore_errors=True)


def _decoder_folder(job: Job) -> Path:
    """For the files of this process's external decoder; what it said is left there where decoding fails."""
    return RunFolder(job.run.dir).of_decoder(f"decode-{socket.gethostname()}-{os.getpid()}")


def _read_model(path: Path) -> dict[str, float]:
    if not path.exists():
        raise UsageError(f"{path}: found no such file or folder, expected weights: --weights, or a run that has some")
    return inspect.read_model(path)


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


def _open_decoder(
    job: Job, comm: Comm, file: Path, kbest: int, scoring: Scoring | None
) -> tuple[Decoder, TranslationModel, list[Sentence]]:
    """The job's decoder, and the sentences of ``file`` in its words; scores become what ``scoring`` says."""
    folder, sources = job.run.store, assemble.sources(job)
    read: list[SourceSentence] = []
    if sources.grammar is not None:
        # Before the store is made, which may take minutes.
        read = comm.at_root(lambda: read_sentences(file))
    else:
        # The input names grammars of its own: they are compiled beside the job's store.
        folder /= "decode"
        texts = Texts(comm.at_root(lambda: _rereadable(file, folder)))
        sources = replace(sources, train=texts, devtest=None, leave_one_out=False)
    make_store(comm, sources, folder, job.run.store, _tell, partial(progress, rank=comm.rank))
    if scoring is not None and sources.external:
        raise _on_all(UsageError("cdec reads grammars itself, with the scores that they have: no bins, no transforms"))
    store = open_scored(comm, sources, folder, scoring, _tell)
    if sources.grammar is None:
        corpus = store.train
        assert corpus is not None
        sentences = [corpus.sentence(i) for i in range(corpus.size)]
    else:
        sentences = [Sentence(i, store.model.words.encode(line.words), 0) for i, line in enumerate(read)]
    grammars = comm.at_root(lambda: assemble.sentence_grammars(job, sources))
    decoder = assemble.decoder(job, store, _decoder_folder(job), kbest, grammars)
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
    with _writing(copy):
        folder.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    return copy


def _write(output: Path | None, text: str) -> None:
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with _written(output) as file:
        file.write(text.encode())


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """What is written here becomes ``path``; `_writing` tells what goes wrong."""
    with _writing(path), opened(path) as file:
        yield file


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Tells what goes wrong while ``path`` is written: MachineError where the disk is full, else UsageError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        kind = MachineError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else UsageError
        raise kind(f"{path}: cannot be written: {error.strerror}") from None


def run_evaluate(options: argparse.Namespace, comm: Comm) -> None:
    """Score translations with sacreBLEU, and test them against the first system."""

    def score() -> None:
        texts = {path: [line for _, line in lines(path)] for path in {*options.refs, *options.hyps}}
        result = evaluate.evaluate(
            [(str(path), texts[path]) for path in options.refs],
            [(str(path), texts[path]) for path in options.hyps],
            test=options.test,
            tokenize=options.tokenize,
            lowercase=options.lowercase,
        )
        print(json.dumps(result.as_json(), indent=1) if options.json else result.as_text(), flush=True)

    comm.at_root(score)


def run_extract(options: argparse.Namespace, comm: Comm) -> None:
    """Write a grammar for each sentence, from a word-aligned bitext; alone, or under mpirun or srun."""
    if (options.bitext is None) == (options.source is None) or (options.source is None) != (options.target is None):
        raise _on_all(UsageError("expected --source F and --target E, or --bitext FE"))
    files = AlignedFiles(options.bitext or options.source, options.target, options.alignment)
    output = options.output
    read = comm.at_root(lambda: read_inputs(options.input))
    if options.leave_one_out:
        comm.at_root(lambda: check_same(files, [words for words, _ in read], options.input))

    def compile_bitext() -> Path:
        with _writing(output):
            output.mkdir(parents=True, exist_ok=True)
        try:
            stored = prepare.prepare_bitext(files, output / STORED_BITEXT, _tell)
        except MpituneError:
            shutil.rmtree(output / STORED_BITEXT)
            raise
        warm_up(stored, _tell)
        return stored

    extraction = Extraction(comm.at_root(compile_bitext))

    def extract(i: int) -> int:
        rules = extraction.rules(read[i][0], i if options.leave_one_out else None)
        with _written(output / f"grammar.{i}.gz") as file:
            file.write(extraction.lines(rules))
        return int(rules.size[0])

    counts = list(translate.spread(comm, len(read), extract, "extract", quiet=False))

    def finish() -> None:
        with _written(output / "input.sgm") as file:
            for i, (words, rest) in enumerate(read):
                file.write(f'<seg grammar="grammar.{i}.gz" id="{i}">{" ".join(words)}</seg>{rest}\n'.encode())
        shutil.rmtree(output / STORED_BITEXT)
        _tell(f"{output / 'input.sgm'}: {counted(len(read), 'sentence')}, {counted(sum(counts), 'rule')}")

    comm.at_root(finish)


def run_align(options: argparse.Namespace, comm: Comm) -> None:
    """Align the words of a bitext by eflomal in both directions, joined by grow-diag-final-and.

    eflomal draws at random, and its seed cannot be set: another run gives somewhat different links.
    """

    def make() -> None:
        links = 0
        with _written(options.output) as file:
            for line in align(options.source, options.target, _tell):
                file.write(f"{line}\n".encode())
                links += line.count("-")
        _tell(f"{options.output}: {counted(links, 'link')}")

    comm.at_root(make)


def run_lm(options: argparse.Namespace, comm: Comm) -> None:
    """Estimate a language model: modified Kneser-Ney, written as ARPA."""

    def make() -> None:
        with _writing(options.output):
            estimate(options.input, options.order, options.output, _tell)

    comm.at_root(make)


def run_import_dtrain(options: argparse.Namespace, comm: Comm) -> None:
    """Write the job file that a configuration of dtrain corresponds to, and what became of its options."""
    comm.at_root(lambda: _write(options.output, import_job(options.configuration, Path.cwd())))


def run_report(options: argparse.Namespace, comm: Comm) -> None:
    """Write what happened in a run, beside other runs if asked, as one HTML file that needs nothing else, and plots."""
    # Its libraries take longer to load than all others together.
    from mpitune.results.report import write_report

    folders: list[Path] = options.run_folders
    if options.watch:
        comm.at_root(lambda: follow(folders))
        return

    def write() -> None:
        with _writing(folders[0]):
            print(f"the report: {write_report(folders, lambda names: _examples(folders[0], names))}", flush=True)

    comm.at_root(write)


def _examples(run: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Rules that fire the features ``names``, where the run's store is still there to look into."""
    try:
        job = load(run / "config.toml")
        found = prepare.rules_firing(job.run.store, job.features.templates, names, EXAMPLES)
    except MpituneError:
        return {}
    return {
        name: [rule_in_words([*map(str, rule.source)], [*map(str, rule.target)]) for rule in rules]
        for name, rules in found.items()
    }


def run_weights(options: argparse.Namespace, comm: Comm) -> None:
    """Look into a model: its largest weights, those of a template, some by name, or what tells it from another."""

    def look() -> None:
        model = inspect.read_model(options.model)
        other = inspect.read_model(options.diff) if options.diff else {}
        weights = inspect.difference(model, other) if options.diff else model
        each = options.template == EACH
        fitting = inspect.chosen(weights, None if each else options.template, options.find)
        if options.near:
            found = [("", inspect.nearest(fitting, options.near, options.top or NEAREST))]
        elif each:
            of_template = {name: inspect.chosen(fitting, name, None) for name in ("dense", *inspect.PREFIXES)}
            found = [
                (f"# {name}: {counted(len(part), 'feature')}", inspect.largest(part, options.top))
                for name, part in of_template.items()
                if part
            ]
        else:
            found = [("", inspect.largest(fitting, options.top))]
        if options.export:
            with _writing(options.export):
                write_weights(options.export, sorted(pair for _, pairs in found for pair in pairs))
            return
        for heading, pairs in found:
            if heading:
                print(heading)
            for name, value in pairs:
                both = f" {model.get(name, 0.0)!r} {other.get(name, 0.0)!r}" if options.diff else ""
                print(f"{name} {value!r}{both}")

    comm.at_root(look)


def _on_all(error: MpituneError) -> MpituneError:
    """``error``, which every rank is about to raise."""
    error.on_all_ranks = True
    return error
