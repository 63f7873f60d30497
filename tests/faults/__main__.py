"""``python -m faults``: all faults, and a table of what came of them; exit code 1 where one did not go as it should."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mpi import ROOT
from support.small_disk import on_a_small_disk

from faults.kills import draw, kills
from faults.others import BY_ITSELF, OUTSIDE
from faults.task import Outcome, Task, table
from faults.world import launchers


def main() -> int:
    parser = argparse.ArgumentParser(description="Faults done to whole runs, and a table of what came of them.")
    parser.add_argument("--kills", type=int, default=50, help="how many ranks and launchers get a signal")
    parser.add_argument("--kills-only", action="store_true", help="no other faults")
    parser.add_argument("--seed", type=int, default=1, help="decides which of them, when, and what signal")
    options = parser.parse_args()
    starts = launchers()
    print("launchers:", ", ".join(start[0] for start in starts), flush=True)
    outcomes: list[Outcome] = []
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        task = Task(Path(name))
        attempts = [kills(task, draw(options.kills, options.seed), starts)]
        if not options.kills_only:
            attempts += [full_disk(task.new()), *(fault(task, starts[0]) for fault in OUTSIDE)]
            attempts += [fault(task, start) for start in starts for fault in BY_ITSELF]
        for attempt in attempts:
            try:
                for outcome in attempt:
                    outcomes.append(outcome)
                    print(".", end="", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"\n{error}", flush=True)
    print("\n" + "\n".join(table(outcomes)))
    return int(failed > 0 or not all(outcome.well for outcome in outcomes))


def full_disk(folder: Path) -> Iterator[Outcome]:
    """The outcomes of `faults.disk`, where this machine lets us mount a small disk."""
    (folder / "disk").mkdir()
    command = [sys.executable, "-m", "faults.disk", folder, folder / "disk" / "run"]
    try:
        done = on_a_small_disk(folder / "disk", command, blocks=1024, path=[ROOT, ROOT / "tests"])
    except pytest.skip.Exception as reason:
        print(f"\nfull disk: not tried: {reason}")
        return
    assert done.returncode == 0, done.stderr
    yield from (Outcome(*outcome) for outcome in json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
