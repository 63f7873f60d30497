"""The job that faults are done to, what it leaves where nothing disturbs it, and how the two are compared."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import h5py
from support.tiny import write_data

from faults.world import WHOLE, World
from mpitune.errors import DataError
from mpitune.run_folder.checkpoint import read_checkpoint

RANKS = 3
EPOCHS = 8
SHARDS = 6
TIMEOUT = 30
"""Seconds of silence after which a rank is lost."""
JOB = f"""[data]
source = "train.de"
references = ["train.en", "train.en2"]
[data.devtest]
source = "dev.de"
references = ["dev.en"]
[grammar]
source = "train.de"
target = "train.en"
alignment = "links"
leave_one_out = true
[[lm]]
file = "lm.arpa"
[decoder]
kbest = 30
pop_limit = 30
[features]
templates = ["id", "source-bigram", "shape"]
[learner]
preset = "simianer2012"
epochs = {EPOCHS}
patience = 0
learning_rate = 0.0078125
[parallel]
shards = {SHARDS}
timeout = {TIMEOUT}
[select]
k = 40
"""
"""All that a run can go through: grammars extracted, a language model read, shards kept, a devtest set decoded."""


class Outcome(NamedTuple):
    """What came of one fault."""

    kind: str
    lost: int
    """Epochs that were finished and are no more."""
    same: bool
    """Whether all that was left then, and all that the resumed run ended with, is what an undisturbed run makes."""
    left: int
    """Processes that were still there after `world.LIMIT` seconds."""
    seconds: float
    """Until all were gone."""

    @property
    def well(self) -> bool:
        """Whether the fault did no harm."""
        return self.same and not self.lost and not self.left


class Task:
    """The job's files in a folder, and what a run over them on one process leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_data(folder)
        pairs = zip(*((folder / f"train.{end}").read_text().splitlines() for end in ("de", "en")), strict=True)
        links = [
            [f"{i}-{min(i, len(target.split()) - 1)}" for i in range(len(source.split())) if target]
            for source, target in pairs
        ]
        (folder / "links").write_text("".join(" ".join(line) + "\n" for line in links))
        (folder / "job.toml").write_text(JOB)
        with World(1, self.train(folder / "whole"), folder) as world:
            left, _ = world.end(WHOLE)
            assert (world.code, left) == (0, 0), world.said
        self.whole = contents(folder / "whole")

    def new(self) -> Path:
        """A new folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def train(self, run: Path, *more: str) -> list[str]:
        """The arguments that train in the folder ``run``."""
        return ["train", str(self.folder / "job.toml"), "--quiet", "--set", f"run.dir={run}", *more]

    def ends_the_same(self, run: Path, start: list[str]) -> bool:
        """Run the job to its end in ``run``; whether it then is as if nothing had ever disturbed it, without scraps."""
        with World(RANKS, self.train(run), self.folder, start=start) as world:
            left, _ = world.end(WHOLE)
            assert (world.code, left) == (0, 0), world.said
        return differences(contents(run), self.whole) == [] and scraps(run) == []

    def sound(self, run: Path) -> bool:
        """Whether each checkpoint in ``run`` is whole, and that of an undisturbed run."""
        found = contents(run)
        return all(found[name] == self.whole.get(name) for name in found if name.startswith("checkpoints/"))


def finished(run: Path) -> int:
    """The last of the epochs that have a checkpoint, which may be damaged."""
    return max([0, *(int(path.stem[-4:]) for path in (run / "checkpoints").glob("epoch-*.h5"))])


def contents(run: Path) -> dict[str, bytes]:
    """All that a run leaves and that depends on nothing but the job, by path; of the store, only the names of files."""
    found = {}
    for path in run.rglob("*"):
        name = path.relative_to(run).as_posix()
        if (
            not path.is_file()
            or name in ("log.txt", "status.json", "lock")
            or re.search(r"\.shards/|part$|parts/part-", name)
        ):
            continue
        found[name] = b"" if name.startswith("store/") else _content(path, run)
    return found


def scraps(run: Path) -> list[str]:
    """Files that only a run at work has."""
    return sorted(path.name for path in run.rglob("*") if re.search(r"\.shards$|part$|^part-", path.name))


def differences(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def _content(path: Path, run: Path) -> bytes:
    if path.suffix == ".h5":
        try:
            read_checkpoint(path)
        except DataError as error:
            return str(error).encode()
        with h5py.File(path) as file:
            return repr([(name, _arrays(file[name])) for name in sorted(_datasets(file))]).encode()
    if path.name == "metrics.jsonl":
        epochs = [json.loads(line) for line in path.read_text().splitlines()]
        timed = ("seconds", "bytes", "timeline")
        timeless = [{k: v for k, v in epoch.items() if not k.endswith(timed)} for epoch in epochs]
        return json.dumps(timeless).encode()
    if path.name == "config.toml":
        return path.read_bytes().replace(str(run).encode(), b"RUN")
    return path.read_bytes()


def _datasets(file: h5py.File) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
    return names


def _arrays(dataset: h5py.Dataset) -> bytes:
    array = dataset[:]
    return b"\n".join(array.tolist()) if array.dtype == object else bytes(array.tobytes())


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """What came of all faults, kind by kind."""
    kinds: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.kind, []).append(outcome)
    rows = [("fault", "tried", "epochs lost", "same bits", "processes left", "longest until gone")]
    for kind, of_kind in kinds.items():
        same = sum(outcome.same for outcome in of_kind)
        rows.append(
            (
                kind,
                str(len(of_kind)),
                str(sum(outcome.lost for outcome in of_kind)),
                "all" if same == len(of_kind) else f"{same} of {len(of_kind)}",
                str(sum(outcome.left for outcome in of_kind)),
                f"{max(outcome.seconds for outcome in of_kind):.1f} s",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
