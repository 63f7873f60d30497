"""The command `mpitune lm`."""

from __future__ import annotations

import argparse

from mpitune.api.tools import estimate_lm
from mpitune.exchange.comm import Comm
from mpitune.runtime.signals import StopFlag, stop_flag


def run_lm(options: argparse.Namespace, comm: Comm) -> None:
    """Estimate a language model: modified Kneser-Ney, written as ARPA."""

    def make() -> None:
        with stop_flag().interrupts("the language model", resumable=False):
            estimate_lm(
                options.input, options.order, options.output, vocabulary=options.vocabulary, memory=options.memory
            )

    with StopFlag():
        comm.on_root(make)
