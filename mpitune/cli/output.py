"""What commands share: the job that they are given, what they say, and files that are written whole or not at all."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mpitune.array_files.atomic import open_atomic
from mpitune.config.spec import Job
from mpitune.errors import MachineError, MpituneError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.training import factory


def write(output: Path | None, text: str) -> None:
    """``text`` to ``output``, or to standard output; `writing` tells what goes wrong."""
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with written(output) as file:
        file.write(text.encode())


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """What is written here becomes ``path``; `writing` tells what goes wrong."""
    with writing(path), open_atomic(path) as file:
        yield file


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tells what goes wrong while ``path`` is written: MachineError where the disk is full, else UsageError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        kind = MachineError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else UsageError
        raise kind(f"{path}: cannot be written: {error.strerror}") from None


def job_of(options: argparse.Namespace, comm: Comm) -> Job:
    """The job that the ``options`` name, on all ranks; its run folder is noted in them."""
    job = comm.on_root(factory.load_job, options.job, options.set)
    options.folder = job.run.dir
    return job


def print_message(text: str) -> None:
    """Say it on standard error."""
    print(text, file=sys.stderr, flush=True)


def on_all(error: MpituneError) -> MpituneError:
    """``error``, which every rank is about to raise."""
    error.on_all_ranks = True
    return error
