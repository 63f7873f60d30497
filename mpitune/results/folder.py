"""The run folder: which file holds what, each written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpitune.corpus.files import written_whole
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
        """The folder of `mpitune.results.checkpoint`."""
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        """The folder of `epoch_weights`."""
        return self.path / "weights"

    @property
    def result(self) -> Path:
        """The weights that the run ends with."""
        return self.path / "weights.txt.gz"

    def epoch_weights(self, epoch: int) -> Path:
        """What was published after ``epoch``."""
        return self.weights / f"epoch-{epoch:04d}.txt.gz"

    def write_config(self, toml: str) -> None:
        """Keep the effective configuration."""
        self._write_text("config.toml", toml)

    def write_metrics(self, epochs: Sequence[Mapping[str, Any]]) -> None:
        """One line for each epoch so far."""
        self._write_text("metrics.jsonl", "".join(json.dumps(metrics) + "\n" for metrics in epochs))

    def write_weights(self, path: Path, weights: Weights) -> None:
        """Write ``weights`` to ``path``, one of this folder's, sorted by name. Raises MachineError where it can't."""
        with _telling(path):
            write_weights(path, sorted(weights))

    def _write_text(self, name: str, text: str) -> None:
        path = self.path / name
        with _telling(path), written_whole(path) as aside:
            aside.write_text(text, encoding="utf-8")


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Raise MachineError where ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror}") from error
