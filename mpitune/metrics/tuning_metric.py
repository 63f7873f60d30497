"""Metrics of whole sets, by the statistics that add up to them: what a learner may make as good as it gets.

A row of statistics begins with those of BLEU, as metrics.jsonl tells BLEU of everything; another metric's come after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.metrics import bleu, chrf, sentence_bleu, ter


class _Counts(Protocol):
    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray: ...


_FURTHER: dict[str, tuple[int, Callable[[Sequence[str]], _Counts]]] = {
    "ter": (ter.WIDTH, ter.Ter),
    "chrf": (chrf.WIDTH, chrf.Chrf),
}
"""By metric: the columns that it adds, and what counts them, of the words of a vocabulary."""

SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bleu": sentence_bleu.papineni,
    "ter": lambda statistics: ter.score(statistics[:, bleu.WIDTH :]),
    "chrf": lambda statistics: chrf.score(statistics[:, bleu.WIDTH :]),
}
"""By metric: float64 [n] from summed statistics (int64 [n, columns]); more is better, so that TER's sign is changed."""


class Metric:
    """What counts the statistics of a metric."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        """``name``: one of `SCORES`; ``words``: the vocabulary, which may grow."""
        columns, counts = _FURTHER.get(name, (0, None))
        self.width = bleu.WIDTH + columns
        self._counts = counts(words) if counts else None

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, width] of each translation against ``references`` (int32 [words] each, at least one)."""
        counted = bleu.statistics(kbest, references)
        return np.hstack([counted, self._counts.statistics(kbest, references)]) if self._counts else counted
