"""The command `mpitune align`."""

from __future__ import annotations

import argparse

from mpitune.cli.output import open_output, print_message
from mpitune.corpus.eflomal import write_alignment
from mpitune.corpus.wording import counted
from mpitune.exchange.comm import Comm
from mpitune.runtime.log import start_logging
from mpitune.runtime.signals import StopFlag, stop_flag


def run_align(options: argparse.Namespace, comm: Comm) -> None:
    """Align the words of a bitext by eflomal in both directions, symmetrised by grow-diag-final-and.

    eflomal is a random sampler without a seed option: links differ slightly between runs.
    """

    start_logging(None, rank=comm.rank, size=comm.size)

    def make() -> None:
        with stop_flag().interrupts("the word alignment", resumable=False), open_output(options.output) as file:
            links = write_alignment(file, options.source, options.target)
        print_message(f"{options.output}: {counted(links, 'link')}")

    with StopFlag():
        comm.on_root(make)
