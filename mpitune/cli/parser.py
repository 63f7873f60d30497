"""Parser of the command line, and conversion of errors to one line and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NoReturn, get_args

from mpitune import __version__
from mpitune.cli import commands, decode, local, rerank
from mpitune.cli.streams import open_streams
from mpitune.errors import MachineError, MpituneError
from mpitune.exchange.comm import Comm, connect
from mpitune.exchange.launcher import is_first_process
from mpitune.metrics.choices import GainName, SignificanceTest, Tokenizer
from mpitune.run_folder import model_weights
from mpitune.runtime.log import log_to_file, write_traceback
from mpitune.training import parallel_map


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (README.md, "Exit codes")."""
    options = argparse.Namespace(folder=None)
    comm: Comm | None = None
    try:
        open_streams()
        with _printed_once():
            options = _parser().parse_args(arguments)
        if "input" in options and options.input == Path("-"):
            options.input = Path("/dev/stdin")
        with _default_interrupts():
            comm = connect()
        options.run(options, comm)
        sys.stdout.flush()
        return 0
    except MpituneError as error:
        return _report_error(error, comm)
    except MemoryError as error:
        return _report_error(MachineError(f"not enough memory: {error}"), comm)
    except KeyboardInterrupt:
        # Commands other than train, which handles the signal itself. The exit code is that of a shell.
        if comm is not None and comm.size > 1:
            _abort_all(comm, 128 + signal.SIGINT)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of standard output has had enough.
        return 0
    except SystemExit:
        # Otherwise the other ranks would wait forever for this one.
        if comm is not None and comm.size > 1:
            _abort_all(comm, 1)
        raise
    except Exception as error:
        file = write_traceback(error, options.folder, comm.rank) if comm is not None and options.folder else None
        if file is None:
            traceback.print_exception(error)
        where = f"its traceback is in {file}" if file else "its traceback is printed above"
        print(f"mpitune: a bug: {type(error).__name__}: {error}; {where}", file=sys.stderr, flush=True)
        if comm is not None and comm.size > 1:
            _abort_all(comm, 1)
        return 1


@contextmanager
def _printed_once() -> Iterator[None]:
    """Let rank 0 alone print help, the version or a usage error, which end the program."""
    if is_first_process(os.environ):
        try:
            yield
        finally:
            sys.stdout.flush()
    else:
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                yield
        except SystemExit:
            # A launcher that sees a failure here might end rank 0 before it has printed anything.
            raise SystemExit(0) from None


@contextmanager
def _default_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process at once; after a KeyboardInterrupt, finalising MPI would wait for the other ranks.

    The launcher ends the other ranks.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is signal.SIG_DFL else before)


def _report_error(error: MpituneError, comm: Comm | None) -> int:
    """Print the error in one line, and abort the other ranks unless they raise it too; returns the exit code."""
    if comm is None or comm.root or not error.on_all_ranks:
        print(f"mpitune: {error}", file=sys.stderr, flush=True)
        log_to_file(str(error))
    if comm is not None and comm.size > 1 and not error.on_all_ranks:
        _abort_all(comm, error.exit_code)
    return error.exit_code


def _abort_all(comm: Comm, code: int) -> NoReturn:
    # The launcher forwards this rank's last message, and may drop it when the ranks are aborted: wait for it.
    time.sleep(0.2)
    comm.abort(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpitune", description="Tune the weights of a hierarchical translation system on its whole training set."
    )
    parser.add_argument("--version", action="version", version=f"mpitune {__version__}")
    parser.set_defaults(folder=None)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace, Comm], None]) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(
            name, help=run.__doc__, description=run.__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        sub.set_defaults(run=run)
        return sub

    def job_command(name: str, run: Callable[[argparse.Namespace, Comm], None]) -> argparse.ArgumentParser:
        sub = command(name, run)
        sub.add_argument("job", type=Path, metavar="JOB.toml", help="the job file")
        sub.add_argument(
            "--set", action="append", default=[], metavar="table.key=value", help="override a key of the job file"
        )
        return sub

    sub = job_command("train", commands.run_train)
    sub.add_argument(
        "--resume",
        choices=["auto", "never", "must"],
        default="auto",
        help="auto: continue from a checkpoint if there is one; never: start anew; must: fail without one",
    )
    sub.add_argument("--dry-run", action="store_true", help="print the effective configuration only")
    sub.add_argument("--quiet", action="store_true", help="print warnings and errors only")

    job_command("prepare", commands.run_prepare)

    sub = job_command("decode", decode.run_decode)
    sub.add_argument("--input", type=Path, required=True, help="source sentences, a line each")
    sub.add_argument(
        "--weights", type=Path, help="a weights file, checkpoint or run folder; default: the job's run folder"
    )
    sub.add_argument("--nbest", type=_positive, default=1, metavar="K", help="translations per sentence")
    sub.add_argument("--output", type=Path, help="a file (gzipped for a name in .gz); standard output if not given")
    sub.add_argument("--format", choices=list(parallel_map.FORMATS), default="text", help="output format")
    sub.add_argument(
        "--explain", type=_positive, metavar="N", help="write the derivations of the N best translations instead"
    )
    sub.add_argument(
        "--forest",
        type=Path,
        metavar="FILE",
        help="also write the hypergraphs, a line of JSON each (gzipped for .gz)",
    )

    sub = job_command("local", local.run_local)
    sub.add_argument("--input", type=Path, required=True, help="source sentences, a line each")
    sub.add_argument(
        "--weights", type=Path, required=True, help="the global weights: a weights file, checkpoint or run folder"
    )
    sub.add_argument("--output", type=Path, help="a file (gzipped for a name in .gz); standard output if not given")
    sub.add_argument(
        "--explain",
        type=_number,
        metavar="N",
        help="write the data and weights learned for sentence N (from 0) instead",
    )

    sub = job_command("rerank", rerank.run_rerank)
    sub.add_argument(
        "--input",
        type=Path,
        nargs="+",
        default=[Path("/dev/stdin")],
        metavar="LISTS",
        help="n-best lists, numbers ascending; those of several files are merged; standard input if not given",
    )
    sub.add_argument(
        "--scores", type=Path, nargs="+", default=[], metavar="FILE", help="the files of the job's [[features.files]]"
    )
    sub.add_argument(
        "--weights", type=Path, help="a weights file, checkpoint or run folder; default: the job's run folder"
    )
    sub.add_argument("--output", type=Path, help="a file (gzipped for a name in .gz); standard output if not given")
    sub.add_argument(
        "--nbest", type=_positive, metavar="K", help="write the K best entries of each list instead, in its format"
    )
    sub.add_argument(
        "--mbr", choices=get_args(GainName), help="sort by expected gain (minimum Bayes risk), not by model score"
    )

    sub = command("evaluate", commands.run_evaluate)
    sub.add_argument("--refs", type=Path, nargs="+", required=True, metavar="R", help="references")
    sub.add_argument("--hyps", type=Path, nargs="+", required=True, metavar="A", help="systems' translations")
    sub.add_argument(
        "--test", choices=get_args(SignificanceTest), help="ar: approximate randomisation; bootstrap: paired"
    )
    sub.add_argument("--tokenize", choices=get_args(Tokenizer), default="none", help="none: texts are tokenised")
    sub.add_argument("--lowercase", action="store_true", help="ignore case")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = command("report", commands.run_report)
    sub.add_argument(
        "run_folders", type=Path, nargs="+", metavar="RUN", help="run folders; the report is about the first"
    )
    sub.add_argument("--output", type=Path, metavar="DIR", help="folder for the report; default: the first run folder")
    sub.add_argument("--watch", action="store_true", help="show the progress of running jobs in the terminal instead")

    sub = command("extract", commands.run_extract)
    sub.add_argument("--source", type=Path, metavar="F", help="the bitext's source sentences, tokenised, a line each")
    sub.add_argument("--target", type=Path, metavar="E", help="the bitext's target sentences, likewise")
    sub.add_argument("--bitext", type=Path, metavar="FE", help="both in one file instead: source ||| target")
    sub.add_argument(
        "--alignment",
        type=Path,
        required=True,
        metavar="A",
        help="alignment, a line of links for each pair: 0-0 1-2",
    )
    sub.add_argument(
        "--input", type=Path, required=True, metavar="IN", help="sentences to extract grammars for, a line each"
    )
    sub.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for grammar.N.gz and input.sgm")
    sub.add_argument(
        "--leave-one-out",
        action="store_true",
        help="exclude each sentence's own pair; the input must be the bitext's source",
    )

    sub = command("align", commands.run_align)
    sub.add_argument("--source", type=Path, required=True, metavar="F", help="tokenised sentences, a line each")
    sub.add_argument("--target", type=Path, required=True, metavar="E", help="their translations, likewise")
    sub.add_argument("--output", type=Path, required=True, metavar="A", help="alignment (gzipped for a name in .gz)")

    sub = command("lm", commands.run_lm)
    sub.add_argument("--order", type=_positive, required=True, metavar="N", help="order of the model")
    sub.add_argument("--input", type=Path, required=True, metavar="E", help="tokenised sentences, a line each")
    sub.add_argument("--output", type=Path, required=True, metavar="LM", help="ARPA file (gzipped for a name in .gz)")

    sub = command("import-dtrain", commands.run_import_dtrain)
    sub.add_argument("configuration", type=Path, metavar="DTRAIN.ini", help="the configuration file, of 2012 or 2016")
    sub.add_argument("--output", type=Path, metavar="JOB.toml", help="the job file; standard output if not given")

    sub = command("weights", commands.run_weights)
    sub.add_argument("model", type=Path, metavar="RUN_OR_FILE", help="a run folder, checkpoint or weights file")
    sub.add_argument("--top", type=_positive, metavar="N", help="only the N of largest absolute value")
    templates = ["dense", *model_weights.PREFIXES, commands.EACH_TEMPLATE]
    sub.add_argument(
        "--template", choices=templates, metavar="T", help=f"only features of one template: {', '.join(templates)}"
    )
    sub.add_argument("--find", metavar="TEXT", help="only features whose names contain TEXT")
    sub.add_argument(
        "--near", metavar="TEXT", help="the rules most similar to TEXT, by common sequences of three letters"
    )
    sub.add_argument("--diff", type=Path, metavar="OTHER", help="differences to another model, with both weights")
    sub.add_argument(
        "--export",
        type=Path,
        metavar="W.txt",
        help="write the selected weights to a file instead; .json: JSON, .ini: the section [weight] of a moses.ini",
    )
    return parser


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number of at least 0")
    return int(text)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number above 0")
    return int(text)
