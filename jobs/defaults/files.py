"""Files of the data sets: each is written once, below the working folder; no text enters the repository."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

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


def quoted(path: Path) -> str:
    """Write a path as a TOML string."""
    return json.dumps(str(path), ensure_ascii=False)


def estimate_lm(text: Path, order: int, output: Path) -> None:
    """Estimate a language model, unless it is there already."""
    if not output.exists():
        print(f"estimating {output}", file=sys.stderr, flush=True)
        words = [sys.executable, "-m", "mpitune", "lm", "--order", str(order), "--input", str(text)]
        done = subprocess.run([*words, "--output", str(output)], stdout=2, check=False)
        if done.returncode:
            sys.exit(f"{output} could not be estimated")
