"""``train_jobs.py JOB.toml ...``: trains one job after the other in the same processes, mostly under mpirun."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mpitune.exchange.comm import connect
from mpitune.training import job_inputs
from mpitune.training.loop import train

if __name__ == "__main__":
    # As in `conftest.py`: no waiting for the disk.
    os.fsync = lambda _: None
    comm = connect()
    for job in sys.argv[1:]:
        train(job_inputs.load_job(Path(job), []), comm)
