"""The command `mpitune report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from mpitune.api.runs import report
from mpitune.cli.output import print_warning
from mpitune.errors import printable
from mpitune.exchange.comm import Comm
from mpitune.run_folder.watch import follow


def run_report(options: argparse.Namespace, comm: Comm) -> None:
    """Report on a run, or compare runs: one self-contained HTML file, and plots."""
    folders: list[Path] = options.run_folders
    if options.watch:
        comm.on_root(follow, folders)
        return

    def make() -> None:
        print(printable(f"the report: {report(folders, options.output, print_warning).path}"), flush=True)

    comm.on_root(make)
