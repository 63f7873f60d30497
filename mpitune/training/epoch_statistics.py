"""What an epoch has to say of itself: the sums over its sentences, and the metrics that come of them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mpitune.decoder.base import Decoder, KBest
from mpitune.learner.base import Counts
from mpitune.metrics.bleu import LENGTH, REFERENCE, WIDTH
from mpitune.metrics.sentence_bleu import papineni
from mpitune.run_folder.checkpoint import Vector

LOG = logging.getLogger(__name__)

SUMS = ("sentences", "gold", "pairs", "updates", "length", "reference", "empty", "change", "changing")
"""What is added up over the sentences of a shard; lengths are those of 1-best translations and closest references,
``change`` the norms of what lists have changed the weights by, ``changing`` how many have."""
TRACKED_HYPOTHESES = ("best", "oracle", "prediction")
"""Of which translations corpus BLEU is told: the 1-best, and those that the method picks to learn from."""

SLOTS = 40
"""Into how many parts an epoch is cut to tell when a rank waits."""


class ShardStatistics(NamedTuple):
    """What is told of one shard."""

    shard: int
    sums: dict[str, float]
    """By name: `SUMS`, ``failed`` (sentences that the decoder gave up), ``norm`` (of the weights at the shard's end, 0
    where they stay as they are), and ``seconds``."""
    bleu: np.ndarray
    """int64 [3, 11]: summed statistics of the translations `TRACKED_HYPOTHESES`; 0 where none are picked."""


@dataclass(frozen=True)
class EpochResult:
    """What an epoch has learned."""

    weights: Vector
    metrics: dict[str, Any]
    """What is said of the weights; on rank 0."""
    shards: list[ShardStatistics]
    """Those that this rank has decoded."""
    norms: Vector = (np.zeros(0, dtype=np.uint64), np.zeros(0))
    """The column norms of the features that were selected, where there was a selection; on rank 0."""


class StatisticsAccumulator:
    """The sums of one shard, while its sentences are decoded."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._began, self._failed = time.monotonic(), decoder.failed
        self._sums = dict.fromkeys(SUMS, 0.0)
        self._bleu = np.zeros((len(TRACKED_HYPOTHESES), WIDTH), dtype=np.int64)

    def add(
        self, source: np.ndarray, kbest: KBest, counted: np.ndarray, gold: float, counts: Counts, change: float = 0.0
    ) -> None:
        """One more sentence: its words, its list with the statistics (int64 [k, 11]), the 1-best's gold score.

        ``change``: the norm of what the list has changed the weights by.
        """
        for sum_, entry in zip(self._bleu, (0, counts.oracle, counts.prediction), strict=True):
            sum_ += counted[entry] if entry >= 0 else 0
        lengths = counted[0, [LENGTH, REFERENCE]].tolist()
        empty = len(source) > 0 and len(kbest.translation(0)) == 0
        numbers = (1, gold, counts.pairs, counts.updates, *lengths, empty, change, change > 0)
        for name, number in zip(SUMS, numbers, strict=True):
            self._sums[name] += float(number)

    def told(self, shard: int, weights: np.ndarray | None = None) -> ShardStatistics:
        """All of it, at the shard's end; ``weights``: float64 [n], those that it has learned."""
        more = {
            "failed": float(self._decoder.failed - self._failed),
            "norm": 0.0 if weights is None else norm(weights),
            "seconds": time.monotonic() - self._began,
        }
        return ShardStatistics(shard, self._sums | more, self._bleu)


class Change:
    """What a list changes the weights of its features by."""

    def __init__(self, kbest: KBest, weights: np.ndarray) -> None:
        """``weights``: float64 [slots], before the list is learned from."""
        self._slots = np.unique(kbest.feature_index)
        self._before = weights[self._slots]

    def norm(self, weights: np.ndarray) -> float:
        """The L2 norm of the change to ``weights``, those after it."""
        return norm(weights[self._slots] - self._before)


def norm(values: np.ndarray) -> float:
    """The L2 norm of ``values`` (float64 [n]), the same to the bit in whatever order they come: ranks differ in it."""
    sizes = np.sort(np.abs(values[values != 0]))
    most = float(sizes[-1]) if len(sizes) else 0.0
    # Divided first: squares of large ones overflow.
    return most * math.sqrt(float(((sizes / most) ** 2).sum())) if most else 0.0


def timeline(began: float, ended: float, waits: Sequence[tuple[float, float]]) -> str:
    """How busy a rank was in each of `SLOTS` equal parts of the time from ``began`` to ``ended``: digits, 9 for all.

    ``waits``: begin and end of each wait, in turn. A digit d stands for d/10 to (d + 1)/10 of the part.
    """
    edges = np.linspace(began, ended, SLOTS + 1)
    lengths = np.cumsum([end - start for start, end in waits])
    # The time waited up to any moment is a line that rises where the rank waits.
    moments = np.array([began, *(moment for wait in waits for moment in wait)])
    waited = np.interp(edges, moments, np.concatenate([[0.0, 0.0], np.repeat(lengths, 2)[:-1]]) if waits else [0.0])
    busy = 1.0 - np.diff(waited) / max((ended - began) / SLOTS, 1e-9)
    return "".join(str(digit) for digit in np.clip(10 * busy, 0, 9).astype(int).tolist())


def summary(shards: Sequence[ShardStatistics]) -> dict[str, Any]:
    """The metrics of an epoch's decoding from the sums of its shards, in shard order."""
    # Shards kept by earlier versions lack some.
    sums = {name: sum(told.sums.get(name, 0.0) for told in shards) for name in (*SUMS, "failed", "norm")}
    bleu = sum((told.bleu for told in shards), np.zeros((len(TRACKED_HYPOTHESES), WIDTH), dtype=np.int64))
    return {
        "sentences": int(sums["sentences"]),
        "gold": sums["gold"] / sums["sentences"],
        **{
            f"{name}_bleu": 100 * float(score) if counts.any() else None
            for name, score, counts in zip(TRACKED_HYPOTHESES, papineni(bleu), bleu, strict=True)
        },
        "length_ratio": sums["length"] / sums["reference"] if sums["reference"] else 0.0,
        "pairs": int(sums["pairs"]),
        "updates": int(sums["updates"]),
        "empty_outputs": int(sums["empty"]),
        "changing_lists": int(sums["changing"]),
        "list_change": sums["change"] / sums["changing"] if sums["changing"] else None,
        "shard_norm": sums["norm"] / len(shards) if sums["changing"] else None,
        "failed_sentences": int(sums["failed"]),
    }


def log_epoch(metrics: dict[str, Any]) -> None:
    """An epoch's line in the log."""
    bleu = "" if metrics["devtest_bleu"] is None else f", devtest BLEU {metrics['devtest_bleu']:.2f}"
    learned = f"{metrics['updates']} of {metrics['pairs']} pairs updated"
    if "objective" in metrics:
        learned = f"objective {metrics['objective']:.6g} after {metrics['updates']} steps"
    LOG.info(
        "epoch %d: mean gold score %.4f%s, %d features, %s, %.1f sentences/s",
        metrics["epoch"],
        metrics["gold"],
        bleu,
        metrics["selected_features"],
        learned,
        metrics["sentences"] / metrics["seconds"],
    )
