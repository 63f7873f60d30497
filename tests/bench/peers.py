"""mpitune beside cdec and its trainer dtrain, where they are on the PATH: CPU time, and model scores of what is found.

    python tests/bench/peers.py [--passes N] [--small]

Data come from the folder MPITUNE_DATA; weights, k-best lists of cdec and per-sentence grammars from the folder golden
beside it. Times are CPU milliseconds a sentence on one core, medians over passes in turns (A B A B). What a start takes
counts on neither side: from the reference's time that of a run over the first sentence alone is subtracted, ours is
taken of the other sentences in a process that has its kernels. What compiling these takes is told below the table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from tools import quality
from tools.cdec import Reference
from tools.measure import in_turns, print_table, run
from tools.ours import K, Ours, Task, multi30k, news_commentary

POP_LIMITS = (10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 80, 100, 150, 200, 300, 500)
"""Tried in turn against the incremental search."""
TITLES = ("work", "reference", "ours", "ratio (worst to best pass)", "wanted")


class Row(NamedTuple):
    """One kind of work: milliseconds a sentence of ours, and of the reference's ``program``."""

    name: str
    task: Task
    program: str
    wanted: int
    """Ours is to take at most 1 / wanted of the reference's time."""
    ours: Callable[[Ours], float]
    theirs: Callable[[Reference], float]


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time and model scores beside cdec and dtrain.")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="try the script with a few sentences, compile nothing")
    options = parser.parse_args()
    if not os.environ.get("MPITUNE_DATA"):
        print("skipped: MPITUNE_DATA is not set")
        return
    data = Path(os.environ["MPITUNE_DATA"])
    golden = data.parent / "golden"
    most = 3 if options.small else 50
    for program in ("cdec", "dtrain"):
        if shutil.which(program) is None:
            print(f"skipped: no {program} on the PATH, ours is measured alone")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        nc, captions = (_cut(task(data, golden), most) for task in (news_commentary, multi30k))
        print_table(TITLES, speed(nc, captions, work, options.passes))
        if not options.small:
            warm = run([sys.executable, "-m", "mpitune.cli.warmup"], work, env={**os.environ, "NUMBA_CACHE_DIR": name})
            print(f"All our kernels are compiled, once, in {warm.cpu:.0f} s of CPU.\n", flush=True)
        print_table(quality.TITLES, quality.rows(data, golden, work, most))


def _cut(task: Task, most: int) -> Task:
    """The task's first sentences, ``most`` at most."""
    return replace(task, sentences=(0, min(task.sentences[1], most)))


def speed(nc: Task, captions: Task, work: Path, passes: int) -> Iterator[Sequence[str]]:
    """The rows under `TITLES`, and notes of one field on what an epoch is made of and what is missing."""
    sparse = replace(nc, templates=("id", "source-bigram", "shape"))
    rows = (
        Row("nc, dense: 1-best", nc, "cdec", 16, lambda o: o.decoding(1), lambda r: r.decoding(1)),
        Row(f"nc, dense: {K} unique best", nc, "cdec", 16, lambda o: o.decoding(K), lambda r: r.decoding(K)),
        Row("nc, id, source-bigram, shape: an epoch", sparse, "dtrain", 20, Ours.learning, Reference.learning),
        Row("Multi30k, a grammar a sentence: an epoch", captions, "dtrain", 25, Ours.learning, Reference.learning),
    )
    for number, row in enumerate(rows):
        yield from _measured(row, work / f"row-{number}", passes)
    if not nc.missing() and shutil.which("cdec"):
        yield incremental(nc, work / "incremental", passes)


def _measured(row: Row, folder: Path, passes: int) -> Iterator[Sequence[str]]:
    """The row of the table; a note on what is missing, or on what each made of the data."""
    if missing := row.task.missing():
        yield (f"{row.name}: skipped: there is no {missing[0]}",)
        return
    ours = Ours(row.task, folder)
    theirs = Reference(row.task, folder) if shutil.which(row.program) else None
    row.ours(ours)
    yield _filled(row.name, lambda: row.ours(ours), theirs and (lambda: row.theirs(theirs)), row.wanted, passes)
    if ours.told:
        yield (f"{row.name}: {ours.told}" + (f"; {row.program}: {theirs.told}" if theirs else ""),)


def incremental(nc: Task, folder: Path, passes: int) -> Sequence[str]:
    """The row of cdec's incremental search: ours at the smallest pop limit that finds no lower scores on average."""
    nc.write(folder)
    theirs = Reference(nc, folder)
    _, wanted = theirs.incremental()
    for pop_limit in POP_LIMITS:
        ours = Ours(nc, folder, pop_limit)
        found = float(np.mean([scores[0] for scores in ours.scores(1)]))
        if found >= wanted:
            break
    name = f"nc, dense: 1-best, incremental search ({wanted:.3f}) and ours at pop limit {pop_limit} ({found:.3f})"
    return _filled(name, lambda: ours.decoding(1), lambda: theirs.incremental()[0], 2, passes)


def _filled(
    name: str, ours: Callable[[], float], theirs: Callable[[], float] | None, wanted: int, passes: int
) -> Sequence[str]:
    if theirs is None:
        return name, "", f"{median(in_turns({'ours': ours}, passes)['ours']):.2f} ms", "", f"1/{wanted}"
    taken = in_turns({"theirs": theirs, "ours": ours}, passes)
    ratios = sorted(other / own for other, own in zip(taken["theirs"], taken["ours"], strict=True))
    ratio = f"1/{median(ratios):.1f} (1/{ratios[0]:.1f} to 1/{ratios[-1]:.1f})"
    return name, f"{median(taken['theirs']):.1f} ms", f"{median(taken['ours']):.2f} ms", ratio, f"1/{wanted}"


if __name__ == "__main__":
    main()
