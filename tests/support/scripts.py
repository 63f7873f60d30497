"""The scripts in the folders of jobs/, imported as they import each other."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from support.mpi import ROOT


@contextmanager
def scripts_in(folder: str) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a script of this folder of jobs/ by its name; all that were imported are forgotten at the end."""
    path, before = ROOT / "jobs" / folder, set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path))
        yield importlib.import_module
        for name in {file.stem for file in path.glob("*.py")} & (set(sys.modules) - before):
            del sys.modules[name]
