"""``python -m faults.disk TASK RUN``: fills the disk that RUN lies on while ranks train there.

To be run where RUN's parent is a small disk of its own; prints what came of it as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from faults.others import told
from faults.task import RANKS, Outcome, Task, finished
from faults.world import World, launchers
from mpitune.errors import MachineError


def main() -> None:
    task, run = Task(Path(sys.argv[1])), Path(sys.argv[2])
    print(json.dumps(list(filled(task, run, launchers()[0]))))


def filled(task: Task, run: Path, start: list[str]) -> Iterator[Outcome]:
    """The disk of ``run`` is filled at some step, and emptied before the run's next life."""
    filler, outcomes = run.parent / "filler", []
    for place in ("checkpoint written/2", "shard kept/3", "devtest decoded/2"):
        with World(RANKS, task.train(run), task.folder, start=start, fault=f"0/{place}/stop") as world:
            with world.at_rest(), open(filler, "wb") as file:
                before = finished(run)
                _fill(file.fileno())
            left, seconds = world.end()
            assert world.code == MachineError.exit_code, world.said
            lines = told(world.said)
            assert lines and all("No space left on device" in line for line in lines), world.said
            assert "Traceback" not in world.said
        filler.unlink()
        outcomes.append(Outcome("full disk", max(before - finished(run), 0), task.sound(run), left, seconds))
    same = task.ends_the_same(run, start)
    yield from (outcome._replace(same=outcome.same and same) for outcome in outcomes)


def _fill(file: int) -> None:
    """Give all room there is to a file."""
    disk = os.statvfs(file)
    os.posix_fallocate(file, 0, disk.f_bavail * disk.f_frsize)


if __name__ == "__main__":
    main()
