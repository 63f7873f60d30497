"""Memory of this process and of the machine, in bytes."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path


def peak_memory() -> int:
    """The largest resident memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine_memory(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """How many bytes of memory this machine has, or less where a control group (a container, a job) allows less.

    ``groups`` names this process's control groups below ``root``, where systems without them have nothing.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                file = "memory.limit_in_bytes" if controllers else "memory.max"
                folder = root / controllers / group.lstrip("/")
                for place in (folder, *folder.parents):
                    with suppress(OSError, ValueError):
                        # A group without a limit says "max", or (version 1) a number beyond all memory.
                        limits.append(int((place / file).read_text()))
    return min(limits)
