"""The public job: what to tune, on which data, and how."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mpitune.config import load, spec
from mpitune.errors import UsageError
from mpitune.exchange.comm import Comm
from mpitune.files import check_place
from mpitune.ownership import reads
from mpitune.schema import entries, set_key, values
from mpitune.training import job_inputs

UNNAMED = Path("job")
"""Stands for the file of a job that comes from none: in messages, and in the default of ``run.dir``."""


class Job:
    """A job, checked as on the command line.

    >>> job = Job(data={"source": "corpus.de", "references": ["corpus.en"]}, learner={"epochs": 3})
    >>> job["learner.epochs"], job.keys.learner.epochs, job["decoder.kbest"]
    (3, 3, 100)
    >>> job.replace({"learner.epochs": 5})["learner.epochs"]
    5
    """

    def __init__(self, given: str | os.PathLike[str] | Mapping[str, Any] | None = None, /, **tables: Any) -> None:
        """The job of a TOML file or a mapping like one; ``tables`` add to it or replace keys of it.

        Keys are those of jobs/example.toml. Relative paths start from the folder of the file, or, without one, from the
        working folder. Raises UsageError for an unknown key or a value that is not allowed.
        """
        origin = UNNAMED
        raw: dict[str, Any] = {}
        if isinstance(given, str | os.PathLike):
            origin = Path(given)
            raw = load.tables_in(origin)
        elif given is not None:
            raw = _plain(given)
        for table, value in tables.items():
            _merge(raw, table, _plain(value))
        self._open(raw, origin)

    def _open(self, raw: dict[str, Any], origin: Path) -> None:
        self._raw, self._origin = raw, origin
        self.keys: spec.Job = job_inputs.completed(load.checked(copy.deepcopy(raw), origin))
        """All keys, a dataclass for each table."""

    def replace(self, keys: Mapping[str, Any] | None = None, /, **tables: Any) -> Job:
        """The job with other values of dotted ``keys``, and of the keys of ``tables``; what follows from them, too.

        >>> job = Job(data={"bitext": "corpus"}, run={"dir": "a"})
        >>> job.replace({"run.dir": "b"}, learner={"method": "mira"})["learner.epochs"]
        20
        """
        raw = copy.deepcopy(self._raw)
        for table, value in tables.items():
            _merge(raw, table, _plain(value))
        for key, value in (keys or {}).items():
            set_key(raw, key, _plain(value))
        changed = object.__new__(Job)
        changed._open(raw, self._origin)
        return changed

    def __getitem__(self, key: str) -> Any:
        """The value of a dotted key. Raises KeyError for one that there is not."""
        return self._values[key]

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {entry.key: entry.value for entry in entries(self.keys)}

    def to_toml(self) -> str:
        """All keys and their values, as a job file."""
        return self.keys.to_toml()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __repr__(self) -> str:
        return f"<mpitune.Job {self._origin}, run.dir {self.keys.run.dir}>"


def as_job(given: Job | str | os.PathLike[str] | Mapping[str, Any]) -> Job:
    """``given``, or the job that it describes."""
    return given if isinstance(given, Job) else Job(given)


def note(job: spec.Job, comm: Comm) -> None:
    """Note the files that ``job`` names as inputs, and the job file, unless it is the configuration of its own run.

    Raises UsageError where one of them is to be replaced, or for folders that cannot be written to.
    """
    for folder in (job.run.dir, job.run.store):
        comm.on_root(check_place, folder)
    named = [path for _, kind, value in values(job) if kind is Path for path in _listed(value)]
    comm.on_root(reads, [path for path in named if path not in (job.run.dir, job.run.store)])
    if not comm.on_root(job_inputs.is_configuration, job):
        comm.on_root(reads, [job.file])
    comm.set_timeout(job.parallel.timeout)


def _listed(value: Path | Sequence[Path] | None) -> Sequence[Path]:
    return [value] if isinstance(value, Path) else value or []


def _merge(raw: dict[str, Any], table: str, value: Any) -> None:
    """Set the keys ``value`` of a ``table``, or the value of a key, in ``raw``."""
    if isinstance(value, dict) and isinstance(raw.get(table), dict):
        for key, inner in value.items():
            _merge(raw[table], key, inner)
    else:
        raw[table] = value


def _plain(value: Any) -> Any:
    """``value`` in the types that tomllib reads."""
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise UsageError.at(UNNAMED, found=f"the key {name!r}", expected="a string")
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value
