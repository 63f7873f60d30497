"""The command `mpitune import-dtrain`."""

from __future__ import annotations

import argparse
from pathlib import Path

from mpitune.cli.output import check_apart, write_output
from mpitune.config.dtrain import import_job
from mpitune.exchange.comm import Comm


def run_import_dtrain(options: argparse.Namespace, comm: Comm) -> None:
    """Convert a configuration of dtrain to a job file, with a comment on each option."""

    def make() -> None:
        check_apart(options.output, [options.configuration])
        write_output(options.output, import_job(options.configuration, Path.cwd()))

    comm.on_root(make)
