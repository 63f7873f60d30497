"""Functions shared by the commands: loading the job, messages on standard error, output files written atomically."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mpitune.array_files.atomic import open_atomic
from mpitune.cli import arguments
from mpitune.cli.arguments import paths_of
from mpitune.config.schema import values
from mpitune.config.spec import Job
from mpitune.errors import MpituneError, printable
from mpitune.exchange.comm import Comm
from mpitune.files import check_place, writing
from mpitune.ownership import reads, replaces
from mpitune.training import job_inputs
from mpitune.training.hosts import check_hosts


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


def load_job(options: argparse.Namespace, comm: Comm) -> Job:
    """Load the job of the command, on all ranks, and set ``options.folder`` to its run folder.

    The files that it names are noted as inputs, and the job itself, unless it is the configuration of its own run.
    """
    job = comm.on_root(job_inputs.load_job, options.job, options.set)
    for folder in (job.run.dir, job.run.store):
        comm.on_root(check_place, folder)
    named = [path for _, kind, value in values(job) if kind is Path for path in _listed(value)]
    comm.on_root(reads, [path for path in named if path not in (job.run.dir, job.run.store)])
    if not comm.on_root(job_inputs.is_configuration, job):
        comm.on_root(reads, [job.file])
    options.folder = job.run.dir
    comm.set_timeout(job.parallel.timeout)
    if not vars(options).get("dry_run"):  # which shows them
        check_hosts(comm, job)
    return job


def _listed(value: Path | Sequence[Path] | None) -> Sequence[Path]:
    return [value] if isinstance(value, Path) else value or []


def print_message(text: str) -> None:
    """Print ``text``, a line, on standard error; messages about a run go to `mpitune.runtime.log` instead."""
    print(printable(text), file=sys.stderr, flush=True)


def raised_on_all_ranks(error: MpituneError) -> MpituneError:
    """Mark ``error`` as one that every rank raises at this point, so that only rank 0 reports it."""
    error.on_all_ranks = True
    return error
