"""Functions shared by the commands: loading the job, messages on standard error, output files written atomically."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mpitune.array_files.atomic import open_atomic
from mpitune.config.schema import values
from mpitune.config.spec import Job
from mpitune.errors import MachineError, MpituneError, UsageError, printable
from mpitune.exchange.comm import Comm
from mpitune.run_folder.layout import RunFolder
from mpitune.training import job_inputs


def write_output(output: Path | None, text: str) -> None:
    """Write ``text`` to the file ``output``, or to standard output; errors as in `report_write_errors`."""
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with open_output(output) as file:
        file.write(text.encode())


def check_apart(path: Path | None, inputs: Sequence[Path | None]) -> None:
    """Raise UsageError if the output ``path`` is one of the ``inputs``."""
    files = [each for each in inputs if each is not None and each.is_file()]
    if path is not None and path.is_file() and any(map(path.samefile, files)):
        raise UsageError(f"{path}: found as input and as output, expected two files")


def _files_of(job: Job) -> list[Path]:
    """The file of ``job``, those that it names, and those of its run folder and store that others depend on."""
    named = [path for _, kind, value in values(job) if kind is Path for path in _listed(value)]
    return [job.file, *named, *files_of_run(job.run.dir), *job.run.store.glob("*.h5")]


def files_of_run(folder: Path) -> list[Path]:
    """The files of a run that others depend on."""
    run = RunFolder(folder)
    kept = [run.config, run.result, run.metrics, run.log, run.status, run.scoring]
    return [*kept, *run.checkpoints.glob("*.h5"), *run.weights.glob("*.gz")]


def _listed(value: Path | Sequence[Path] | None) -> Sequence[Path]:
    return [value] if isinstance(value, Path) else value or []


def check_output(path: Path | None, job: Job, inputs: Sequence[Path | None]) -> None:
    """`check_apart`, from files of ``job`` too; and raise the error of `open_output`, before the work."""
    if path is not None:
        check_apart(path, [*inputs, *_files_of(job)])
        with report_write_errors(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if path.is_file() or not path.exists():
                tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent).close()


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when it is closed; errors as in `report_write_errors`."""
    with report_write_errors(path), open_atomic(path) as file:
        yield file


@contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Convert an OSError while ``path`` is written: to MachineError if the disk is full or broken, else UsageError.

    MachineError too if ``path`` is a pipe whose reader has gone; that of standard output alone may leave early.
    """
    try:
        yield
    except OSError as error:
        failed = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE
        kind = MachineError if error.errno in failed else UsageError
        raise kind(f"{path}: cannot be written: {error.strerror}") from None


def load_job(options: argparse.Namespace, comm: Comm) -> Job:
    """Load the job of the command, on all ranks, and set ``options.folder`` to its run folder."""
    job = comm.on_root(job_inputs.load_job, options.job, options.set)
    options.folder = job.run.dir
    return job


def print_message(text: str) -> None:
    """Print ``text``, a line, on standard error; messages about a run go to `mpitune.runtime.log` instead."""
    print(printable(text), file=sys.stderr, flush=True)


def raised_on_all_ranks(error: MpituneError) -> MpituneError:
    """Mark ``error`` as one that every rank raises at this point, so that only rank 0 reports it."""
    error.on_all_ranks = True
    return error
