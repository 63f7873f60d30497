"""Start-up time: compile and load kernels, open a store, translate one sentence in a new process.

    python tests/bench/start.py [--small]

Counts the kernels that a command compiles: ranks that start together should compile each of them once. (CPU time does
not show that, because a rank that waits for another may use as much of it.) The rows on a store require MPITUNE_DATA.
With ``--small``, kernels compiled by earlier processes are reused.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tools.measure import CpuTime, mpirun, print_table, run
from tools.ours import news_commentary, stored

from mpitune.cli import warmup
from mpitune.lm.kneser_ney import estimate
from mpitune.store.store import open_store

MPITUNE = (sys.executable, "-m", "mpitune")


def main() -> None:
    parser = argparse.ArgumentParser(description="Start-up time.")
    parser.add_argument("--small", action="store_true", help="reuse compiled kernels")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = chain(starts(Path(name), options.small), on_data(Path(name)))
        print_table(("from nothing to", "CPU", "wall", "kernels compiled"), rows)


def starts(folder: Path, small: bool) -> Iterator[Sequence[str]]:
    """Time commands without compiled kernels, and with all kernels compiled."""

    def row(what: str, cache: str, command: Sequence[str | Path]) -> Sequence[str]:
        kernels = {} if small else {"NUMBA_CACHE_DIR": str(folder / cache)}
        return _row(what, command, folder, kernels)

    yield row("all kernels compiled", "all", (sys.executable, "-m", "mpitune.cli.warmup"))
    yield row("all kernels loaded", "all", (sys.executable, "-m", "mpitune.cli.warmup"))
    for file, text in {"source": warmup.SOURCE, "references": warmup.REFERENCES, "grammar": warmup.GRAMMAR}.items():
        (folder / file).write_text(text, encoding="utf-8")
    (folder / "job").write_text(warmup.JOB, encoding="utf-8")
    (folder / "weights").write_text("LanguageModel 1\n", encoding="utf-8")
    estimate(folder / "references", 3, folder / "lm")
    for command, arguments in (("train", ()), ("decode", ("--input", "source", "--weights", "weights"))):
        for ranks in (1, 2):
            launch = mpirun(ranks)
            if launch is None:
                yield (f"{command} on {ranks} ranks: skipped: no mpirun",)
                continue
            run_folder = f"run.dir={folder / f'{command}-{ranks}'}"
            line = (*launch, *MPITUNE, command, "job", "--set", run_folder, *arguments)
            yield row(f"a tiny job, {command}, {ranks} rank{'s' * (ranks > 1)}", f"{command}-{ranks}", line)


def on_data(folder: Path) -> Iterator[Sequence[str]]:
    """Time opening a store, and a whole process that translates one sentence, with compiled kernels."""
    if not os.environ.get("MPITUNE_DATA"):
        yield ("the rows on a store: skipped: MPITUNE_DATA is not set",)
        return
    data = Path(os.environ["MPITUNE_DATA"])
    task = news_commentary(data, data.parent / "golden")
    if missing := task.missing():
        yield (f"the rows on a store: skipped: there is no {missing[0]}",)
        return
    kernels = {"NUMBA_CACHE_DIR": str(folder / "all")} if (folder / "all").exists() else {}
    (folder / "input").write_text("das ist ein haus\n", encoding="utf-8")
    job = Path(__file__).parents[2] / "jobs" / "nc.toml"
    command = (*MPITUNE, "decode", job, "--set", f"run.dir={folder / 'run'}", "--input", "input", "--weights")
    for store in ("the store made", "the store ready"):
        yield _row(f"a sentence of nc translated, {store}", (*command, task.weights), folder, kernels)
    sources = task.write(folder / "nc")
    stored(sources, folder / "nc" / "store")
    began = time.monotonic()
    with CpuTime() as spent:
        open_store(sources, folder / "nc" / "store")
    yield _times("the store of nc opened", spent.seconds, time.monotonic() - began, "")


def _row(what: str, command: Sequence[str | Path], folder: Path, kernels: dict[str, str]) -> Sequence[str]:
    # With this variable, Numba prints a line for each kernel that it saves.
    done = run(command, folder, env={**os.environ, **kernels, "NUMBA_DEBUG_CACHE": "1"})
    return _times(what, done.cpu, done.wall, str(done.output.count("data saved to")))


def _times(what: str, cpu: float, wall: float, compiled: str) -> Sequence[str]:
    return what, f"{cpu:.2f} s", f"{wall:.2f} s", compiled


if __name__ == "__main__":
    main()
