"""The command line: subcommands, and errors to one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np

from mpitune import __version__, assemble, prepare, translate
from mpitune.config import Job
from mpitune.corpus.files import written_whole
from mpitune.corpus.text import SourceSentence, lines, read_sentences
from mpitune.corpus.weights import write_weights
from mpitune.decoder.base import Decoder, Sentence, TranslationModel
from mpitune.errors import MachineError, MpituneError, UsageError
from mpitune.exchange.comm import Comm, connect
from mpitune.results import evaluate, inspect
from mpitune.runtime import keep_in_log, keep_traceback, progress, start_logging
from mpitune.train import train


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (README, "Exit codes")."""
    options = _parser().parse_args(arguments)
    comm: Comm | None = None
    try:
        comm = connect()
        options.run(options, comm)
        sys.stdout.flush()
        return 0
    except MpituneError as error:
        # What all ranks have met is told once; what one rank has met ends the others.
        if comm is None or comm.root or not error.on_all_ranks:
            print(f"mpitune: {error}", file=sys.stderr, flush=True)
            keep_in_log(str(error))
        if comm is not None and comm.size > 1 and not error.on_all_ranks:
            _end_all(comm, error.exit_code)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has had enough; Python must not try to flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit:
        # Whoever calls exit leaves the others waiting.
        if comm is not None and comm.size > 1:
            _end_all(comm, 1)
        raise
    except Exception as error:
        kept = keep_traceback(error, options.folder, comm.rank) if comm is not None and options.folder else None
        if kept is None:
            traceback.print_exception(error)
        where = f"its traceback is in {kept}" if kept else "its traceback stands above"
        print(f"mpitune: a bug: {type(error).__name__}: {error}; {where}", file=sys.stderr, flush=True)
        if comm is not None and comm.size > 1:
            _end_all(comm, 1)
        return 1


def _end_all(comm: Comm, code: int) -> NoReturn:
    # What this rank has just said is on its way through the launcher, which may drop it once it ends the others.
    time.sleep(0.2)
    comm.abort(code)


def _load(options: argparse.Namespace, comm: Comm) -> Job:
    job = comm.at_root(lambda: assemble.load_job(options.job, options.set))
    options.folder = job.run.dir
    return job


def _train(options: argparse.Namespace, comm: Comm) -> None:
    job = _load(options, comm)
    if options.dry_run:
        comm.at_root(lambda: print(job.to_toml(), end="", flush=True))
    else:
        train(job, comm, resume=options.resume, quiet=options.quiet)


def _prepare(options: argparse.Namespace, comm: Comm) -> None:
    job = _load(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size)

    def make() -> None:
        made = prepare.prepare(assemble.sources(job), job.run.store, _tell, progress)
        print(f"{job.run.store}: {', '.join(made)} made" if made else f"{job.run.store}: up to date", flush=True)

    comm.at_root(make)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _decode(options: argparse.Namespace, comm: Comm) -> None:
    job = _load(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size, quiet=True)
    if options.nbest > 1 and options.format == "text":
        raise _on_all(UsageError(f"--nbest {options.nbest} needs --format cdec or moses"))
    given = comm.at_root(lambda: inspect.read_model(options.weights or job.run.dir))
    decoder, model, sentences = _open_decoder(job, comm, options.input)
    slots = [decoder.features.slot(name) for name in given]
    weights = np.zeros(len(decoder.features))
    weights[slots] = list(given.values())
    write = translate.FORMATS[options.format]

    def decode(i: int) -> list[str]:
        kbest = decoder.decode(sentences[i], weights, options.nbest)
        return write(i, kbest, model.words.words, decoder.features)

    done = translate.spread(comm, len(sentences), decode, "decode", quiet=options.output is None)
    text = "".join(f"{line}\n" for block in done or [] for line in block)
    comm.at_root(lambda: _write(options.output, text))


def _open_decoder(job: Job, comm: Comm, file: Path) -> tuple[Decoder, TranslationModel, list[Sentence]]:
    """The job's decoder, and the sentences of ``file`` in its words."""
    folder, sources = job.run.store, assemble.sources(job)
    if sources.grammar is None:
        # The input names grammars of its own: they are compiled beside the job's store.
        folder /= "decode"
        texts = prepare.Texts(comm.at_root(lambda: _rereadable(file, folder)))
        sources = prepare.Sources(train=texts, templates=sources.templates, lms=sources.lms)
    comm.at_root(lambda: prepare.prepare(sources, folder, _tell, progress))
    store = prepare.open_store(sources, folder)
    if sources.grammar is None:
        corpus = store.train
        assert corpus is not None
        sentences = [corpus.sentence(i) for i in range(corpus.size)]
    else:
        read: list[SourceSentence] = comm.at_root(lambda: read_sentences(file))
        sentences = [Sentence(i, store.model.words.encode(line.words), 0) for i, line in enumerate(read)]
    return assemble.decoder(job, store), store.model, sentences


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
    with _writing(output):
        if output.exists() and not output.is_file():
            # A pipe or a device: what is written aside could only take its place.
            output.write_text(text, encoding="utf-8")
            return
        # A folder that is not there is a slip of the pen: it is not made.
        output.parent.stat()
        with written_whole(output) as aside:
            aside.write_text(text, encoding="utf-8")


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


def _evaluate(options: argparse.Namespace, comm: Comm) -> None:
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


def _weights(options: argparse.Namespace, comm: Comm) -> None:
    def look() -> None:
        weights = inspect.read_model(options.model)
        if options.diff:
            weights = inspect.difference(weights, inspect.read_model(options.diff))
        found = inspect.largest(inspect.chosen(weights, options.template, options.find), options.top)
        if options.export:
            if options.export.exists() and not options.export.is_file():
                raise UsageError(f"{options.export}: found no regular file, expected one or a new name")
            with _writing(options.export):
                write_weights(options.export, sorted(found))
            return
        for name, value in found:
            print(f"{name} {value!r}")

    comm.at_root(look)


def _on_all(error: MpituneError) -> MpituneError:
    """``error``, which every rank is about to raise."""
    error.on_all_ranks = True
    return error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpitune", description="Tune the weights of a hierarchical translation system on its whole training set."
    )
    parser.add_argument("--version", action="version", version=f"mpitune {__version__}")
    parser.set_defaults(folder=None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=help, description=help, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        sub.set_defaults(run=run)
        return sub

    def job_command(name: str, run: object, help: str) -> argparse.ArgumentParser:
        sub = command(name, run, help)
        sub.add_argument("job", type=Path, metavar="JOB.toml", help="the job file")
        sub.add_argument("--set", action="append", default=[], metavar="table.key=value", help="overrides the job file")
        return sub

    sub = job_command("train", _train, "learn the weights; goes on from checkpoints; run it under mpirun or srun")
    sub.add_argument("--resume", choices=["auto", "never", "must"], default="auto", help="what to do with checkpoints")
    sub.add_argument("--dry-run", action="store_true", help="print the effective configuration and do nothing")
    sub.add_argument("--quiet", action="store_true", help="warnings and errors only")

    job_command("prepare", _prepare, "build the job's store (train does it by itself)")

    sub = job_command("decode", _decode, "translate; also under mpirun")
    sub.add_argument("--input", type=Path, required=True, help="source sentences, a line each")
    sub.add_argument(
        "--weights", type=Path, help="a weights file, checkpoint or run folder; the run's result if not given"
    )
    sub.add_argument("--nbest", type=_positive, default=1, metavar="K", help="translations per sentence")
    sub.add_argument("--output", type=Path, help="a file; standard output if not given")
    sub.add_argument("--format", choices=list(translate.FORMATS), default="text", help="of the output")

    sub = command("evaluate", _evaluate, "sacreBLEU scores, and significance against the first system")
    sub.add_argument("--refs", type=Path, nargs="+", required=True, metavar="R", help="references")
    sub.add_argument("--hyps", type=Path, nargs="+", required=True, metavar="A", help="systems' translations")
    sub.add_argument("--test", choices=list(evaluate.TESTS), help="ar: approximate randomisation; bootstrap: paired")
    sub.add_argument("--tokenize", choices=list(evaluate.TOKENIZERS), default="none", help="none: tokenised already")
    sub.add_argument("--lowercase", action="store_true", help="score regardless of case")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = command("weights", _weights, "look into a model")
    sub.add_argument("model", type=Path, metavar="RUN_OR_FILE", help="a run folder, checkpoint or weights file")
    sub.add_argument("--top", type=_positive, metavar="N", help="only the N of largest absolute value")
    sub.add_argument("--template", choices=["dense", *inspect.PREFIXES], help="only the features of one template")
    sub.add_argument("--find", metavar="TEXT", help="only features whose names hold TEXT")
    sub.add_argument("--diff", type=Path, metavar="OTHER", help="show the differences to another model")
    sub.add_argument("--export", type=Path, metavar="W.txt", help="write them as a weights file instead")
    return parser


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number above 0")
    return int(text)
