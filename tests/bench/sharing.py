"""Memory of two ranks on one machine that share a large language model.

    python tests/bench/sharing.py [--small]

The model has about 5 million n-grams (`tools.synthetic`). Each rank opens the store, decodes, and touches every page
of the model. RSS counts a shared page in each process, PSS divides it among them, so that the ranks' PSS add up to the
memory used. Requires mpirun, beside this Python or on the PATH, and a Linux kernel that reports PSS.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from tools import synthetic
from tools.measure import mpirun, print_table, run
from tools.ours import stored, training

from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.lm.kneser_ney import estimate
from mpitune.store.inputs import StoreInputs, Texts

LENGTH = 25
PAGE = 4096
"""Lower bound of the page size in bytes."""
MAPS = Path("/proc/self/smaps")


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory of ranks that share a language model.")
    parser.add_argument("--small", action="store_true", help="test the script with a small model")
    parser.add_argument("--rank", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        be_rank(options.rank)
        return
    together = mpirun(2)
    if together is None or not (MAPS.exists() and "\nPss:" in MAPS.read_text()):
        print("skipped: requires mpirun and a Linux kernel that reports PSS")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, 4_000 if options.small else 7_000_000)
        rank = (sys.executable, __file__, "--rank", folder)
        printed = "".join(run((*launch, *rank), folder).output for launch in ([], together))
    rows = [line.split() for line in printed.splitlines()]
    print_table(
        ("ranks", "rank", "RSS", "PSS", "the mapped store: RSS", "PSS"),
        ([*row[:2], *(f"{int(size) / 1000:.0f} MB" for size in row[2:])] for row in rows),
    )


def make(folder: Path, words: int) -> None:
    """Write the data, with a model estimated from a text of ``words`` words, and the store."""
    walk = synthetic.text(words)
    synthetic.write_text(walk, folder / "text")
    estimate(folder / "text", 3, folder / "lm")
    sentence = synthetic.source(walk[:LENGTH])
    synthetic.write_grammar([sentence], 10_000, folder / "grammar")
    (folder / "source").write_text(" ".join(sentence) + "\n", encoding="utf-8")
    stored(_sources(folder), folder / "store")


def be_rank(folder: Path) -> None:
    """Decode, and print the sizes in kB once every rank has touched the whole model."""
    from mpi4py.MPI import COMM_WORLD as world

    store = stored(_sources(folder), folder / "store")
    decoder = EmbeddedDecoder(store.model)
    decoder.decode(training(store).sentence(0), np.zeros(len(decoder.features)), 100)
    for lm, _ in store.model.lms:
        for part in lm:
            if isinstance(part, np.ndarray):
                part.view(np.uint8)[::PAGE].max()
    world.barrier()
    rows = world.gather((*_sizes(""), *_sizes(str(folder))))
    for rank, sizes in enumerate(rows or []):
        print(world.size, rank, *sizes, flush=True)
    world.barrier()


def _sources(folder: Path) -> StoreInputs:
    return StoreInputs(train=Texts(folder / "source"), grammar=folder / "grammar", lms=(folder / "lm",))


def _sizes(path: str) -> tuple[int, int]:
    """RSS and PSS in kB of this process's mappings of files whose paths contain ``path``; of all mappings if empty."""
    total, counts = {"Rss:": 0, "Pss:": 0}, False
    for line in MAPS.read_text().splitlines():
        name, *rest = line.split()
        # Each mapping has a line that ends with its file, then a line for each field.
        if not name.endswith(":"):
            counts = path in line
        elif counts and name in total:
            total[name] += int(rest[0])
    return total["Rss:"], total["Pss:"]


if __name__ == "__main__":
    main()
