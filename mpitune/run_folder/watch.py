"""The terminal summary of running jobs: ``mpitune report --watch``."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mpitune.corpus.wording import clock
from mpitune.errors import DataError, printable
from mpitune.files import status
from mpitune.run_folder.layout import RunFolder, run_folders
from mpitune.run_folder.reader import Epoch, read_epochs, read_log
from mpitune.run_folder.run_state import (
    RunState,
    chosen_epoch,
    dense_start_is_best,
    dense_start_score,
    is_at_work,
    read_state,
)

SILENT_AFTER = 180.0
"""A run whose log is unchanged for this many seconds may have been killed: while learning, it logs every 30 s."""

INTERVAL = 2.0
"""Seconds between two readings of the run folders."""

_HEAD = ("epoch", "devtest score", "gold score", "features", "sentences/s", "time")


class Status(NamedTuple):
    """A summary of a run at one moment."""

    state: str
    ended: bool
    """True if the run has finished, stopped or failed, or was killed."""
    table: list[str]
    """A header, a line for the dense start if devtest scores it, and one per epoch; ``*`` marks the result so far."""
    epochs: list[Epoch]
    """The finished epochs: those of the last lines of ``table``."""
    now: str
    """The last message of the log."""

    def page(self, height: int) -> list[str]:
        """The summary in at most ``height`` lines, with the latest epochs that fit."""
        shown = max(height - 3, 1)
        return [self.state, *self.table[:1], *self.table[1:][-shown:], *([] if self.ended else [self.now])]

    @property
    def last(self) -> str:
        """How the run ended; while it has not, the last message."""
        return self.state if self.ended else self.now

    def news(self, before: Status | None) -> list[str]:
        """The lines about what is not in ``before``, an earlier status of the run.

        Epochs are compared, not their lines: a later epoch may take the ``*``, or widen a column.
        """
        known = before.epochs if before else []
        first = len(self.table) - len(self.epochs)
        rows = zip(self.table[first:], self.epochs, strict=True)
        lines = [*([] if known else self.table[:first]), *(row for row, epoch in rows if epoch not in known)]
        return lines if before and before.last == self.last else [*lines, self.last]


def read_status(path: Path) -> Status:
    """Read the status of the run in the folder ``path``.

    Raises DataError if it is no run folder, or for a damaged file.
    """
    folder = RunFolder(path)
    log = status(folder.log)
    if log is None:
        raise DataError(f"{path}: found no log.txt, expected the folder of a run")
    log_lines, epochs = read_log(folder.log), read_epochs(folder.metrics)
    state = read_state(folder)
    planned = f" of {max(state.epochs, len(epochs))}" if state and state.state != "unknown" else ""
    warnings = sum(line.level == "WARNING" for line in log_lines)
    silent = time.time() - log.st_mtime
    # Not at once: a look at the lock may keep a run that is just starting from taking it.
    killed = silent >= SILENT_AFTER and not is_at_work(folder)
    text = f"{path.resolve().name}: {len(epochs)}{planned} epochs done, {_progress(state, silent, killed)}"
    text += f"; warnings in its log: {warnings}" if warnings else ""
    ended = killed or (state is not None and state.ended)
    return Status(text, ended, _table(epochs), epochs, log_lines[-1].text if log_lines else "")


def _progress(state: RunState | None, silent: float, killed: bool) -> str:
    """Describe the state. A run without a recorded end counts as running as long as its log changes.

    ``silent``: seconds since its last change; ``killed``: no process works on it any more.
    """
    if state is not None and state.state == "done":
        return f"finished early: {state.reason}" if state.reason else "finished"
    if state is not None and state.ended:
        return f"ended: {state.reason}"
    if state is not None and state.state == "unknown":
        return f"its state is unknown: {state.reason}"
    if killed:
        return "killed: no process works on it; the same command continues it"
    return "running" if silent < SILENT_AFTER else f"silent for {clock(silent)}: is it still running?"


def follow(runs: Sequence[Path]) -> None:
    """Print the status of ``runs`` until all have ended: on a terminal as one refreshed page, else new lines only.

    Then an epoch has its line once, with a ``*`` if it was the best so far. Of a folder of several seeds, the runs of
    all. Raises as `read_status` does.
    """
    runs = [run for folder in runs for run in run_folders(folder)]
    on_terminal, told = sys.stdout.isatty(), dict[Path, Status]()
    while True:
        statuses = [read_status(run) for run in runs]
        if on_terminal:
            width, height = shutil.get_terminal_size()
            pages = [status.page((height - 1) // len(runs)) for status in statuses]
            text = "\n".join(printable(line)[:width] for page in pages for line in page)
            print(f"\x1b[H\x1b[2J{text}", flush=True)
        else:
            for run, status in zip(runs, statuses, strict=True):
                for line in status.news(told.get(run)):
                    print(printable(f"{run}: {line}" if len(runs) > 1 and line != status.state else line), flush=True)
                told[run] = status
        if all(status.ended for status in statuses):
            return
        time.sleep(INTERVAL)


def _table(epochs: Sequence[Epoch]) -> list[str]:
    if not epochs:
        return []
    history = [vars(epoch) for epoch in epochs]
    by_dense_start, dense = dense_start_is_best(history), dense_start_score(history)
    chosen = 0 if by_dense_start else chosen_epoch([epoch.devtest_score for epoch in epochs])
    rows: list[tuple[str, ...]] = [_HEAD]
    if dense is not None:
        rows.append((f"{'*' if by_dense_start else ''}dense", _score(dense, epochs[0]), "", "", "", ""))
    rows += (_row(epoch, epoch.epoch == chosen) for epoch in epochs)
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    return ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]


def _row(epoch: Epoch, chosen: bool) -> tuple[str, ...]:
    score = epoch.devtest_score
    figures = (
        "-" if score is None else _score(score, epoch),
        f"{epoch.gold:.4f}",
        f"{epoch.selected_features:,}",
        f"{epoch.rate:.3g}",
        clock(epoch.seconds),
    )
    return (f"{'*' if chosen else ''}{epoch.epoch}", *figures)


def _score(score: float, epoch: Epoch) -> str:
    """A devtest score of the run of ``epoch``."""
    return f"{score:.2f}" if epoch.devtest_metric is None else f"{score:.5g}"
