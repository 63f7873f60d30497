"""Making of a data set: its texts, below the working folder, and its base job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from files import read_lines, write_once
from sets import DataSet

import mpitune

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

    def data_set(
        self,
        folder: Path,
        parts: Mapping[str, Sequence[Path]],
        ranges: Ranges,
        grammar: Mapping[str, Path],
        lm: Path,
        *,
        fast: bool = False,
    ) -> DataSet:
        """Write the texts of a set; its job has data, models and algorithm 1 (on training pairs: 4), else the defaults.

        ``parts``: by name, as in `Ranges`, the files of source and reference, of which a range is taken. ``fast``: with
        the search limits of jobs/europarl-dev.toml, for large grammars.
        """
        for part, files in parts.items():
            for file, side in zip(files, ("source", "reference"), strict=True):
                first, end = getattr(ranges, part)
                if part == "test":
                    end = min(end, first + self.tested)
                write_once(folder / f"{part}.{side}", lambda f=file, a=first, b=end: islice(read_lines(f), a, b))
        data = {
            part: {"source": folder / f"{part}.source", "references": [folder / f"{part}.reference"]} for part in parts
        }
        job = mpitune.Job(
            data=data["tune"] | ({"devtest": data["devtest"]} if self.devtest or self.training else {}),
            grammar={**grammar, **({"leave_one_out": True} if self.training and "alignment" in grammar else {})},
            lm=[{"file": lm}],
            learner={"algorithm": "itersel" if self.training else "sgd"},
            run={"store": folder / "store"},
        )
        if fast:
            job = job.replace({"grammar.max_translations": 20, "decoder.rule_margin": 2.0})
        size = sum(1 for _ in read_lines(folder / "tune.source"))
        return DataSet("", folder, job, folder / "test.source", folder / "test.reference", size)


def training_split(
    folder: Path, bitext: Mapping[str, Path], size: int
) -> tuple[dict[str, list[Path]], Ranges, dict[str, Path]]:
    """Tuned texts and devtest texts, ranges and grammar keys to tune on the first ``size`` pairs of ``bitext``.

    Its last `HELD_OUT` pairs are the devtest set; rules are extracted from the others.
    """
    texts = [bitext["source"], bitext["target"]]
    end = sum(1 for _ in read_lines(texts[0]))
    first = end - HELD_OUT
    grammar = {key: folder / f"bitext.{key}.gz" for key in bitext}
    for key, file in bitext.items():
        write_once(grammar[key], lambda file=file: islice(read_lines(file), first))
    return {"tune": texts, "devtest": texts}, Ranges((0, size), (first, end)), grammar
