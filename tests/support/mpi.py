"""Python programs under mpirun, for tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def launcher() -> list[str]:
    """The start of an mpirun command line; skips the test where there is no mpirun.

    The one beside this Python comes first: it belongs to the MPI that mpi4py loads from the same place.
    """
    path = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    if path is None:
        pytest.skip("needs mpirun, beside this Python or on the PATH")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    # More ranks than cores: Open MPI wants to be asked.
    return [path, "--oversubscribe"] if "Open MPI" in version or "OpenRTE" in version else [path]


def mpirun(
    n: int, args: Sequence[str | os.PathLike[str]], timeout: float = 120.0, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python ARGS`` (with mpitune and the tests importable) as ``n`` ranks, in the repository's folder.

    ``environment`` is added to this process's own. Returns exit code, standard output and standard error; after
    ``timeout`` seconds every process of it is killed, and subprocess.TimeoutExpired raised.
    """
    command = [*launcher(), "-n", str(n), sys.executable, *(os.fspath(arg) for arg in args)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **root, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            # The whole group; launchers that give their ranks groups of their own end them when they end themselves.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
