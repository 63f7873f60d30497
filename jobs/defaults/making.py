"""Making of a data set below the working folder: its texts and its base job."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from files import quoted, read_lines, write_once
from sets import DataSet

HELD_OUT = 1000
"""Training pairs on which the epoch is chosen when others are tuned on."""


@dataclass(frozen=True)
class Ranges:
    """First sentence and end (exclusive) of each part."""

    tune: tuple[int, int]
    devtest: tuple[int, int] = (0, sys.maxsize)
    test: tuple[int, int] = (0, sys.maxsize)


@dataclass(frozen=True)
class Asked:
    """Options for making sets."""

    work: Path
    devtest: bool = False
    """True to choose the epoch on sentences that are neither tuning nor test sentences."""
    training: bool = False
    """True to tune on training pairs, each without the rules that only it has, and to choose the epoch on others."""
    tested: int = sys.maxsize
    """Largest number of test sentences."""

    @property
    def data(self) -> Path | None:
        """Folder of the sets that are not generated, from MPITUNE_DATA."""
        return Path(os.environ["MPITUNE_DATA"]) if "MPITUNE_DATA" in os.environ else None

    def texts(
        self, folder: Path, tuned: Sequence[Path], devtest: Sequence[Path], test: Sequence[Path], ranges: Ranges
    ) -> DataSet:
        """Write the texts of a set, which are ranges of the given files (source, reference); its job is not written."""
        for part, files in {"tune": tuned, "devtest": devtest, "test": test}.items():
            for file, side in zip(files, ("source", "reference"), strict=True):
                first, end = getattr(ranges, part)
                if part == "test":
                    end = min(end, first + self.tested)
                write_once(folder / f"{part}.{side}", lambda f=file, a=first, b=end: islice(read_lines(f), a, b))
        size = sum(1 for _ in read_lines(folder / "tune.source"))
        return DataSet("", folder, folder / "job.toml", folder / "test.source", folder / "test.reference", size)

    def job(self, folder: Path, grammar: dict[str, Path], lm: Path, *, fast: bool = False) -> None:
        """Write the base job: data, models, algorithm 1 (on training pairs: 4), otherwise the defaults.

        ``fast``: with the search limits of jobs/europarl-dev.toml, for large grammars.
        """
        text = ["[data]", f"source = {quoted(folder / 'tune.source')}"]
        text += [f"references = [{quoted(folder / 'tune.reference')}]"]
        if self.devtest or self.training:
            text += ["[data.devtest]", f"source = {quoted(folder / 'devtest.source')}"]
            text += [f"references = [{quoted(folder / 'devtest.reference')}]"]
        text += ["[grammar]", *(f"{key} = {quoted(file)}" for key, file in grammar.items())]
        if self.training and "alignment" in grammar:
            text += ["leave_one_out = true"]
        if fast:
            text += ["max_translations = 20", "[decoder]", "rule_margin = 2.0"]
        algorithm = "itersel" if self.training else "sgd"
        text += ["[[lm]]", f"file = {quoted(lm)}", "[learner]", f'algorithm = "{algorithm}"']
        write_once(folder / "job.toml", lambda: text)


def training_split(
    folder: Path, bitext: dict[str, Path], size: int
) -> tuple[list[Path], list[Path], Ranges, dict[str, Path]]:
    """Tuned texts, devtest texts, ranges and grammar keys to tune on the first ``size`` pairs of ``bitext``.

    Its last `HELD_OUT` pairs are the devtest set; rules are extracted from the others.
    """
    texts = [bitext["source"], bitext["target"]]
    end = sum(1 for _ in read_lines(texts[0]))
    first = end - HELD_OUT
    grammar = {key: folder / f"bitext.{key}.gz" for key in bitext}
    for key, file in bitext.items():
        write_once(grammar[key], lambda file=file: islice(read_lines(file), first))
    return texts, texts, Ranges((0, size), (first, end)), grammar
