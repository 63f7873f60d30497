"""The commands `mpitune train` and `mpitune prepare`."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mpitune.api.runs import build_store
from mpitune.cli.job import load_job
from mpitune.cli.output import print_message
from mpitune.config.spec import MAX_SEED, Job
from mpitune.decoder.cdec.process import resolve_program
from mpitune.errors import DataError, MpituneError, UsageError, printable, raised_on_all_ranks
from mpitune.exchange.comm import Comm
from mpitune.files import free_space, is_file, open_to_read
from mpitune.run_folder.layout import RunFolder, run_folders
from mpitune.runtime.memory import machine_memory
from mpitune.store.inputs import check_files
from mpitune.training import job_inputs, loop
from mpitune.training.hosts import differences, look_around


def run_train(options: argparse.Namespace, comm: Comm) -> None:
    """Learn the weights, continuing from checkpoints; alone, or under mpirun or srun."""
    seeds = None if options.seeds is None else _parse_seeds(options.seeds)
    job = load_job(options, comm)
    if options.dry_run:
        comm.on_root(_show, job)
        if comm.size > 1:
            show_hosts(comm, job)
        return
    comm.on_root(_refuse_other_kind, job.run.dir, seeds is not None)
    for each in [job] if seeds is None else (job_inputs.with_seed(job, seed) for seed in seeds):
        options.folder = each.run.dir
        loop.train(each, comm, resume=options.resume)


def _refuse_other_kind(folder: Path, of_seeds: bool) -> None:
    """Raise UsageError for a single run in a ``folder`` of runs with several seeds, which it would hide from reports.

    The same if ``of_seeds`` runs are to go to the folder of a single run.
    """
    if of_seeds and is_file(RunFolder(folder).config):
        raise UsageError(f"{folder}: found a single run, expected no --seeds or another run.dir")
    if not of_seeds and run_folders(folder) != [folder]:
        raise UsageError(f"{folder}: found runs with several seeds, expected --seeds or another run.dir")


def _show(job: Job) -> None:
    """Print all keys; warn of the first file that cannot be read, as it may be still to be made."""
    print(job.to_toml() + _program_note(job), end="", flush=True)
    try:
        check_files(job_inputs.sources(job))
    except DataError as error:
        print_message(f"warning: {error}")


def _parse_seeds(text: str) -> range:
    """The seeds of ``--seeds A..B``, both included. Raises UsageError on all ranks."""
    match = re.fullmatch(r"([0-9]{1,19})\.\.([0-9]{1,19})", text)
    first, last = (int(number) for number in match.groups()) if match else (1, 0)
    if first > last or last > MAX_SEED:
        raise raised_on_all_ranks(UsageError(f"--seeds {text}: expected A..B, whole numbers with A no larger than B"))
    return range(first, last + 1)


def _program_note(job: Job) -> str:
    """A comment on the program that the job runs; empty if it runs none."""
    if job.decoder.backend != "cdec":
        return ""
    program = resolve_program(job.decoder.binary) or f"{job.decoder.binary}, which is not there"
    return f"# This job runs {printable(program)}\n"


def run_prepare(options: argparse.Namespace, comm: Comm) -> None:
    """Build the job's store, which train would otherwise build."""
    job = load_job(options, comm)
    made = build_store(job, comm)
    told = f"{', '.join(made)} made" if made else "up to date"
    comm.on_root(print, printable(f"{job.run.store}: {told}"), flush=True)


TITLES = ("host", "ranks", "cores", "memory", "disk free", "clock", "round trip", "bandwidth", "processor")


class _Machine(NamedTuple):
    cores: int
    memory: int
    """Bytes that this program may use."""
    free: int
    """Free bytes on the disk of the run folder."""
    processor: str


def show_hosts(comm: Comm, job: Job) -> None:
    """Print a line for each host, and what is not as on rank 0's host. Collective.

    Raises UsageError on every rank if there is such a difference.
    """
    mine = None
    if comm.first_on_node:
        mine = _Machine(len(os.sched_getaffinity(0)), machine_memory(), free_space(job.run.dir), _processor())
    machines, seen, links = comm.gather(mine), look_around(comm, job), comm.links()

    def show() -> None:
        assert machines is not None and seen is not None  # rank 0 has them
        rows, ranks = [TITLES], Counter(comm.hosts)
        for rank, machine in enumerate(machines):
            if machine is not None:
                link = links.get(rank)
                network = ("", "", "")
                if link is not None:
                    speed = f"{1e6 * link.round_trip:.0f} us", f"{link.bandwidth / 1e6:.0f} MB/s"
                    network = (f"{link.clock:+.3f} s", *speed)
                name = comm.hosts[rank]
                sizes = f"{machine.memory / 1e9:.1f} GB", f"{machine.free / 1e9:.1f} GB"
                rows.append((name, str(ranks[name]), str(machine.cores), *sizes, *network, machine.processor))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = zip(row, widths, strict=True)
            print_message("  ".join(cell.ljust(width) for cell, width in cells).rstrip())
        (first_name, first), *others = seen
        wrong = [line for name, host in others for line in differences(name, host, first_name, first)]
        for line in wrong[1:]:
            print_message(line)
        if wrong:
            raise UsageError(wrong[0])

    comm.on_root(show)


def _processor() -> str:
    """The name of the processor, where the system tells it."""
    with suppress(MpituneError), open_to_read(Path("/proc/cpuinfo")) as lines:
        return next((line.split(b":")[1].strip().decode() for line in lines if line.startswith(b"model name")), "")
    return ""
