"""Minimum Bayes risk over an n-best list (Kumar and Byrne, HLT-NAACL 2004): the entry most similar to all others.

The gain of an entry is its expected score with the entries of the list as references, each with its probability under
the model, the softmax of the scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from mpitune.decoder.base import KBest
from mpitune.metrics.choices import GainName
from mpitune.metrics.tuning_metric import Metric


class ExpectedGain:
    """Computes expected gains; ``words``, the vocabulary, may grow."""

    def __init__(self, name: GainName, words: Sequence[str]) -> None:
        self._metric = Metric({name: 1.0}, words)

    def of(self, kbest: KBest) -> np.ndarray:
        """float64 [k]: the expected gain of each entry of ``kbest``."""
        expected = np.zeros(kbest.size)
        for j, probability in enumerate(softmax(kbest.score).tolist()):
            if probability > 0:
                counted = self._metric.statistics(kbest, [kbest.translation(j)])
                expected += probability * self._metric.sentence_scores(counted)
        return expected
