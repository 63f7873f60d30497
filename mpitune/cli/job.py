"""The job of a command. Apart from what all commands share: its modules take half a second to load."""

from __future__ import annotations

import argparse

from mpitune.api.job import note
from mpitune.config.spec import Job
from mpitune.exchange.comm import Comm
from mpitune.training import job_inputs
from mpitune.training.hosts import check_hosts


def load_job(options: argparse.Namespace, comm: Comm) -> Job:
    """Load the job of the command, on all ranks, note its files, and set ``options.folder`` to its run folder."""
    job = comm.on_root(job_inputs.load_job, options.job, options.set)
    note(job, comm)
    options.folder = job.run.dir
    if not vars(options).get("dry_run"):  # which shows them
        check_hosts(comm, job)
    return job
