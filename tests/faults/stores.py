"""Bits that flip in the files of a store. ``python -m faults.stores TASK COUNT SEED`` prints what came of it as JSON.

The flips are done in a process of its own, as a damaged file may end whoever reads it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.mpi import ROOT

from faults.task import Outcome, Task
from mpitune.cli.parser import main as mpitune
from mpitune.extraction import sentences


def flipped_bits(task: Task, start: list[str], count: int = 100, whole: int = 3) -> Iterator[Outcome]:
    """``count`` flips before commands that read the store, and one before each of ``whole`` runs that learn from it."""
    arguments = [sys.executable, "-m", "faults.stores", str(task.folder), str(count), "1"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, f"exit code {done.returncode} after {done.stdout}\n{done.stderr}"
    for line in done.stdout.splitlines():
        name, same = json.loads(line)
        yield Outcome(f"a bit flips in {name}", 0, same, 0, 0.0)
    drawn = random.Random(1)
    for name in ("data.npz", "lm-0.npz")[:whole]:
        run = task.new() / "run"
        shutil.copytree(task.folder / "whole" / "store", run / "store")
        _flip(run / "store" / name, drawn)
        yield Outcome("a run over a store with a flipped bit", 0, task.ends_the_same(run, start), 0, 0.0)


def _flip(path: Path, drawn: random.Random) -> None:
    content = bytearray(path.read_bytes())
    bit = drawn.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def _main(task: Path, count: int, seed: int) -> None:
    """Flip a bit, run a command that reads the file, and print whether its output and the store are as they were."""
    sentences.SMALLEST_ITEM = 1  # as in the run that made the store
    drawn, run = random.Random(seed), task / f"flips-{seed}"
    shutil.copytree(task / "whole", run)
    job, output = [str(task / "job.toml"), "--set", f"run.dir={run}"], run / "output"
    decode = ["decode", *job, "--input", str(task / "dev.de"), "--output", str(output)]
    assert (mpitune(["prepare", *job]), mpitune(decode)) == (0, 0)
    sound = _contents(run / "store") | {"output": output.read_bytes()}
    for _ in range(count):
        name = drawn.choice(sorted(name for name in sound if name.endswith(".npz")))
        _flip(run / "store" / name, drawn)
        if name == "bitext.npz":
            # It is read if grammars must be extracted.
            shutil.rmtree(run / "store" / "decode")
        assert (mpitune(["prepare", *job]), mpitune(decode)) == (0, 0), name
        same = _contents(run / "store") | {"output": output.read_bytes()} == sound
        print(json.dumps([name.rpartition("/")[2], same]), file=sys.__stdout__, flush=True)


def _contents(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*.npz")}


if __name__ == "__main__":
    sys.stdout = sys.stderr
    _main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
