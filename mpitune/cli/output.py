"""Functions shared by the commands: loading the job, messages on standard error, output files written atomically."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mpitune.array_files.atomic import check_output, open_output
from mpitune.cli import arguments
from mpitune.cli.arguments import paths_of
from mpitune.decoder.base import Decoder, check_failed
from mpitune.errors import printable
from mpitune.exchange.comm import Comm
from mpitune.ownership import reads


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


def write_translations(
    options: argparse.Namespace, comm: Comm, decoder: Decoder, sentences: int, lines: Sequence[str]
) -> None:
    """Write the output unless the decoder has failed on too many ``sentences``, which raises MachineError."""
    comm.on_root(check_failed, comm.sum(decoder.failed), sentences)
    comm.on_root(write_output, options.output, "".join(f"{line}\n" for line in lines))


def print_warning(text: str) -> None:
    """Print a warning of a command that has no log."""
    print_message(f"warning: {text}")


def print_message(text: str) -> None:
    """Print ``text``, a line, on standard error; messages about a run go to `mpitune.runtime.log` instead."""
    print(printable(text), file=sys.stderr, flush=True)
