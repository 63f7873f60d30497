"""Functions shared by the commands: loading the job, messages on standard error, output files written atomically."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mpitune.array_files.atomic import open_atomic
from mpitune.cli import arguments
from mpitune.cli.arguments import paths_of
from mpitune.errors import MpituneError, printable
from mpitune.exchange.comm import Comm
from mpitune.files import writing
from mpitune.ownership import reads, replaces


def write_output(output: Path | None, text: str) -> None:
    """Write ``text`` to the file ``output``, or to standard output; errors as in `open_output`."""
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with open_output(output) as file:
        file.write(text.encode())


def note_files(options: argparse.Namespace, comm: Comm) -> None:
    """Note the files that the command line names, and refuse outputs that are inputs or that cannot be written.

    The job, and the files that it or data name, are noted when they are read.
    """
    reads(path for path in paths_of(options, arguments.reads) if path is not options.job)
    for path in paths_of(options, arguments.writes):
        comm.on_root(check_output, path)


def check_output(path: Path) -> None:
    """Note the output ``path``, and raise the error that writing it would raise, before the work."""
    with writing(path):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISREG(mode):
            tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent).close()
    replaces(path)


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when it is closed; errors as in `mpitune.files.writing`."""
    with writing(path), open_atomic(path) as file:
        yield file


def print_message(text: str) -> None:
    """Print ``text``, a line, on standard error; messages about a run go to `mpitune.runtime.log` instead."""
    print(printable(text), file=sys.stderr, flush=True)


def raised_on_all_ranks(error: MpituneError) -> MpituneError:
    """Mark ``error`` as one that every rank raises at this point, so that only rank 0 reports it."""
    error.on_all_ranks = True
    return error
