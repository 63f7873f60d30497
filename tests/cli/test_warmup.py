"""What set-up compiles is what runs use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.mpi import ROOT
from support.tiny import DEVTEST, Tiny

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
from numba.core import event
from mpitune.exchange.comm import SerialComm
from mpitune.jit.compiler import COMPILED
from mpitune.training import job_inputs
from mpitune.training.loop import train

with event.install_recorder(COMPILED) as recorder:
    train(job_inputs.load_job(Path(sys.argv[1]), []), SerialComm())
print({seen.data["kernel"] for _, seen in recorder.buffer})
"""


@pytest.mark.parametrize("learner", [{}, {"preset": "default", "learning_rate": None}], ids=["simianer2012", "default"])
def test_a_run_after_set_up_compiles_nothing(tiny: Tiny, tmp_path: Path, learner: dict[str, Any]) -> None:
    job = tiny.job_file(tmp_path / "run", learner=learner, **DEVTEST)
    subprocess.run([sys.executable, "-m", "mpitune.cli.warmup"], cwd=ROOT, check=True, capture_output=True, timeout=300)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, job],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")
