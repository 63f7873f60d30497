"""The state of a run: status.json, the epoch whose weights are the result so far, the versions that it runs with.

Rank 0 writes ``status.json`` at the start, after each epoch and at the end. A process that is killed cannot record its
end: its folder then still says ``running``.
"""

from __future__ import annotations

import fcntl
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal, get_args

from mpitune import __version__
from mpitune.corpus.lines import check_readable, read_text
from mpitune.errors import DataError, StopRequested
from mpitune.files import is_file
from mpitune.ownership import LOCK
from mpitune.run_folder.layout import RunFolder

VERSION = 1
"""Raised whenever the meaning of a key changes; a file of another version tells nothing."""

AVERAGING = ("sgd", "mix")
"""The algorithms that publish the average over the epochs so far (Simianer, Riezler and Dyer, ACL 2012, section 5)."""

LIBRARIES = ("numpy", "scipy", "numba", "mpi4py", "h5py", "sacrebleu")

RecordedState = Literal["running", "stopped", "done", "failed"]
"""``stopped``: on request, to be resumed; ``failed``: by an error."""
StateName = Literal[RecordedState, "unknown"]
"""``unknown``: the record is damaged, or of another version."""


@dataclass(frozen=True)
class RunState:
    """The state of a run at the time of writing."""

    state: StateName
    epoch: int
    """Number of finished epochs."""
    epochs: int
    """Number of epochs that the job asks for."""
    reason: str = ""
    """The error, the stop request, why ``done`` came before the last epoch, why it is ``unknown``; else empty."""
    when: str = ""
    """Time of writing, ISO 8601 in UTC."""

    @property
    def ended(self) -> bool:
        """True if the process has recorded its end."""
        return self.state in ("stopped", "done", "failed")


def write_state(folder: RunFolder, state: StateName, epochs: int, epoch: int | None = None, reason: str = "") -> None:
    """Record ``state``; ``epoch`` None: the epoch of the last record. Raises MachineError if it cannot be written."""
    epoch = _last_epoch(folder) if epoch is None else epoch
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = {"version": VERSION, **asdict(RunState(state, epoch, epochs, reason, now))}
    folder.write_status(json.dumps(record) + "\n")


def write_error(
    folder: RunFolder, epochs: int, error: BaseException, check: Callable[[], None], earlier: RunState | None = None
) -> None:
    """Record that ``error`` ends the run; or ``earlier``, how it had ended before a command that was refused.

    Does nothing if ``check`` raises (another run owns the folder by now) or the file cannot be written (disk full).
    """
    state: StateName = "stopped" if isinstance(error, StopRequested | KeyboardInterrupt) else "failed"
    with suppress(Exception):
        check()
        if earlier is None:
            write_state(folder, state, epochs, reason=str(error) or type(error).__name__)
        else:
            write_state(folder, earlier.state, earlier.epochs, earlier.epoch, earlier.reason)


def ended_state(folder: RunFolder) -> RunState | None:
    """How the run in ``folder`` has ended; None if it has not, or its record is damaged or cannot be read."""
    with suppress(DataError):
        if (state := read_state(folder)) is not None and state.ended:
            return state
    return None


def read_state(folder: RunFolder) -> RunState | None:
    """The recorded state; None for a run that has just begun. Raises DataError for a file that cannot be read."""
    if not is_file(folder.status):
        return None
    check_readable(folder.status)
    found, expected = "a damaged file", "the status of a run"
    with suppress(DataError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        record = json.loads(read_text(folder.status))
        version = record.pop("version")
        if version == VERSION and _is_valid(state := RunState(**record)):
            return state
        if version != VERSION:
            found, expected = f"version {version!r:.20}", f"version {VERSION}"
    return RunState("unknown", 0, 0, str(DataError.at(folder.status, None, found=found, expected=expected)))


def _is_valid(state: RunState) -> bool:
    """True if the fields have the types and the range of those that `write_state` writes."""
    numbers, texts = (state.epoch, state.epochs), (state.state, state.reason, state.when)
    return (
        all(type(number) is int and 0 <= number < 2**63 for number in numbers)
        and all(isinstance(text, str) for text in texts)
        and state.state in get_args(RecordedState)
    )


def is_at_work(folder: RunFolder) -> bool:
    """True if a process holds the lock of the folder (`mpitune.ownership`), or if that cannot be told."""
    try:
        with open(folder.path / LOCK, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _last_epoch(folder: RunFolder) -> int:
    """The epoch of the last record; 0 without one, or with one that tells nothing, which is about to be replaced."""
    try:
        last = read_state(folder)
    except DataError:
        return 0
    return last.epoch if last else 0


def devtest_scores(history: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """The ``learner.metric`` of the devtest set after each epoch, from ``history``; None without a devtest set."""
    return [_tuned(metrics, "") for metrics in history]


def dense_start_score(history: Sequence[Mapping[str, Any]]) -> float | None:
    """The same after the dense start, on which the epochs learn sparse features; None if there is none."""
    return _tuned(history[0], "_dense") if history else None


def _tuned(metrics: Mapping[str, Any], when: str) -> float | None:
    """The score in ``metrics`` that weights are selected by; ``when``: the end of its key."""
    tuned = "bleu" if metrics["devtest_metric"] is None else "metric"
    score: float | None = metrics.get(f"devtest_{tuned}{when}")
    return score


def chosen_epoch(scores: Sequence[float | None]) -> int:
    """The epoch, from 1, whose weights are the result: the earliest of the best on devtest; 0 if there is no epoch yet.

    ``scores``: one per epoch. Without a devtest set they are None, and the last epoch is chosen.
    """
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return len(scores)
    return 1 + known.index(max(known))


def dense_start_is_best(history: Sequence[Mapping[str, Any]]) -> bool:
    """True if all epochs so far are worse on devtest than the dense start: its weights are the result then.

    ``history``: their metrics. Never true without sparse features or without a devtest set.
    """
    dense = dense_start_score(history)
    return dense is not None and all(score is None or score < dense for score in devtest_scores(history))


def versions() -> dict[str, str]:
    """Names and versions, mpitune first."""
    found = {"mpitune": __version__, "Python": platform.python_version()}
    return found | {library: version(library) for library in LIBRARIES}
