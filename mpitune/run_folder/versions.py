"""Versions of mpitune, Python and the libraries that results may depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version

from mpitune import __version__

LIBRARIES = ("numpy", "scipy", "numba", "mpi4py", "h5py", "sacrebleu")


def versions() -> dict[str, str]:
    """Names and versions, mpitune first."""
    found = {"mpitune": __version__, "Python": platform.python_version()}
    return found | {library: version(library) for library in LIBRARIES}
