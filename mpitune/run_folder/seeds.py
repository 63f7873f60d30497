"""Runs of one job that differ in their seed alone: folders beside each other in the job's run folder."""

from __future__ import annotations

import re
from pathlib import Path

from mpitune.files import is_file, matching
from mpitune.run_folder.layout import RunFolder

_SEED_FOLDER = re.compile(r"seed-(\d+)")


def seed_folder(folder: Path, seed: int) -> Path:
    """The run folder of the run with this ``seed``, in the ``folder`` of the job."""
    return folder / f"seed-{seed}"


def run_folders(folder: Path) -> list[Path]:
    """The runs in ``folder``, by seed; ``[folder]`` if it is a run folder itself, or has no such runs."""
    if is_file(RunFolder(folder).config):
        return [folder]
    seeds = {int(match[1]): path for path in matching(folder, "*") if (match := _SEED_FOLDER.fullmatch(path.name))}
    return [seeds[seed] for seed in sorted(seeds)] or [folder]
