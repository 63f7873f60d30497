"""The hosts of a run, in a table: what they are, how far from rank 0, and what is not as on rank 0's."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mpitune.cli.output import print_message
from mpitune.config.spec import Job
from mpitune.errors import MpituneError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.files import free_space, open_to_read
from mpitune.runtime.memory import machine_memory
from mpitune.training.hosts import differences, look_around

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
