"""Gold scores of metrics other than BLEU, and of sums with BLEU."""

from __future__ import annotations

import numpy as np

from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.metrics.tuning_metric import Metric


class MetricGold(SentenceMetric):
    """The sentence score of a `Metric`; its statistics are int64 [k, width]."""

    def __init__(self, metric: Metric, bleu: SentenceMetric) -> None:
        """``bleu``: the gold score that stands for BLEU in a sum."""
        super().__init__(metric.sentence_scores)
        self._metric = metric
        self._bleu = bleu
        self.needs_previous_epoch = "bleu" in metric.names and bleu.needs_previous_epoch

    def start_epoch(self, best: np.ndarray) -> None:
        self._bleu.start_epoch(best)

    def start_shard(self) -> None:
        self._bleu.start_shard()

    def score(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        return self._metric.sentence_scores(statistics, lambda own: self._bleu.score(own, source_length, number))

    def update_context(self, statistics: np.ndarray, source_length: int) -> None:
        self._bleu.update_context(statistics[:, :WIDTH], source_length)
