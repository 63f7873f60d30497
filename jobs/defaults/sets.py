"""The data sets on which the defaults are measured: each has a base job and a held-out test set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from files import read_lines, write_once

import mpitune

FIRST_SCORE = "EgivenFCoherent"
"""The score that variants multiply alone; in grammars without score names, the first one."""
FACTORS = {
    "all-x0.01": (0.01, False),
    "all-x100": (100.0, False),
    "one-x1000": (1000.0, True),
}
"""Variants of a set: the factor for the scores of its grammar, and True to multiply the first score only. If all scores
are multiplied, so are the LM's log probabilities."""


@dataclass(frozen=True)
class DataSet:
    """A tuning job and a test set."""

    name: str
    folder: Path
    """Folder for its files and runs."""
    job: mpitune.Job
    source: Path
    """Source of the test set."""
    reference: Path
    size: int
    """Number of tuning sentences."""
    scalable: bool = False
    """True if grammar and LM are text files whose scores can be multiplied."""

    def variant(self, name: str) -> DataSet:
        """Return the set with multiplied scores, see `FACTORS`; its files are written if missing."""
        factor, one = FACTORS[name]
        folder = self.folder / name
        grammar, lm = folder / "grammar.gz", folder / "lm.arpa.gz"
        job = self.job.replace({"grammar.file": grammar, "run.store": folder / "store"})
        write_once(grammar, lambda: scaled_grammar(read_lines(self.job["grammar.file"]), factor, one))
        if not one:
            write_once(lm, lambda: scaled_arpa(read_lines(self.job.keys.lm[0].file), factor))
            job = job.replace(lm=[{"file": lm}])
        return replace(self, job=job)


def scaled_grammar(rules: Iterable[str], factor: float, one: bool) -> Iterable[str]:
    """Multiply the scores of rules, ``name=value`` or ``value``; ``one``: only `FIRST_SCORE`."""
    for line in rules:
        fields = line.split(" ||| ")
        scores = []
        for n, score in enumerate(fields[3].split()):
            name, equals, value = score.rpartition("=")
            # Without names, the first score.
            multiplied = not one or (name == FIRST_SCORE if equals else n == 0)
            scores.append(f"{name}{equals}{float(value) * factor!r}" if multiplied else score)
        yield " ||| ".join([*fields[:3], " ".join(scores), *fields[4:]])


def scaled_arpa(text: Iterable[str], factor: float) -> Iterable[str]:
    """Multiply the log probabilities and back-off weights of an ARPA file."""
    order = 0
    for line in text:
        if line.startswith("\\"):
            order = int(line[1:].partition("-")[0]) if line.endswith("-grams:") else 0
        elif order and line.strip():
            first, *rest = line.split()
            words, backoff = rest[:order], rest[order:]
            numbers = [f"{float(number) * factor!r}" for number in (first, *backoff)]
            line = "\t".join([numbers[0], " ".join(words), *numbers[1:]])
        yield line
