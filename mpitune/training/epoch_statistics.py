"""Statistics of an epoch: sums over its sentences, and the metrics computed from them."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.decoder.base import Decoder, KBest
from mpitune.learner.base import Counts
from mpitune.learner.weights import SparseWeights
from mpitune.metrics.bleu import LENGTH, REFERENCE, WIDTH
from mpitune.metrics.sentence_bleu import papineni
from mpitune.metrics.tuning_metric import CHOICES, Metric

if TYPE_CHECKING:
    from mpitune.training.session import ScoredList

LOG = logging.getLogger(__name__)

SUMS = ("sentences", "gold", "pairs", "updates", "length", "reference", "empty", "change", "changing")
"""Sums over the sentences of a shard. ``length`` and ``reference``: words of 1-best translations and of closest
references; ``change``: norms of the weight changes by single lists; ``changing``: lists that changed a weight."""
TRACKED_HYPOTHESES = ("best", "oracle", "prediction")
"""Translations whose corpus BLEU is reported: the 1-best, and the oracle and prediction that the method selects."""


class ShardStatistics(NamedTuple):
    """Statistics of one shard."""

    shard: int
    sums: dict[str, float]
    """By name: `SUMS`, ``failed`` (sentences that the decoder could not translate), ``norm`` (L2 norm of the weights at
    the end of the shard, 0 for batch methods), and ``seconds``."""
    bleu: np.ndarray
    """int64 [3, 11]: summed statistics of `TRACKED_HYPOTHESES`; 0 where the method selects none."""
    choices: np.ndarray
    """float64 [3, columns]: summed statistics of the metric, of `CHOICES`."""


class Scores(NamedTuple):
    """Scores of the devtest set; None if the job has none, or if it has no references to compare with."""

    bleu: float | None
    """Corpus BLEU, 0 to 100."""
    length_ratio: float | None
    """Words of the translations to words of their closest references."""
    metric: float | None = None
    """``learner.metric``, if it is another one than BLEU."""

    @property
    def tuned(self) -> float | None:
        """The score that epochs are compared by."""
        return self.bleu if self.metric is None else self.metric

    @property
    def text(self) -> str:
        """The scores, for the log; empty without any."""
        bleu = [] if self.bleu is None else [f"devtest BLEU {self.bleu:.2f}"]
        return ", ".join(bleu + ([] if self.metric is None else [f"devtest metric {self.metric:.6g}"]))


NOT_SCORED = Scores(None, None)


@dataclass(frozen=True)
class EpochResult:
    """Weights and statistics of an epoch."""

    weights: SparseWeights
    metrics: dict[str, Any]
    """Metrics of the weights; on rank 0."""
    shards: list[ShardStatistics]
    """The shards that this rank decoded."""
    norms: SparseWeights = SparseWeights()
    """Column norms of the selected features, if there was a selection; on rank 0."""


class ListStatistics(NamedTuple):
    """Statistics of lists that were learned from, n of them."""

    hypotheses: np.ndarray
    """int64 [n, 3, 11]: statistics of `TRACKED_HYPOTHESES`, 0 for those that there are none of."""
    choices: np.ndarray
    """float64 [n, 3, columns]: statistics of the metric, of `CHOICES`."""
    numbers: np.ndarray
    """float64 [n, 9]: what `SUMS` add up."""


class StatisticsAccumulator:
    """Accumulates the statistics of one shard."""

    def __init__(self, decoder: Decoder, metric: Metric) -> None:
        self._decoder = decoder
        self._metric = metric
        self._began, self._failed = time.monotonic(), decoder.failed
        self._sums = np.zeros(len(SUMS))
        self._bleu = np.zeros((len(TRACKED_HYPOTHESES), WIDTH), dtype=np.int64)
        self._choices = np.zeros((len(CHOICES), metric.width))

    def add(self, scored: ScoredList, counts: Counts, change: float = 0.0) -> None:
        """Add a sentence; ``change``: L2 norm of the change of the weights by its list."""
        statistics, kbest = scored.statistics, scored.kbest
        hypotheses = np.zeros_like(self._bleu)
        for row, entry in zip(hypotheses, (0, counts.oracle, counts.prediction), strict=True):
            row[:] = statistics[entry, :WIDTH] if entry >= 0 else 0
        lengths = statistics[0, [LENGTH, REFERENCE]].tolist()
        # Without features, it is not a translation: there was no list, or the decoder has failed.
        empty = len(scored.source) > 0 and len(kbest.translation(0)) == 0 and len(kbest.feature_index) > 0
        numbers = [1.0, scored.best, counts.pairs, counts.updates, *lengths, empty, change, change > 0]
        choices = self._metric.choices(statistics)
        self.add_lists(ListStatistics(hypotheses[None], choices[None], np.array([numbers])))

    def add_lists(self, lists: ListStatistics) -> None:
        """Add ``lists``, one after the other: sums of fractions depend on the order."""
        self._bleu += lists.hypotheses.sum(axis=0)
        self._choices = _added(self._choices, lists.choices)
        self._sums = _added(self._sums, lists.numbers)

    def statistics(self, shard: int, weights: np.ndarray | None = None) -> ShardStatistics:
        """The statistics of the completed shard; ``weights``: float64 [n], the learned ones."""
        more = {
            "failed": float(self._decoder.failed - self._failed),
            "norm": 0.0 if weights is None else norm(weights),
            "seconds": time.monotonic() - self._began,
        }
        sums = dict(zip(SUMS, self._sums.tolist(), strict=True))
        return ShardStatistics(shard, sums | more, self._bleu, self._choices)


def _added(total: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``total`` (float64 [..]) plus each of ``rows`` (float64 [n, ..]) in their order."""
    sum_: np.ndarray = np.add.accumulate(np.concatenate([total[None], rows]))[-1]
    return sum_


class Change:
    """The change of weights by one list."""

    def __init__(self, kbest: KBest, weights: np.ndarray, *, changes_all: bool = False) -> None:
        """``weights``: float64 [slots], before the update.

        ``changes_all``: the update may change weights of features that are not in the list.
        """
        # All slots if there are few: finding the distinct ones takes longer than comparing the others.
        few = len(weights) <= len(kbest.feature_index)
        self._slots = slice(None) if few or changes_all else np.unique(kbest.feature_index)
        self._before = weights[self._slots].copy()

    def norm(self, weights: np.ndarray) -> float:
        """L2 norm of the change; ``weights``: after the update."""
        return norm(weights[self._slots] - self._before)


def norm(values: np.ndarray) -> float:
    """L2 norm of ``values`` (float64 [n]), bit for bit independent of their order, which differs between ranks."""
    return float(norms(np.array([0, len(values)]), values)[0])


def norms(ptr: np.ndarray, values: np.ndarray) -> np.ndarray:
    """float64 [n]: `norm` of each of the rows ``values[ptr[i]:ptr[i + 1]]`` (float64; ``ptr``: int64 [n + 1])."""
    nonzero = values[: ptr[-1]] != 0
    sizes = np.abs(values[: ptr[-1]][nonzero])
    ptr = row_ends(nonzero)[ptr]
    length, result = np.diff(ptr), np.zeros(len(ptr) - 1)
    # Rows of the same length at a time: the order of NumPy's sum depends on it.
    for n in np.unique(length[length > 0]).tolist():
        rows = np.flatnonzero(length == n)
        sorted_ = np.sort(sizes[ptr[rows, None] + np.arange(n)])
        most = sorted_[:, -1]
        # Scaled first: squares of large values overflow.
        result[rows] = most * np.sqrt(np.square(sorted_ / most[:, None]).sum(axis=1))
    return result


def summary(shards: Sequence[ShardStatistics], metric: Metric) -> dict[str, Any]:
    """The metrics of an epoch's decoding from the sums of its shards, in shard order."""
    sums = {name: sum(shard.sums[name] for shard in shards) for name in (*SUMS, "failed", "norm")}
    bleu = sum((shard.bleu for shard in shards), np.zeros((len(TRACKED_HYPOTHESES), WIDTH), dtype=np.int64))
    choices = sum((shard.choices for shard in shards), np.zeros((len(CHOICES), metric.width)))
    return {
        "sentences": int(sums["sentences"]),
        "gold": sums["gold"] / sums["sentences"],
        **{
            f"{name}_bleu": 100 * float(score) if counts.any() else None
            for name, score, counts in zip(TRACKED_HYPOTHESES, papineni(bleu), bleu, strict=True)
        },
        **dict(zip(("metric_best", "metric_oracle", "metric_random"), metric.of_choices(choices), strict=True)),
        "length_ratio": sums["length"] / sums["reference"] if sums["reference"] else None,
        "pairs": int(sums["pairs"]),
        "updates": int(sums["updates"]),
        "empty_outputs": int(sums["empty"]),
        "changing_lists": int(sums["changing"]),
        "list_change": sums["change"] / sums["changing"] if sums["changing"] else None,
        "shard_norm": sums["norm"] / len(shards) if sums["changing"] else None,
        "failed_sentences": int(sums["failed"]),
    }


def log_epoch(metrics: dict[str, Any]) -> None:
    """Log one line for an epoch."""
    devtest = Scores(metrics["devtest_bleu"], None, metrics["devtest_metric"]).text
    learned = f"{metrics['updates']} of {metrics['pairs']} pairs updated"
    if "objective" in metrics:
        learned = f"objective {metrics['objective']:.6g} after {metrics['updates']} steps"
    LOG.info(
        "epoch %d: mean gold score %.4f%s, %d features, %s, %.1f sentences/s",
        metrics["epoch"],
        metrics["gold"],
        f", {devtest}" if devtest else "",
        metrics["selected_features"],
        learned,
        metrics["sentences"] / metrics["seconds"],
    )
