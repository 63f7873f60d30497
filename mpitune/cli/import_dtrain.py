"""The command `mpitune import-dtrain`."""

from __future__ import annotations

import argparse

from mpitune.cli.output import write_output
from mpitune.config.dtrain import import_job
from mpitune.exchange.comm import Comm
from mpitune.files import working_folder


def run_import_dtrain(options: argparse.Namespace, comm: Comm) -> None:
    """Convert a configuration of dtrain to a job file, with a comment on each option."""

    def make() -> None:
        write_output(options.output, import_job(options.configuration, working_folder()))

    comm.on_root(make)
