"""The job of a command. Apart from what all commands share: its modules take half a second to load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mpitune.cli.output import print_message
from mpitune.config.load import load_plugins_of_job, read_tables
from mpitune.config.plugin_files import execute, texts_of
from mpitune.config.spec import Job
from mpitune.errors import DataError
from mpitune.exchange.comm import Comm
from mpitune.files import check_place, is_file
from mpitune.ownership import reads
from mpitune.run_folder.layout import RunFolder
from mpitune.schema import values
from mpitune.training import job_inputs
from mpitune.training.hosts import check_hosts


def load_job(options: argparse.Namespace, comm: Comm) -> Job:
    """Load the job of the command, and its plugins, on all ranks, and set ``options.folder`` to its run folder.

    The files that it names are noted as inputs, and the job itself, unless it is the configuration of its own run.
    """
    loaded: list[Job] = []  # on rank 0, until all ranks know the classes of its plugins

    def load() -> list[tuple[Path, str]]:
        loaded.append(job_inputs.load_job(options.job, options.set))
        return texts_of(loaded[0].plugins.modules)

    execute(comm.on_root(load))
    job = comm.on_root(lambda: loaded[0])
    for folder in (job.run.dir, job.run.store):
        comm.on_root(check_place, folder)
    named = [path for _, kind, value in values(job) if kind is Path for path in _listed(value)]
    comm.on_root(reads, [path for path in named if path not in (job.run.dir, job.run.store)])
    if not comm.on_root(job_inputs.is_configuration, job):
        comm.on_root(reads, [job.file])
    options.folder = job.run.dir
    comm.set_timeout(job.parallel.timeout)
    if not vars(options).get("dry_run"):  # which shows them
        check_hosts(comm, job)
    return job


def load_plugins_of(path: Path) -> None:
    """Load the plugins of the run with the model ``path`` (a run folder, or a file in it), if it is one of a run.

    If one is no longer there, the user is told: to read a run takes no files outside of it.
    """
    for folder in (path, path.parent, path.parent.parent):
        config = RunFolder(folder).config
        if is_file(config):
            try:
                load_plugins_of_job(read_tables(config), config)
            except DataError as error:
                print_message(f"warning: {error}: features of its templates count as dense ones")
            return


def _listed(value: Path | Sequence[Path] | None) -> Sequence[Path]:
    return [value] if isinstance(value, Path) else value or []
