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
from mpitune.cli import warmup
from mpitune.decoder.embedded import chart, cube, kbest, matched, readout, trie
from mpitune.exchange import mixing, selection
from mpitune.exchange.comm import SerialComm
from mpitune.learner.online import averaging, columns, evidence, gram
from mpitune.metrics import bleu, chrf, ter
from mpitune.training import job_inputs
from mpitune.training.loop import train
from pathlib import Path

def compiled():
    modules = (chart, cube, kbest, matched, readout, trie, bleu, chrf, ter)
    modules += (averaging, columns, evidence, gram, mixing, selection)
    kernels = {f"{m.__name__}.{name}": f for m in modules for name, f in vars(m).items() if hasattr(f, "signatures")}
    return {name: len(kernel.signatures) for name, kernel in kernels.items()}

warmup.main()
before = compiled()
assert sum(before.values()) > 5, before
new = ("learner.online.gram._update_units", "learner.online.evidence._fill_supported")
new += ("learner.online.averaging._add_changes", "exchange.mixing._active_means")
new += ("metrics.ter._fewest", "metrics.chrf._compare", "metrics.chrf._scores")  # of mpitune evaluate
assert all(before[f"mpitune.{name}"] for name in new), before
train(job_inputs.load_job(Path(sys.argv[1]), []), SerialComm(), quiet=True)
print({name for name, count in compiled().items() if count != before[name]})
"""


@pytest.mark.parametrize("learner", [{}, {"preset": "default", "learning_rate": None}], ids=["simianer2012", "default"])
def test_a_run_after_set_up_compiles_nothing(tiny: Tiny, tmp_path: Path, learner: dict[str, Any]) -> None:
    job = tiny.job_file(tmp_path / "run", learner=learner, **DEVTEST)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, job],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")
