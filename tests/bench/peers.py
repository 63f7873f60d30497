"""Compare mpitune with cdec and its trainer dtrain, if these are on the PATH: CPU time and model scores.

    python tests/bench/peers.py [--passes N] [--small]

Data come from the folder MPITUNE_DATA; weights, k-best lists of cdec and per-sentence grammars from the folder golden
beside it. Times are CPU milliseconds per sentence on one core, medians over alternating passes (A B A B), without
start-up: the time of a run over the first sentence alone is subtracted from the reference's; mpitune's is measured on
the other sentences in a process that has compiled its kernels. The time of compiling them is given below the table.
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
"""Pop limits compared with the incremental search, in ascending order."""
TITLES = ("work", "reference", "ours", "ratio (worst to best pass)", "wanted")


class Row(NamedTuple):
    """One kind of work, with functions that measure milliseconds per sentence of mpitune and of the reference."""

    name: str
    task: Task
    program: str
    """The reference's program."""
    wanted: int
    """Target: mpitune takes at most 1 / wanted of the reference's time."""
    ours: Callable[[Ours], float]
    theirs: Callable[[Reference], float]


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time and model scores beside cdec and dtrain.")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument(
        "--small", action="store_true", help="test the script on a few sentences, without timing compilation"
    )
    options = parser.parse_args()
    if not os.environ.get("MPITUNE_DATA"):
        print("skipped: MPITUNE_DATA is not set")
        return
    data = Path(os.environ["MPITUNE_DATA"])
    golden = data.parent / "golden"
    most = 3 if options.small else 50
    for program in ("cdec", "dtrain"):
        if shutil.which(program) is None:
            print(f"skipped: no {program} on the PATH, mpitune is measured alone")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        nc, captions = (_cut(task(data, golden), most) for task in (news_commentary, multi30k))
        print_table(TITLES, speed(nc, captions, work, options.passes))
        if not options.small:
            warm = run([sys.executable, "-m", "mpitune.cli.warmup"], work, env={**os.environ, "NUMBA_CACHE_DIR": name})
            print(f"Compiling all kernels, which is done once, takes {warm.cpu:.0f} s of CPU.\n", flush=True)
        print_table(quality.TITLES, quality.rows(data, golden, work, most))


def _cut(task: Task, most: int) -> Task:
    """Restrict a task to its first ``most`` sentences."""
    return replace(task, sentences=(0, min(task.sentences[1], most)))


def speed(nc: Task, captions: Task, work: Path, passes: int) -> Iterator[Sequence[str]]:
    """Yield the rows under `TITLES`, and notes of one field about epochs and missing files."""
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
    """Yield a row of the table and a note on the epochs, or a note on missing files."""
    if missing := row.task.missing():
        yield (f"{row.name}: skipped: there is no {missing[0]}",)
        return
    ours = Ours(row.task, folder)
    theirs = Reference(row.task, folder) if shutil.which(row.program) else None
    row.ours(ours)
    yield _filled(row.name, lambda: row.ours(ours), theirs and (lambda: row.theirs(theirs)), row.wanted, passes)
    if ours.epoch_summary:
        note = f"; {row.program}: {theirs.epoch_summary}" if theirs else ""
        yield (f"{row.name}: {ours.epoch_summary}{note}",)


def incremental(nc: Task, folder: Path, passes: int) -> Sequence[str]:
    """Measure cdec's incremental search against the smallest pop limit whose mean model score is not lower."""
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
