"""Files of the data sets: each is written once, below the working folder; no text enters the repository."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import mpitune
from mpitune.array_files.atomic import atomic_replace
from mpitune.corpus.lines import lines


def write_once(file: Path, text: Callable[[], Iterable[str]]) -> None:
    """Write the lines into ``file``, atomically, if it does not exist."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    zipped = file.suffix == ".gz"
    with atomic_replace(file) as part, gzip.open(part, "wb") if zipped else open(part, "wb") as out:
        out.writelines(f"{line}\n".encode() for line in text())


def read_lines(file: Path) -> Iterable[str]:
    """Yield the lines of a text, which may be gzipped."""
    return (line for _, line in lines(file))


def estimate_lm(text: Path, order: int, output: Path) -> Path:
    """Estimate a language model, unless it is there already; returns the ``output``."""
    if not output.exists():
        print(f"estimating {output}", file=sys.stderr, flush=True)
        mpitune.estimate_lm(text, order, output)
    return output
