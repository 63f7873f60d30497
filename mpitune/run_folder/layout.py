"""The layout of the run folder: one property per file. Files are written atomically.

Runs of one job that differ in their seed alone have folders beside each other in the job's run folder.
"""

from __future__ import annotations

import filecmp
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mpitune.array_files.atomic import atomic_replace, open_atomic, write_text
from mpitune.corpus.weights import write_weights
from mpitune.errors import MachineError, MpituneError
from mpitune.files import is_file, matching, writing
from mpitune.ownership import OWN, remove

Weights = Sequence[tuple[str, float]]
"""A model: names and weights."""

_SEED_FOLDER = re.compile(r"seed-(\d+)")


class RunFolder:
    """The folder that a run writes to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        """The folder of `checkpoint_path` and `shard_path`."""
        self.weights = path / "weights"
        """The folder of `epoch_weights` and `dense_start_weights`."""
        self.dense_start_weights = self.weights / "dense-start.txt.gz"
        """The weights of the dense start, if the epochs learn sparse features on top of them and devtest scores it."""
        self.result = path / "weights.txt.gz"
        """The result: the weights of the best epoch so far."""
        self.scoring = path / "scoring.json"
        """Bins and transforms of the grammar's scores; only in runs that have some."""
        self.config = path / "config.toml"
        """The effective configuration, a job file itself."""
        self.status = path / "status.json"
        """The state of the run: `mpitune.run_folder.run_state`."""
        self.metrics = path / "metrics.jsonl"
        """One JSON object per epoch."""
        self.log = path / "log.txt"
        """The messages of all ranks: `mpitune.runtime.log`."""
        self.translations = path / "translations"
        """The folder of `epoch_translations`, with ``source.txt.gz`` and ``reference-0.txt.gz``, ``-1``, ...

        The watched sentences, which are translated after each epoch, are the devtest set; without one, the first
        training sentences.
        """
        self.local = path / "local"
        """The k-best lists that `mpitune local` learns from, in files as in `checkpoints`."""

    def epoch_weights(self, epoch: int) -> Path:
        """The weights published after ``epoch``."""
        return self.weights / f"epoch-{epoch:04d}.txt.gz"

    def epoch_translations(self, epoch: int) -> Path:
        """Translations of the watched sentences with the weights published after ``epoch``; 0: before training."""
        return self.translations / f"epoch-{epoch:04d}.txt.gz"

    def decoder_folder(self, process: str) -> Path:
        """The folder of the external decoder of one ``process``."""
        return self.path / "cdec" / process

    def clear(self) -> None:
        """Remove the files of all epochs. Raises UsageError or MachineError for one that cannot be removed."""
        kept = (self.config.name, self.log.name, self.status.name, "cdec/")
        remove(self.path, *(name for name in OWN["run"] if not name.startswith(kept)))

    def write_config(self, toml: str) -> None:
        """Write the effective configuration."""
        self._write_text(self.config, toml)

    def write_status(self, text: str) -> None:
        """Write `status`, in a folder that must exist: a removed run folder is not made again."""
        with writing(self.status, MachineError), open_atomic(self.status) as file:
            file.write(text.encode())

    def write_scoring(self, scoring: Mapping[str, Any] | None) -> None:
        """Write `scoring`; None: remove it."""
        if scoring is None:
            remove(self.path, self.scoring.name)
        else:
            self._write_text(self.scoring, json.dumps(scoring, indent=1) + "\n")

    def make_checkpoints(self) -> None:
        """Make the folder of checkpoints. Its writers do not make it: a removed folder must not come back."""
        with writing(self.checkpoints, MachineError):
            self.checkpoints.mkdir(exist_ok=True)

    def write_metrics(self, epochs: Sequence[Mapping[str, Any]]) -> None:
        """Write one line per epoch so far."""
        self._write_text(self.metrics, "".join(json.dumps(metrics) + "\n" for metrics in epochs))

    def write_weights(self, path: Path, weights: Weights) -> None:
        """Write ``weights``, sorted by name, to ``path`` in this folder. Raises MachineError if that fails."""
        with writing(path, MachineError):
            write_weights(path, sorted(weights))

    def set_result(self, weights: Path) -> None:
        """Copy ``weights``, if the file exists, to `result`, unless it has the same content."""
        if is_file(weights) and not (is_file(self.result) and filecmp.cmp(weights, self.result, shallow=False)):
            with writing(self.result, MachineError), atomic_replace(self.result) as aside:
                shutil.copyfile(weights, aside)

    def write_watched(self, source: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Write the watched sentences and their references; ``references[i]``: those of sentence i, one or more.

        Further references, of a job that was in this folder before, are removed.
        """
        remove(self.path, "translations/reference-*.txt.gz")
        self._write_lines(self.translations / "source.txt.gz", source)
        for n, text in enumerate(zip_longest(*references, fillvalue="")):
            self._write_lines(self.translations / f"reference-{n}.txt.gz", text)

    def write_translations(self, epoch: int, translations: Sequence[str]) -> None:
        """Write the translations of the watched sentences after ``epoch``."""
        self._write_lines(self.epoch_translations(epoch), translations)

    def _write_lines(self, path: Path, lines: Sequence[str]) -> None:
        self._write_text(path, "".join(f"{line}\n" for line in lines))

    def _write_text(self, path: Path, text: str) -> None:
        with writing(path, MachineError):
            write_text(path, text)


def checkpoint_path(folder: Path, epoch: int) -> Path:
    """The file of the checkpoint after ``epoch``, counted from 1, in the ``folder`` of checkpoints."""
    return folder / f"epoch-{epoch:04d}.h5"


def shard_path(folder: Path, epoch: int, kind: str, shard: int) -> Path:
    """The file of a shard beside it; ``kind``: ``shards`` (results), ``lists`` or ``forests``."""
    end = "h5" if kind == "shards" else "npz"
    return folder / f"epoch-{epoch:04d}.{kind}" / f"shard-{shard:04d}.{end}"


def remove_shards(folder: Path, kind: str, epoch: int) -> None:
    """Remove the files of shards up to ``epoch``, all of them: any earlier one may have been made anew."""
    for path in matching(folder, f"epoch-*.{kind}"):
        if (match := re.fullmatch(rf"epoch-(\d{{4,}})\.{kind}", path.name)) and int(match[1]) <= epoch:
            # Files that cannot be removed do no harm.
            with suppress(MpituneError):
                remove(folder, *(f"{path.name}/shard-*.{end}" for end in ("h5", "npz")))


def seed_folder(folder: Path, seed: int) -> Path:
    """The run folder of the run with this ``seed``, in the ``folder`` of the job."""
    return folder / f"seed-{seed}"


def run_folders(folder: Path) -> list[Path]:
    """The runs in ``folder``, by seed; ``[folder]`` if it is a run folder itself, or has no such runs."""
    if is_file(RunFolder(folder).config):
        return [folder]
    seeds = {int(match[1]): path for path in matching(folder, "*") if (match := _SEED_FOLDER.fullmatch(path.name))}
    return [seeds[seed] for seed in sorted(seeds)] or [folder]
