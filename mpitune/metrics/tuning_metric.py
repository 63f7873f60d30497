"""Corpus metrics of additive statistics, which a learner can optimise.

A row of statistics starts with those of BLEU, because metrics.jsonl always reports BLEU; the statistics of another
metric follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.metrics import bleu, chrf, sentence_bleu, ter
from mpitune.metrics.choices import TuningMetricName


class _Counter(Protocol):
    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray: ...


_COUNTERS: dict[TuningMetricName, tuple[int, Callable[[Sequence[str]], _Counter]]] = {
    "ter": (ter.WIDTH, ter.Ter),
    "chrf": (chrf.WIDTH, chrf.Chrf),
}
"""By metric other than BLEU: the number of its columns, and its counter for a vocabulary."""

SCORES: dict[TuningMetricName, Callable[[np.ndarray], np.ndarray]] = {
    "bleu": sentence_bleu.papineni,
    "ter": lambda statistics: ter.score(statistics[:, bleu.WIDTH :]),
    "chrf": lambda statistics: chrf.score(statistics[:, bleu.WIDTH :]),
}
"""By metric: float64 [n] from summed statistics (int64 [n, columns]); larger is better, so TER is negated."""


class Metric:
    """Counts the statistics of a metric."""

    def __init__(self, name: TuningMetricName, words: Sequence[str]) -> None:
        """``words``: the vocabulary, which may grow."""
        columns, counter = _COUNTERS.get(name, (0, None))
        self.width = bleu.WIDTH + columns
        self._counter = counter(words) if counter else None

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, width], by translation; ``references``: int32 [words] each, at least one."""
        counted = bleu.statistics(kbest, references)
        return np.hstack([counted, self._counter.statistics(kbest, references)]) if self._counter else counted
