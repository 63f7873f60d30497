"""The public names: their signatures, their documented examples, and that importing them has no effect."""

from __future__ import annotations

import doctest
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from support.mpi import ROOT

import mpitune

SIGNATURES = Path(__file__).with_name("signatures.txt")

WITHOUT_EFFECT = """
import os, signal, sys, logging
def state():
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return dict(os.environ), handlers, list(logging.root.handlers), signal.getitimer(signal.ITIMER_REAL)
before = state()
import mpitune
loaded = {name.split(".")[0] for name in sys.modules} & {"numpy", "numba", "scipy", "h5py", "mpi4py", "matplotlib"}
assert not loaded, loaded
for name in mpitune.__all__:
    getattr(mpitune, name)
assert state() == before
assert "mpi4py" not in sys.modules and "matplotlib" not in sys.modules
"""


def _signatures() -> Iterator[str]:
    """A line for each public function, class, method and property."""
    for name in mpitune.__all__:
        of = getattr(mpitune, name)
        if inspect.isfunction(of):
            yield f"{name}{inspect.signature(of)}"
            continue
        yield f"{name}({', '.join(base.__name__ for base in of.__bases__)})"
        for member, value in sorted(vars(of).items()):
            function = value.__func__ if isinstance(value, classmethod) else value
            if member.startswith("_") and member != "__init__":
                continue
            if inspect.isfunction(function):
                yield f"{name}.{member}{inspect.signature(function)}"
            else:
                yield f"{name}.{member}"


def test_signatures_change_only_on_purpose() -> None:
    """What is removed or changed breaks programs of users: raise the version, and write this file anew."""
    assert list(_signatures()) == SIGNATURES.read_text().splitlines()


def test_importing_has_no_effect() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EFFECT],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'mpitune' has no attribute 'tran'"):
        mpitune.tran  # noqa: B018
    assert set(mpitune.__all__) <= set(dir(mpitune))


@pytest.mark.parametrize("module", ["decoder", "extraction", "job", "lists", "runs", "tools", "weights"])
def test_documented_examples(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(import_module(f"mpitune.api.{module}"))
    assert found.failed == 0
