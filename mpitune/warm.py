"""Compiles the kernels ahead of the first run, by running tiny jobs: ``python -m mpitune.warm``.

What is compiled is kept (`kernel`), and other processes of this user load it in a moment.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from mpitune import assemble
from mpitune.exchange.comm import SerialComm
from mpitune.grammar.kneser_ney import estimate
from mpitune.train import train

SOURCE = "das alte haus\ndas haus am see\n"
REFERENCES = "the old house\nthe house by the lake\n"
GRAMMAR = """\
[X] ||| das [X,1] ||| the [X,1] ||| Cost=1 ||| 0-0
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
[parallel]
shards = 1
"""
ORDERS = (3, 5)
"""Kernels are compiled for language models up to order 3, for those up to 5, and so on."""


def main() -> None:
    """Run a job for each of `ORDERS`, in a folder that is removed."""
    for order in ORDERS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, text in {"source": SOURCE, "references": REFERENCES, "grammar": GRAMMAR, "job": JOB}.items():
                (folder / file).write_text(text, encoding="utf-8")
            estimate(folder / "references", order, folder / "lm", lambda _: None)
            train(assemble.load_job(folder / "job", [f"run.dir={folder / 'run'}"]), SerialComm(), quiet=True)


if __name__ == "__main__":
    main()
