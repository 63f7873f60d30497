"""The list of kernels that are compiled ahead of use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.mpi import ROOT

from mpitune.jit import kernel, listed
from mpitune.jit.compiler import Kernel

only_compiled = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")

MOST_TRANSLATED = 320
"""Functions, and versions of them: each takes a tenth of a second to compile."""

RECORD = """
import sys
from pathlib import Path
from numba.core import event
from mpitune.cli import warmup
from mpitune.jit import listed

listed.LIST = Path(sys.argv[1])
with event.install_recorder("numba:compile") as recorder:
    warmup.record_kernels()
kernels = [each._kernel for each in listed.listed_kernels()]
assert all(each._types in kernel.overloads for kernel, each in zip(kernels, listed.listed_kernels()))
print(sum(seen.is_start for _, seen in recorder.buffer))
"""


@only_compiled
@pytest.mark.slow
def test_the_list_is_what_training_and_scoring_call(tmp_path: Path) -> None:
    """And few functions are translated, so that compilation stays fast."""
    command = [sys.executable, "-c", RECORD, tmp_path / "recorded"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    recorded, known = (sorted(file.read_text().splitlines()) for file in (tmp_path / "recorded", listed.LIST))
    assert recorded == known, "make it anew: python -m mpitune.cli.warmup --record"
    assert int(done.stdout) <= MOST_TRANSLATED


@only_compiled
def test_types_are_described_in_full() -> None:
    own = kernel(lambda a, b, c, d: a[0] + b + c[0] + d[0]["x"])
    assert isinstance(own, Kernel)
    read_only = np.zeros(2, np.float32)
    read_only.setflags(write=False)
    records = np.zeros(1, np.dtype([("x", "<i4"), ("y", "<f8")], align=True))
    own(read_only, np.uint64(3), (1, 2.5), records)
    [types] = own.overloads
    described = [listed.describe(kind) for kind in types]
    fields = [["x", "<i4"], ["y", "<f8"]]
    assert described == [["float32", 1, "read-only"], "uint64", {"": ["int64", "float64"]}, [fields, 1, "aligned"]]
    assert listed.Listed("", described)._types == types


def test_kernels_are_left_out_by_package() -> None:
    names = [each.name for each in listed.listed_kernels()]
    some = [each.name for each in listed.listed_kernels(["mpitune.extraction", "mpitune.decoder.embedded"])]
    assert 0 < len(some) < len(names)
    assert some == [name for name in names if not name.startswith(("mpitune.extraction.", "mpitune.decoder.embedded."))]
    assert names[:3] == [json.loads(line)[0] for line in listed.LIST.read_text().splitlines()[:3]]
