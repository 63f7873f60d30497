"""Compiles the kernels ahead of the first run, on all cores.

Run it as ``python -m mpitune.cli.warmup``. The compiled kernels are cached on disk; later processes of the same user
load them. With ``--record`` it writes the list of these kernels anew: those that training on a tiny bitext calls, and
scoring it.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time

import numpy as np

from mpitune import jit
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.progress import Progress
from mpitune.corpus.wording import counted
from mpitune.exchange.comm import SerialComm
from mpitune.files import temporary_folder
from mpitune.lm.kenlm import WORD, KenlmWords
from mpitune.lm.kneser_ney import estimate, estimate_arrays
from mpitune.metrics.evaluation import SystemRuns, evaluate
from mpitune.runtime.log import start_logging
from mpitune.store.build import build_bitext
from mpitune.store.extract_grammars import warm_up
from mpitune.training import job_inputs
from mpitune.training.loop import train

SOURCE = 4 * "das alte haus\ndas haus am see\n"
REFERENCES = 4 * "the old house\nthe house by the lake\n"
LINKS = 4 * "0-0 1-1 2-2\n0-0 1-1 2-2 3-3 3-4\n"
GRAMMAR = """\
[X] ||| das [X,1] ||| the [X,1] ||| Cost=1 ||| 0-0
[X] ||| das [X,1] ||| this [X,1] ||| Cost=1 ||| 0-0
[X] ||| alte haus ||| old house ||| Cost=1 ||| 0-0 1-1
[X] ||| [X,1] am [X,2] ||| [X,1] by the [X,2] ||| Cost=1 ||| 1-1
"""
JOB = """\
[data]
source = "source"
references = ["references"]
[grammar]
file = "grammar"
[[lm]]
file = "lm"
[features]
templates = ["id"]
[learner]
epochs = 1
margin = 100
[parallel]
shards = 1
"""
"""No list reaches the margin: the sparse features have something to learn, or the log would warn that they do not."""
PRESETS = ("default", "simianer2012")
"""Presets that use different kernels of the perceptron."""


def main() -> None:
    """Compile the listed kernels, or record the list."""
    parser = argparse.ArgumentParser(description="Compile the kernels ahead of the first run.")
    parser.add_argument("--record", action="store_true", help="write the list of these kernels anew")
    if parser.parse_args().record:
        record_kernels()
    else:
        compile_kernels()


def compile_kernels() -> None:
    """Compile the listed kernels in a process for each core; each line of the log says how many are done."""
    start_logging()
    begin, kernels = time.monotonic(), jit.listed_kernels()
    processes = min(len(os.sched_getaffinity(0)), jit.MOST_COMPILING)
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool, Progress("kernels compiled", len(kernels)) as reported:
        for _ in pool.imap_unordered(jit.Listed.compile, kernels):
            reported.advance()
    jit.note_compiled(kernels)
    print(f"{len(kernels)} kernels are compiled: {time.monotonic() - begin:.0f} s on {counted(processes, 'core')}")


def record_kernels() -> None:
    """Run tiny jobs, without the cache, and list the kernels that they have compiled."""
    logging.disable(logging.WARNING)  # of texts that are too small for language models
    with temporary_folder() as folder:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)
        run_tiny_jobs()
    modules = [module for name, module in sys.modules.items() if name.startswith("mpitune.")]
    values = [value for module in modules for value in vars(module).values()]
    jit.record({value.name: value for value in values if isinstance(value, jit.Kernel)}.values())


def run_tiny_jobs() -> None:
    """Train and score in a temporary folder. Kernels do not depend on the order of the language model."""
    KenlmWords(np.zeros(1, WORD), 1).numbers(["word"])
    with temporary_folder() as folder:
        texts = {"source": SOURCE, "references": REFERENCES, "links": LINKS, "grammar": GRAMMAR, "job": JOB}
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        estimate(folder / "references", 2, folder / "lm")
        estimate_arrays([folder / "references"], 2, folder)
        files = AlignedFiles(folder / "source", folder / "references", (folder / "links",))
        warm_up(build_bitext(files, folder))
        for preset in PRESETS:
            settings = [f"run.dir={folder / preset}", f"run.store={folder / 'store'}", f"learner.preset={preset}"]
            train(job_inputs.load_job(folder / "job", settings), SerialComm())
    translations = SystemRuns("source", [("source", SOURCE.splitlines())])
    evaluate([("references", REFERENCES.splitlines())], [translations])


if __name__ == "__main__":
    main()
