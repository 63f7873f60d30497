"""Minimum Bayes risk over an n-best list (Kumar and Byrne, HLT-NAACL 2004): the entry most similar to all others.

The gain of an entry is its expected score with the entries of the list as references, each with its probability under
the model, the softmax of the scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.metrics.tuning_metric import METRICS, known_metrics
from mpitune.portable_math import exps


class ExpectedGain:
    """Computes expected gains."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        """``name``: one of `METRICS`, else UsageError; ``words``: the vocabulary, which may grow."""
        [known] = known_metrics([name], "--mbr")
        self._metric = METRICS[known](words)

    def of(self, kbest: KBest) -> np.ndarray:
        """float64 [k]: the expected gain of each entry of ``kbest``."""
        expected = np.zeros(kbest.size)
        for j, probability in enumerate(_softmax(kbest.score).tolist()):
            if probability > 0:
                counted = self._metric.statistics(kbest, [kbest.translation(j)])
                expected += probability * self._metric.sentence_score(counted)
        return expected


def _softmax(scores: np.ndarray) -> np.ndarray:
    """float64 [k]: the probabilities of entries with these ``scores`` (float64 [k])."""
    shares = exps(scores - scores.max(initial=-np.inf))
    found: np.ndarray = shares / shares.sum()
    return found
