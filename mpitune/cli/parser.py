"""The program: parses the command line, runs the command, and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mpitune.cli.help import INTERRUPTED
from mpitune.cli.options import make_parser
from mpitune.cli.streams import open_streams
from mpitune.early_signals import is_first_on_machine
from mpitune.errors import MpituneError, StopRequested, as_told, printable
from mpitune.exchange.launcher import is_first_process
from mpitune.files import STANDARD_INPUT
from mpitune.runtime.log import LOG, start_logging, write_traceback
from mpitune.runtime.signals import raised_signals

if TYPE_CHECKING:
    from mpitune.exchange.comm import Comm


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (jobs/commands.md, "Exit codes")."""
    options = argparse.Namespace(folder=None)
    comm: Comm | None = None
    try:
        open_streams()
        with _printed_once():
            options = make_parser().parse_args(arguments)
        if "input" in options:
            options.input = _with_standard_input(options.input)
        with _default_interrupts():
            # Imported here, as the commands are, so that help and the version take no time.
            from mpitune import jit
            from mpitune.api.call import within
            from mpitune.cli.output import note_files
            from mpitune.exchange.comm import connect
            from mpitune.files import working_folder
            from mpitune.ownership import of_command

            working_folder()
            comm = connect()
            run = _load(options.run)
            start_logging(rank=comm.rank, size=comm.size, quiet=vars(options).get("quiet", False))
        once = f"compiling kernels, once on {printable(socket.gethostname())}: half a minute"
        with within(), of_command(), raised_signals(), jit.compilation_reported(_log_of_machine(comm), once):
            note_files(options, comm)
            run(options, comm)
        sys.stdout.flush()
        return 0
    except MpituneError as error:
        return _report_error(error, comm)
    except KeyboardInterrupt:
        # Commands other than train, which handles the signal itself. The exit code is that of a shell.
        if comm is not None and comm.size > 1:
            _abort_all(comm, INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of standard output has had enough.
        return 0
    except SystemExit:
        # Otherwise the other ranks would wait forever for this one.
        if comm is not None and comm.size > 1:
            _abort_all(comm, 1)
        raise
    except Exception as error:
        if isinstance(told := as_told(error), MpituneError):
            return _report_error(told, comm)
        file = write_traceback(error, options.folder, comm.rank) if comm is not None and options.folder else None
        if file is None:
            text = "".join(traceback.format_exception(error)).rstrip("\n")
            print(*map(printable, text.split("\n")), sep="\n", file=sys.stderr)
        where = f"its traceback is in {file}" if file else "its traceback is printed above"
        print(printable(f"mpitune: a bug: {type(error).__name__}: {error}; {where}"), file=sys.stderr, flush=True)
        if comm is not None and comm.size > 1:
            _abort_all(comm, 1)
        return 1


def _log_of_machine(comm: Comm) -> Callable[[str], None]:
    """The function that tells what a machine does: the log has information of rank 0 alone."""
    from mpitune.cli.output import print_message

    if comm.root:
        return LOG.info
    return print_message if comm.first_on_node else lambda _: None


def _with_standard_input(given: Path | list[Path]) -> Path | list[Path]:
    """The input of a command, with the file of standard input in place of ``-``, or of no files."""
    if isinstance(given, list):
        return [STANDARD_INPUT if path == Path("-") else path for path in given] or [STANDARD_INPUT]
    return STANDARD_INPUT if given == Path("-") else given


def _load(name: str) -> Callable[[Any, Comm], None]:
    """The function of a command from its name, module:function."""
    module, _, function = name.partition(":")
    loaded: Callable[[Any, Comm], None] = getattr(import_module(f"mpitune.cli.{module}"), function)
    return loaded


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
    """Print the error in one line, once if all ranks find it; returns the exit code.

    Aborts the other ranks unless they raise it too.
    """
    if comm is not None and not comm.root and isinstance(error, StopRequested) and not error.on_all_ranks:
        # A signal to one rank as a rule is one to all: the first has told of it by then, and ends the others.
        time.sleep(1.0)
    if is_first_on_machine(os.environ) if comm is None else comm.root or not error.on_all_ranks:
        print(printable(f"mpitune: {error}"), file=sys.stderr, flush=True)
    if comm is not None and comm.size > 1 and not error.on_all_ranks:
        _abort_all(comm, error.exit_code)
    return error.exit_code


def _abort_all(comm: Comm, code: int) -> NoReturn:
    # The launcher forwards this rank's last message, and may drop it when the ranks are aborted: wait for it.
    time.sleep(0.2)
    comm.abort(code)
