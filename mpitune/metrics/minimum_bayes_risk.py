"""Minimum Bayes risk over an n-best list (Kumar and Byrne, HLT-NAACL 2004): the entry most similar to all others.

The gain of an entry is its expected score with the entries of the list as references, each with its probability under
the model, the softmax of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import softmax

from mpitune.decoder.base import KBest
from mpitune.metrics.choices import GainName
from mpitune.metrics.sentence_bleu import bleu_plus_one
from mpitune.metrics.tuning_metric import SCORES, Metric

GAINS: dict[GainName, Callable[[np.ndarray], np.ndarray]] = {"bleu": bleu_plus_one, "chrf": SCORES["chrf"]}
"""By name: float64 [k], scores of single translations, from the statistics of a `Metric` of the name."""


class ExpectedGain:
    """Computes expected gains; ``words``, the vocabulary, may grow."""

    def __init__(self, name: GainName, words: Sequence[str]) -> None:
        self._metric = Metric(name, words)
        self._gain = GAINS[name]

    def of(self, kbest: KBest) -> np.ndarray:
        """float64 [k]: the expected gain of each entry of ``kbest``."""
        expected = np.zeros(kbest.size)
        for j, probability in enumerate(softmax(kbest.score).tolist()):
            if probability > 0:
                expected += probability * self._gain(self._metric.statistics(kbest, [kbest.translation(j)]))
        return expected
