"""What set-up compiles is what runs use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mpi import ROOT
from tiny import DEVTEST, Tiny

PROGRAM = """
import sys
from mpitune import assemble, warm
from mpitune.decoder import chart, cube, kbest, matched, readout, trie
from mpitune.exchange.comm import SerialComm
from mpitune.learner import gram
from mpitune.pairs import bleu
from mpitune.train import train
from pathlib import Path

def compiled():
    modules = (chart, cube, kbest, matched, readout, trie, gram, bleu)
    kernels = {f"{m.__name__}.{name}": f for m in modules for name, f in vars(m).items() if hasattr(f, "signatures")}
    return {name: len(kernel.signatures) for name, kernel in kernels.items()}

warm.main()
before = compiled()
assert sum(before.values()) > 5, before
train(assemble.load_job(Path(sys.argv[1]), []), SerialComm(), quiet=True)
print({name for name, count in compiled().items() if count != before[name]})
"""


def test_a_run_after_set_up_compiles_nothing(tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", **DEVTEST)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, job],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")
