"""Memory of this process and of the machine, in bytes."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine_memory(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory of this machine in bytes, or the smaller limit of a control group (a container, a batch job).

    ``groups`` lists the control groups of this process, as folders below ``root``; systems without control groups have
    no such file.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                file = "memory.limit_in_bytes" if controllers else "memory.max"
                folder = root / controllers / group.lstrip("/")
                for group_folder in (folder, *folder.parents):
                    with suppress(OSError, ValueError):
                        # A group without a limit contains "max", or (version 1) a number larger than any memory.
                        limits.append(int((group_folder / file).read_text()))
    return min(limits)
