"""The run folder: which file holds what, each written whole or not at all."""

from __future__ import annotations

import filecmp
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mpitune.array_files.atomic import atomic_replace, write_text
from mpitune.corpus.weights import write_weights
from mpitune.errors import MachineError

Weights = Sequence[tuple[str, float]]
"""A model as names and weights."""


class RunFolder:
    """Where a run writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        """The folder of `mpitune.run_folder.checkpoint`."""
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        """The folder of `epoch_weights`."""
        return self.path / "weights"

    @property
    def result(self) -> Path:
        """The weights that the run ends with."""
        return self.path / "weights.txt.gz"

    @property
    def scoring(self) -> Path:
        """What has become of the grammar's scores, where something has: bins, transforms."""
        return self.path / "scoring.json"

    @property
    def metrics(self) -> Path:
        """One JSON object for each epoch."""
        return self.path / "metrics.jsonl"

    def epoch_weights(self, epoch: int) -> Path:
        """What was published after ``epoch``."""
        return self.weights / f"epoch-{epoch:04d}.txt.gz"

    @property
    def translations(self) -> Path:
        """The folder of `epoch_translations`, with their ``source.txt.gz`` and ``reference-0.txt.gz``, ``-1``, ..."""
        return self.path / "translations"

    def epoch_translations(self, epoch: int) -> Path:
        """Translations of the watched sentences with what was published after ``epoch``; 0: before training."""
        return self.translations / f"epoch-{epoch:04d}.txt.gz"

    @property
    def local(self) -> Path:
        """The folder of what `mpitune local` learns from, in files as in `checkpoints`."""
        return self.path / "local"

    def of_decoder(self, process: str) -> Path:
        """The folder for the files of the external decoder of one ``process``."""
        return self.path / "cdec" / process

    def clear(self) -> None:
        """Remove what epochs have left here."""
        for folder in (self.checkpoints, self.weights, self.translations):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.metrics, self.result, self.scoring):
            file.unlink(missing_ok=True)

    def write_config(self, toml: str) -> None:
        """Keep the effective configuration."""
        self._write_text(self.path / "config.toml", toml)

    def write_scoring(self, scoring: Mapping[str, Any] | None) -> None:
        """Keep what has become of the grammar's scores; None: nothing has."""
        if scoring is None:
            self.scoring.unlink(missing_ok=True)
        else:
            self._write_text(self.scoring, json.dumps(scoring, indent=1) + "\n")

    def make_checkpoints(self) -> None:
        """Make the folder of checkpoints, which no rank makes by itself: where it is removed, it does not come back."""
        with _telling(self.checkpoints):
            self.checkpoints.mkdir(exist_ok=True)

    def write_metrics(self, epochs: Sequence[Mapping[str, Any]]) -> None:
        """One line for each epoch so far."""
        self._write_text(self.metrics, "".join(json.dumps(metrics) + "\n" for metrics in epochs))

    def write_weights(self, path: Path, weights: Weights) -> None:
        """Write ``weights`` to ``path``, one of this folder's, sorted by name. Raises MachineError where it can't."""
        with _telling(path):
            write_weights(path, sorted(weights))

    def choose(self, epoch: int) -> None:
        """Make the weights of ``epoch``, where they are kept, the result; nothing is written where they are that."""
        weights = self.epoch_weights(epoch)
        if weights.is_file() and not (self.result.is_file() and filecmp.cmp(weights, self.result, shallow=False)):
            with _telling(self.result), atomic_replace(self.result) as aside:
                shutil.copyfile(weights, aside)

    def write_watched(self, source: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Keep the watched sentences and their references; ``references[i]``: those of sentence i, one or more."""
        self._write_lines(self.translations / "source.txt.gz", source)
        for n, text in enumerate(zip_longest(*references, fillvalue="")):
            self._write_lines(self.translations / f"reference-{n}.txt.gz", text)

    def write_translations(self, epoch: int, translations: Sequence[str]) -> None:
        """Keep how the watched sentences are translated after ``epoch``."""
        self._write_lines(self.epoch_translations(epoch), translations)

    def _write_lines(self, path: Path, lines: Sequence[str]) -> None:
        self._write_text(path, "".join(f"{line}\n" for line in lines))

    def _write_text(self, path: Path, text: str) -> None:
        with _telling(path):
            write_text(path, text)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Raise MachineError where ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror}") from error
