"""Folders of somebody else, which this process may only read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SOMEBODY = 12345
"""The id of a user who need not exist."""
_PRIVILEGES = "-dac_override,-dac_read_search,-fowner"


@contextmanager
def read_only(folder: Path) -> Iterator[list[str]]:
    """While all in ``folder`` may only be read; gives the beginning of a command that has no more rights than others.

    Root gives it to another user, and skips where root may not give up its rights; other users make it read-only.
    """
    paths = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    command: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv, for root to give up its rights")
        command = ["setpriv", f"--bounding-set={_PRIVILEGES}", f"--inh-caps={_PRIVILEGES}"]
        for path in paths:
            os.chown(path, _SOMEBODY, _SOMEBODY)
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield command
    finally:
        for path in paths:
            path.chmod(modes[path])
            if os.geteuid() == 0:
                os.chown(path, 0, 0)
