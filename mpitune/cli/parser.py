"""The command line: subcommands, and errors to one line and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from mpitune import __version__
from mpitune.cli import commands, decode
from mpitune.errors import MachineError, MpituneError
from mpitune.exchange.comm import Comm, connect
from mpitune.metrics import significance
from mpitune.run_folder import model_weights
from mpitune.runtime.log import keep_in_log, keep_traceback
from mpitune.training import parallel_map


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (README.md, "Exit codes")."""
    options = _parser().parse_args(arguments)
    comm: Comm | None = None
    try:
        with _ended_by_interrupts():
            comm = connect()
        options.run(options, comm)
        sys.stdout.flush()
        return 0
    except MpituneError as error:
        return _told(error, comm)
    except MemoryError as error:
        return _told(MachineError(f"not enough memory: {error}"), comm)
    except KeyboardInterrupt:
        # Not in train, which stops by itself. The exit code is the one that shells give.
        if comm is not None and comm.size > 1:
            _end_all(comm, 128 + signal.SIGINT)
        return 128 + signal.SIGINT
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


@contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """Ctrl-C ends the process at once: after a KeyboardInterrupt, it would wait for the other ranks when MPI ends.

    They, who wait for this rank elsewhere, are ended by the launcher.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _told(error: MpituneError, comm: Comm | None) -> int:
    """Say what is wrong, in one line; returns the exit code."""
    # What all ranks have met is told once; what one rank has met ends the others.
    if comm is None or comm.root or not error.on_all_ranks:
        print(f"mpitune: {error}", file=sys.stderr, flush=True)
        keep_in_log(str(error))
    if comm is not None and comm.size > 1 and not error.on_all_ranks:
        _end_all(comm, error.exit_code)
    return error.exit_code


def _end_all(comm: Comm, code: int) -> NoReturn:
    # What this rank has just said is on its way through the launcher, which may drop it once it ends the others.
    time.sleep(0.2)
    comm.abort(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpitune", description="Tune the weights of a hierarchical translation system on its whole training set."
    )
    parser.add_argument("--version", action="version", version=f"mpitune {__version__}")
    parser.set_defaults(folder=None)
    known = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace, Comm], None]) -> argparse.ArgumentParser:
        sub = known.add_parser(
            name, help=run.__doc__, description=run.__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        sub.set_defaults(run=run)
        return sub

    def job_command(name: str, run: Callable[[argparse.Namespace, Comm], None]) -> argparse.ArgumentParser:
        sub = command(name, run)
        sub.add_argument("job", type=Path, metavar="JOB.toml", help="the job file")
        sub.add_argument("--set", action="append", default=[], metavar="table.key=value", help="overrides the job file")
        return sub

    sub = job_command("train", commands.run_train)
    sub.add_argument("--resume", choices=["auto", "never", "must"], default="auto", help="what to do with checkpoints")
    sub.add_argument("--dry-run", action="store_true", help="print the effective configuration and do nothing")
    sub.add_argument("--quiet", action="store_true", help="warnings and errors only")

    job_command("prepare", commands.run_prepare)

    sub = job_command("decode", decode.run_decode)
    sub.add_argument("--input", type=Path, required=True, help="source sentences, a line each")
    sub.add_argument(
        "--weights", type=Path, help="a weights file, checkpoint or run folder; the run's result if not given"
    )
    sub.add_argument("--nbest", type=_positive, default=1, metavar="K", help="translations per sentence")
    sub.add_argument("--output", type=Path, help="a file (gzipped for a name in .gz); standard output if not given")
    sub.add_argument("--format", choices=list(parallel_map.FORMATS), default="text", help="of the output")
    sub.add_argument(
        "--explain", type=_positive, metavar="N", help="write how the N best translations came about, not translations"
    )
    sub.add_argument(
        "--forest", type=Path, metavar="FILE", help="also write the hypergraphs, each a line of JSON (gzipped for .gz)"
    )

    sub = job_command("local", decode.run_local)
    sub.add_argument("--input", type=Path, required=True, help="source sentences, a line each")
    sub.add_argument(
        "--weights", type=Path, required=True, help="the global weights: a weights file, checkpoint or run folder"
    )
    sub.add_argument("--output", type=Path, help="a file (gzipped for a name in .gz); standard output if not given")
    sub.add_argument(
        "--explain", type=_number, metavar="N", help="write what sentence N (from 0) has learned from, not translations"
    )

    sub = command("evaluate", commands.run_evaluate)
    sub.add_argument("--refs", type=Path, nargs="+", required=True, metavar="R", help="references")
    sub.add_argument("--hyps", type=Path, nargs="+", required=True, metavar="A", help="systems' translations")
    sub.add_argument(
        "--test", choices=list(significance.TESTS), help="ar: approximate randomisation; bootstrap: paired"
    )
    sub.add_argument(
        "--tokenize", choices=list(significance.TOKENIZERS), default="none", help="none: tokenised already"
    )
    sub.add_argument("--lowercase", action="store_true", help="score regardless of case")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = command("report", commands.run_report)
    sub.add_argument(
        "run_folders", type=Path, nargs="+", metavar="RUN", help="run folders; the report is written into the first"
    )
    sub.add_argument("--watch", action="store_true", help="follow running jobs in this terminal instead")

    sub = command("extract", commands.run_extract)
    sub.add_argument("--source", type=Path, metavar="F", help="the bitext's source sentences, tokenised, a line each")
    sub.add_argument("--target", type=Path, metavar="E", help="their translations, likewise")
    sub.add_argument("--bitext", type=Path, metavar="FE", help="both in one file instead: source ||| target")
    sub.add_argument(
        "--alignment", type=Path, required=True, metavar="A", help="a line of links for each pair: 0-0 1-2"
    )
    sub.add_argument(
        "--input", type=Path, required=True, metavar="IN", help="sentences that want a grammar, a line each"
    )
    sub.add_argument("--output", type=Path, required=True, metavar="DIR", help="for grammar.N.gz and input.sgm")
    sub.add_argument(
        "--leave-one-out",
        action="store_true",
        help="the input is the bitext's source: leave out each sentence's own pair",
    )

    sub = command("align", commands.run_align)
    sub.add_argument("--source", type=Path, required=True, metavar="F", help="tokenised sentences, a line each")
    sub.add_argument("--target", type=Path, required=True, metavar="E", help="their translations, likewise")
    sub.add_argument("--output", type=Path, required=True, metavar="A", help="gzipped where its name ends in .gz")

    sub = command("lm", commands.run_lm)
    sub.add_argument("--order", type=_positive, required=True, metavar="N", help="words in the longest n-grams")
    sub.add_argument("--input", type=Path, required=True, metavar="E", help="tokenised sentences, a line each")
    sub.add_argument("--output", type=Path, required=True, metavar="LM", help="gzipped where its name ends in .gz")

    sub = command("import-dtrain", commands.run_import_dtrain)
    sub.add_argument("configuration", type=Path, metavar="DTRAIN.ini", help="the configuration file, of 2012 or 2016")
    sub.add_argument("--output", type=Path, metavar="JOB.toml", help="the job file; standard output if not given")

    sub = command("weights", commands.run_weights)
    sub.add_argument("model", type=Path, metavar="RUN_OR_FILE", help="a run folder, checkpoint or weights file")
    sub.add_argument("--top", type=_positive, metavar="N", help="only the N of largest absolute value")
    templates = ["dense", *model_weights.PREFIXES, commands.EACH]
    sub.add_argument(
        "--template", choices=templates, metavar="T", help=f"only features of one template: {', '.join(templates)}"
    )
    sub.add_argument("--find", metavar="TEXT", help="only features whose names hold TEXT")
    sub.add_argument(
        "--near", metavar="TEXT", help="the rules nearest to TEXT, by how many letters in a row they share"
    )
    sub.add_argument("--diff", type=Path, metavar="OTHER", help="the differences to another model, and both weights")
    sub.add_argument("--export", type=Path, metavar="W.txt", help="write them as a weights file instead")
    return parser


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number of at least 0")
    return int(text)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number above 0")
    return int(text)
