"""CPU time of reading text grammars into the arrays of a store.

    python tests/bench/grammars.py [GRAMMAR ...]

The default grammars are those of 80 Multi30k sentences in the folder `golden` beside MPITUNE_DATA. Times are CPU
microseconds per rule, the least of several passes; kernels are compiled before the first.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.measure import CpuTime, print_table

from mpitune.array_files.arrays import write_arrays
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleReader

PASSES = 5


def main() -> None:
    grammars = [Path(name) for name in sys.argv[1:]]
    if not grammars and not os.environ.get("MPITUNE_DATA"):
        print("skipped: no grammars given and MPITUNE_DATA is not set")
        return
    if not grammars:
        grammars = sorted((Path(os.environ["MPITUNE_DATA"]).parent / "golden" / "multi30k-grammars").glob("*.gz"))
    measure(grammars[:1])
    passes = [measure(grammars) for _ in range(PASSES)]
    rules, *_ = passes[0]
    read, write = (1e6 * min(times) / rules for times in list(zip(*passes, strict=True))[1:])
    row = f"{len(grammars)}", f"{rules}", f"{read:.2f}", f"{write:.2f}", f"{read + write:.2f}"
    print_table(("grammars", "rules", "reading, microseconds a rule", "writing", "both"), [row])


def measure(grammars: Sequence[Path]) -> tuple[int, float, float]:
    """Number of rules, seconds of reading and of writing."""
    with tempfile.TemporaryDirectory() as folder:
        with CpuTime() as reading:
            reader = RuleReader(Vocabulary())
            for grammar in grammars:
                reader.read(grammar)
            rules = reader.rules()
        with CpuTime() as writing:
            write_arrays(Path(folder) / "rules.npz", ListedGrammars(rules, reader.grammar_ptr).as_arrays(), {})
    return len(rules.type), reading.seconds, writing.seconds


if __name__ == "__main__":
    main()
