"""The command `mpitune align`."""

from __future__ import annotations

import argparse

from mpitune.api.tools import align
from mpitune.cli.output import print_message
from mpitune.corpus.wording import counted
from mpitune.exchange.comm import Comm
from mpitune.runtime.signals import StopFlag, stop_flag


def run_align(options: argparse.Namespace, comm: Comm) -> None:
    """Align the words of a bitext by eflomal in both directions, symmetrised by grow-diag-final-and.

    eflomal is a random sampler without a seed option: links differ slightly between runs.
    """

    def make() -> None:
        with stop_flag().interrupts("the word alignment", resumable=False):
            links = align(options.source, options.target, options.output)
        print_message(f"{options.output}: {counted(links, 'link')}")

    with StopFlag():
        comm.on_root(make)
