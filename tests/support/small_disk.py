"""Commands that run with a small disk, and what can write small files alone."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.mpi import ROOT


def on_a_small_disk(
    folder: Path, arguments: Sequence[str | Path], blocks: int = 128, path: Sequence[Path] = (ROOT,)
) -> subprocess.CompletedProcess[str]:
    """Run a command that finds a disk of its own in ``folder``; skips where that is forbidden.

    ``path``: where it looks for Python modules.
    """
    size = blocks * os.sysconf("SC_PAGESIZE")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mounting = f'mount -t tmpfs -o size={size} tmpfs "$1" && shift && exec "$@"'
    alone = [shutil.which("unshare") or "unshare", *user, "--mount", "sh", "-c", mounting, "sh", str(folder)]

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)

    try:
        tried = run([*alone, "true"])
    except FileNotFoundError:
        pytest.skip("needs unshare, to mount a small disk for one process")
    if tried.returncode:
        pytest.skip(f"needs the right to mount a small disk: {tried.stderr.strip()}")
    return run([*alone, *map(str, arguments)])


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process becomes larger than so many bytes: writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
