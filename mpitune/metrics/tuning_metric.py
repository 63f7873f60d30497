"""The metrics that a learner can optimise: of single translations, and of a set by statistics that add up.

A row of statistics starts with those of BLEU, because metrics.jsonl always reports BLEU; those of the other metrics
follow. The statistics of a column of n-best lists are its value in whole units of 1 / `UNIT`, so that sums do not
depend on their order, and 1 where there is a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.metrics import bleu, sentence_bleu
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.registry import Registry

UNIT = 1 << 30
"""Units of 1 in the statistics of columns."""
SPREAD = 0.065
"""Mean standard deviation of a metric in a list, to which metrics other than BLEU alone are scaled *(ours)*, so that
margins and thresholds fit them: between those of `bleu+1` in 100-best lists of news commentary, 0.043, and of Multi30k,
0.100."""

CHOICES = ("1-best", "oracle", "random")
"""Choices of an entry of a list: the first; that of the largest sentence score; and one drawn at random, whose expected
statistics are the means of the list."""

_Scores = Callable[[np.ndarray], np.ndarray]
"""float64 [n] from statistics, int64 [n, columns]; larger is better."""


class Counter(ABC):
    """Counts the additive statistics of a metric that needs references; its class is registered in `METRICS`."""

    label: ClassVar[str]
    """The metric as it is printed."""
    width: ClassVar[int]
    """Number of statistics."""

    @abstractmethod
    def __init__(self, words: Sequence[str]) -> None:
        """``words``: the vocabulary, which may grow."""

    @abstractmethod
    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, width]: the statistics of each translation; ``references``: int32 [words] each, at least one."""

    @staticmethod
    @abstractmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: the scores, of which larger ones are better, from statistics, int64 [n, width]."""


METRICS: Registry[type[Counter]] = Registry("mpitune.metrics", first=("bleu", "ter", "chrf"))
"""Metrics of ``learner.metric`` that need references, by name."""


@METRICS.register("bleu")
class _Bleu(Counter):
    label, width, score = "BLEU", bleu.WIDTH, staticmethod(sentence_bleu.papineni)

    def __init__(self, words: Sequence[str]) -> None:
        """The statistics do not depend on the words."""

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        return bleu.statistics(kbest, references)


def column_score(statistics: np.ndarray) -> np.ndarray:
    """float64 [n]: means of a column from the sums of its statistics (int64 [n, 2]); 0 without values."""
    mean: np.ndarray = statistics[:, 0] / UNIT / np.maximum(statistics[:, 1], 1)
    return mean


class _Column(Counter):
    """Reads the statistics of column ``n`` of n-best lists."""

    width, score = 2, staticmethod(column_score)

    def __init__(self, n: int) -> None:
        self._n = n

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        # An empty translation in the place of a list without entries has no value.
        value = kbest.metrics[:, self._n : self._n + 1]
        return np.where(np.isnan(value), 0, np.hstack([np.rint(value * UNIT), np.ones_like(value)])).astype(np.int64)


class _Part(NamedTuple):
    """One of the metrics."""

    weight: float
    columns: slice
    """Its statistics."""
    of_set: _Scores
    of_sentence: _Scores


class Metric:
    """A weighted sum of metrics.

    The score of a set with a single metric of weight w is w times the metric. Otherwise, and for all sentence scores,
    each metric is multiplied by `SPREAD` / its own spread in the lists (`set_spreads`), and by its share in the
    weights' absolute sum. BLEU alone is not scaled.
    """

    def __init__(self, weights: Mapping[str, float], words: Sequence[str]) -> None:
        """``weights``: by metric; those that need no references are columns of n-best lists, in their order.

        ``words``: the vocabulary, which may grow.
        """
        self.names = list(weights)
        self._counters: list[Counter] = []
        self._parts: list[_Part] = []
        self.width, columns = bleu.WIDTH, 0
        for name, weight in weights.items():
            if name == "bleu":
                place = slice(0, bleu.WIDTH)
                self._parts.append(_Part(weight, place, sentence_bleu.papineni, sentence_bleu.bleu_plus_one))
                continue
            counter: Counter
            if name in METRICS:
                counter = METRICS[name](words)
            else:
                counter = _Column(columns)
                columns += 1
            self._counters.append(counter)
            place = slice(self.width, self.width + counter.width)
            self._parts.append(_Part(weight, place, counter.score, counter.score))
            self.width += counter.width
        self._needs_references = columns < len(weights)
        self._factors = np.ones(len(weights))

    @property
    def is_bleu(self) -> bool:
        """True for BLEU alone."""
        return self.names == ["bleu"] and self._parts[0].weight == 1

    def set_spreads(self, spreads: np.ndarray) -> None:
        """Set the mean standard deviations of the metrics in a list (float64 [metrics], above 0)."""
        weights = np.array([part.weight for part in self._parts])
        self._factors = weights * SPREAD / spreads / np.abs(weights).sum()

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, width], by translation; ``references``: int32 [words] each. Without any, those of BLEU are 0.

        Raises ValueError without references if a metric needs them.
        """
        if references or self._needs_references:
            counted = bleu.statistics(kbest, references)
        else:
            counted = np.zeros((kbest.size, bleu.WIDTH), dtype=np.int64)
        return np.hstack([counted, *(each.statistics(kbest, references) for each in self._counters)])

    def single_scores(self, statistics: np.ndarray, bleu_score: _Scores | None = None) -> np.ndarray:
        """float64 [n, metrics]: each metric of single translations; ``statistics``: int64 [n, width].

        ``bleu_score``: sentence BLEU from the statistics of BLEU, by default `bleu+1`.
        """
        columns = []
        for name, part in zip(self.names, self._parts, strict=True):
            score = bleu_score if bleu_score and name == "bleu" else part.of_sentence
            columns.append(score(np.ascontiguousarray(statistics[:, part.columns])))
        return np.stack(columns, axis=1)

    def sentence_scores(self, statistics: np.ndarray, bleu_score: _Scores | None = None) -> np.ndarray:
        """float64 [n]: scores of single translations, larger is better; the arguments of `single_scores`."""
        return self._sum(self.single_scores(statistics, bleu_score))

    def set_scores(self, sums: np.ndarray) -> np.ndarray:
        """float64 [n]: scores of sets from sums of statistics (int64 [n, width]), larger is better."""
        scores = [part.of_set(np.ascontiguousarray(sums[:, part.columns])) for part in self._parts]
        if len(scores) == 1:
            return self._parts[0].weight * scores[0]
        return self._sum(np.stack(scores, axis=1))

    def reported(self, sums: np.ndarray) -> list[float]:
        """`set_scores` as they are reported: of BLEU, TER or chrF alone 0 to 100."""
        percent = 100.0 if len(self.names) == 1 and self._needs_references else 1.0
        scores: list[float] = (percent * self.set_scores(sums)).tolist()
        return scores

    def choices(self, statistics: np.ndarray) -> np.ndarray:
        """float64 [3, width]: the statistics of `CHOICES` from those of a list, int64 [k, width]."""
        oracle = int(np.argmax(self.sentence_scores(statistics)))
        return np.stack([statistics[0], statistics[oracle], statistics.mean(axis=0)])

    def of_choices(self, sums: np.ndarray) -> list[float]:
        """`reported` of each of `CHOICES`, from sums of `choices` over lists."""
        return self.reported(np.rint(sums).astype(np.int64))

    def _sum(self, scores: np.ndarray) -> np.ndarray:
        # Not a product of matrices: equal rows must have equal sums.
        total = np.zeros(len(scores))
        for factor, column in zip(self._factors.tolist(), scores.T, strict=True):
            total += factor * column
        return total


class MetricGold(SentenceMetric):
    """The sentence score of a `Metric`; its statistics are int64 [k, width]."""

    def __init__(self, metric: Metric, bleu: SentenceMetric) -> None:
        """``bleu``: the gold score that stands for BLEU in a sum."""
        super().__init__(metric.sentence_scores)
        self._metric = metric
        self._bleu = bleu
        self.needs_previous_epoch = "bleu" in metric.names and bleu.needs_previous_epoch
        self.is_of_list = "bleu" not in metric.names or (bleu.is_of_list and not bleu.needs_previous_epoch)

    def start_epoch(self, best: np.ndarray) -> None:
        self._bleu.start_epoch(best)

    def start_shard(self) -> None:
        self._bleu.start_shard()

    def score(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        return self._metric.sentence_scores(statistics, lambda own: self._bleu.score(own, source_length, number))

    def update_context(self, statistics: np.ndarray, source_length: int) -> None:
        self._bleu.update_context(statistics[:, :WIDTH], source_length)
