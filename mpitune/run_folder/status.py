"""How a run is getting on, from what it has written so far: for whoever looks in from another shell."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mpitune.corpus.text import clock, lines
from mpitune.errors import UsageError
from mpitune.run_folder.best_epoch import chosen_epoch, early_end
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.reader import Epoch, read_epochs, read_log, setting

SILENT = 180.0
"""Seconds after which a run that says nothing is asked about: while it learns, it speaks every 30."""

EVERY = 2.0
"""Seconds between two looks at runs that are followed."""

_HEAD = ("epoch", "devtest BLEU", "gold score", "features", "sentences/s", "time")


class Status(NamedTuple):
    """A run at a moment."""

    state: str
    ended: bool
    """Whether there is nothing more to come."""
    table: list[str]
    """A heading, and a line for each epoch; ``*`` marks the one whose weights are the result so far."""
    now: str
    """What the run said last."""

    def page(self, height: int) -> list[str]:
        """All of it in ``height`` lines: of the epochs, those that fit."""
        room = max(height - 3, 1)
        return [self.state, *self.table[:1], *self.table[1:][-room:], *([] if self.ended else [self.now])]


def read_status(path: Path) -> Status:
    """The status of the run in the folder ``path``.

    Raises UsageError where that is no run folder, DataError for damaged metrics.
    """
    folder, config, log = RunFolder(path), path / "config.toml", path / "log.txt"
    if not log.is_file():
        raise UsageError(f"{path}: found no log.txt, expected the folder of a run")
    said = read_log(log)
    last = said[-1] if said else None
    epochs, planned, vain = read_epochs(folder.metrics), "", 0
    if config.is_file():
        text = "".join(f"{line}\n" for _, line in lines(config))
        asked = int(setting(config, text, "learner", "epochs"))
        patience = int(setting(config, text, "learner", "patience", 0))
        planned = f" of {asked}"
        vain = early_end([epoch.devtest_bleu for epoch in epochs], asked, patience)
    silent = time.time() - log.stat().st_mtime
    ended = last is not None and (last.level == "ERROR" or last.text.startswith("done: "))
    if last is not None and ended:
        how = f"finished early: no better devtest BLEU in {_count(vain)}" if vain else "finished"
        how = how if last.level != "ERROR" else f"ended: {last.text}"
    else:
        how = "running" if silent < SILENT else f"silent for {clock(silent)}: is it still running?"
    warnings = sum(line.level == "WARNING" for line in said)
    name = path.resolve().name
    state = f"{name}: {len(epochs)}{planned} epochs done, {how}" + (
        f"; warnings in its log: {warnings}" if warnings else ""
    )
    return Status(state, ended, _table(epochs), last.text if last else "")


def follow(runs: Sequence[Path]) -> None:
    """Print how runs are getting on until all have ended: on a terminal a page kept up to date, else what is new.

    Raises as `read_status` does.
    """
    on_terminal, told = sys.stdout.isatty(), set[tuple[Path, str]]()
    while True:
        statuses = [read_status(run) for run in runs]
        if on_terminal:
            width, height = shutil.get_terminal_size()
            pages = [status.page((height - 1) // len(runs)) for status in statuses]
            text = "\n".join(line[:width] for page in pages for line in page)
            print(f"\x1b[H\x1b[2J{text}", flush=True)
        else:
            for run, status in zip(runs, statuses, strict=True):
                for line in (*status.table, status.state if status.ended else status.now):
                    if (run, line) not in told:
                        print(f"{run}: {line}" if len(runs) > 1 and line != status.state else line, flush=True)
                        told.add((run, line))
        if all(status.ended for status in statuses):
            return
        time.sleep(EVERY)


def _table(epochs: Sequence[Epoch]) -> list[str]:
    if not epochs:
        return []
    chosen = chosen_epoch([epoch.devtest_bleu for epoch in epochs])
    rows = [_HEAD, *(_row(epoch, epoch.epoch == chosen) for epoch in epochs)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _count(epochs: int) -> str:
    return f"{epochs} epoch{'s' if epochs > 1 else ''}"


def _row(epoch: Epoch, chosen: bool) -> tuple[str, ...]:
    bleu = "-" if epoch.devtest_bleu is None else f"{epoch.devtest_bleu:.2f}"
    figures = (bleu, f"{epoch.gold:.4f}", f"{epoch.selected_features:,}", f"{epoch.rate:.3g}", clock(epoch.seconds))
    return (f"{'*' if chosen else ''}{epoch.epoch}", *figures)
