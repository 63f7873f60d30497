"""The command `mpitune lm`."""

from __future__ import annotations

import argparse

from mpitune.exchange.comm import Comm
from mpitune.files import writing
from mpitune.lm.kneser_ney import estimate
from mpitune.runtime.log import start_logging
from mpitune.runtime.memory import machine_memory
from mpitune.runtime.signals import StopFlag, stop_flag


def run_lm(options: argparse.Namespace, comm: Comm) -> None:
    """Estimate a language model: modified Kneser-Ney, written as ARPA."""

    start_logging(None, rank=comm.rank, size=comm.size)

    def make() -> None:
        with stop_flag().interrupts("the language model", resumable=False), writing(options.output):
            estimate(
                options.input,
                options.order,
                options.output,
                vocabulary=options.vocabulary,
                memory=options.memory or machine_memory() // 2,
            )

    with StopFlag():
        comm.on_root(make)
