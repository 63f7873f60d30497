"""The job of a command. Apart from what all commands share: its modules take half a second to load."""

from __future__ import annotations

import argparse
from pathlib import Path

from mpitune.api.job import note
from mpitune.config.plugin_files import execute, texts_of
from mpitune.config.spec import Job
from mpitune.exchange.comm import Comm
from mpitune.training import job_inputs
from mpitune.training.hosts import check_hosts


def load_job(options: argparse.Namespace, comm: Comm) -> Job:
    """Load the job of the command, and its plugins, on all ranks, note its files, and set ``options.folder``."""
    loaded: list[Job] = []  # on rank 0, until all ranks know the classes of its plugins

    def load() -> list[tuple[Path, str]]:
        loaded.append(job_inputs.load_job(options.job, options.set))
        return texts_of(loaded[0].plugins.modules)

    execute(comm.on_root(load))
    job = comm.on_root(lambda: loaded[0])
    note(job, comm)
    options.folder = job.run.dir
    if not vars(options).get("dry_run"):  # which shows them
        check_hosts(comm, job)
    return job
