"""Runs over the tiny task (`tiny`): files that they leave, and a count of the sentences that they decode."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import Decoder, Sentence
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.decoder.lists.decoder import ListDecoder


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def result(run: Path) -> bytes:
    return gzip.decompress((run / "weights.txt.gz").read_bytes())


def kept(run: Path, name: str) -> list[str]:
    """A text of the sentences that the run watches: ``source``, ``reference-0``, ``epoch-0001``, ..."""
    return gzip.decompress((run / "translations" / f"{name}.txt.gz").read_bytes()).decode().splitlines()


def epoch_weights(run: Path, epoch: int) -> dict[str, float]:
    return read_weights(run / "weights" / f"epoch-{epoch:04d}.txt.gz")


def files_of(run: Path) -> dict[str, bytes]:
    """All that a run leaves and that depends on nothing but the job: weights and checkpointed arrays."""
    found = {path.name: gzip.decompress(path.read_bytes()) for path in (run / "weights").iterdir()}
    found["result"] = result(run)
    for path in (run / "checkpoints").glob("*.h5"):
        with h5py.File(path) as file:
            file.visititems(lambda name, node, path=path: found.update({f"{path.name}/{name}": _bytes(node)}))
    timeless = [
        {k: v for k, v in epoch.items() if not k.endswith(("seconds", "bytes", "timeline"))} for epoch in metrics(run)
    ]
    return found | {"metrics": json.dumps(timeless).encode()}


def _bytes(node: h5py.Group | h5py.Dataset) -> bytes:
    if isinstance(node, h5py.Group):
        return b""
    return b"\n".join(node[:].tolist()) if node.dtype == object else node[:].tobytes()


class Decodes:
    """Counts what is decoded to learn from, and may send this process a signal at some point of it.

    What is decoded to be watched has one translation a sentence, and does not count.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.stop_at: tuple[int, signal.Signals] | None = None
        for kind, name in ((EmbeddedDecoder, "decode"), (EmbeddedDecoder, "decode_all"), (ListDecoder, "decode")):
            monkeypatch.setattr(kind, name, self._counted(getattr(kind, name)))

    def _counted(self, decode: Callable[..., Any]) -> Callable[..., Any]:
        def counted(decoder: Decoder, sentence: Sentence, weights: np.ndarray, k: int) -> Any:
            self.count += k > 1
            if self.stop_at is not None and k > 1 and self.count == self.stop_at[0]:
                os.kill(os.getpid(), self.stop_at[1])
            return decode(decoder, sentence, weights, k)

        return counted


TRAIN_JOBS = Path(__file__).with_name("train_jobs.py")
"""A program that trains the jobs that it is given."""
SENTENCES = 26


SHARD_SIZES = [7, 7, 6, 6]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
