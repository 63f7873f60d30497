"""The scripts of tests/bench run; what they measure is for people to read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tiny import Tiny


def test_stages(tiny: Tiny, tmp_path: Path) -> None:
    script = Path(__file__).parent / "bench" / "stages.py"
    done = subprocess.run(
        [sys.executable, script, tiny.job_file(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    stages = [line.split()[0] for line in done.stdout.splitlines()[-3:]]
    assert stages == ["1-best", "k-best", "learning"]
