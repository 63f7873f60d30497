"""The command `mpitune report`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mpitune.cli.job import load_plugins_of
from mpitune.cli.output import print_message
from mpitune.config.load import load
from mpitune.errors import MpituneError, printable
from mpitune.exchange.comm import Comm
from mpitune.report.readable import rule_in_words
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.watch import follow
from mpitune.store.store import rules_firing

EXAMPLES = 3
"""Maximum number of rules that a report shows as examples of a feature."""


def run_report(options: argparse.Namespace, comm: Comm) -> None:
    """Report on a run, or compare runs: one self-contained HTML file, and plots."""
    folders: list[Path] = options.run_folders
    if options.watch:
        comm.on_root(follow, folders)
        return
    # Imported here because its libraries take longer to load than all others together.
    from mpitune.report.html import write_report

    def make() -> None:
        for folder in folders:
            load_plugins_of(folder)
        output = options.output or folders[0]
        path = write_report(folders, _examples, output, print_message)
        print(printable(f"the report: {path}"), flush=True)

    comm.on_root(make)


def _examples(run: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Rules that fire the features ``names``, as text; empty for lists, or if the store no longer exists."""
    try:
        job = load(RunFolder(run).config)
        if job.decoder.backend == "lists":
            return {}
        found = rules_firing(job.run.store, job.features.templates, names, EXAMPLES)
    except MpituneError:
        return {}
    return {
        name: [rule_in_words([*map(str, rule.source)], [*map(str, rule.target)]) for rule in rules]
        for name, rules in found.items()
    }
