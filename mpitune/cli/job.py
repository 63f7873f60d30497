"""The job of a command. Apart from what all commands share: its modules take half a second to load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mpitune.config.spec import Job
from mpitune.exchange.comm import Comm
from mpitune.files import check_place
from mpitune.ownership import reads
from mpitune.schema import values
from mpitune.training import job_inputs
from mpitune.training.hosts import check_hosts


def load_job(options: argparse.Namespace, comm: Comm) -> Job:
    """Load the job of the command, on all ranks, and set ``options.folder`` to its run folder.

    The files that it names are noted as inputs, and the job itself, unless it is the configuration of its own run.
    """
    job = comm.on_root(job_inputs.load_job, options.job, options.set)
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


def _listed(value: Path | Sequence[Path] | None) -> Sequence[Path]:
    return [value] if isinstance(value, Path) else value or []
