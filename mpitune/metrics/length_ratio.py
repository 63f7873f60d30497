"""The length of translations: their words / words of the closest references. More counts as better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.metrics import bleu
from mpitune.metrics.tuning_metric import METRICS, Counter


@METRICS.register("length_ratio")
class LengthRatio(Counter):
    """The statistics of a translation are those lengths."""

    label, width, decimals, percent, tokenized = "length", 2, 3, False, True

    def __init__(self, words: Sequence[str]) -> None:
        """The statistics do not depend on the words."""

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        return bleu.statistics(kbest, references)[:, [bleu.LENGTH, bleu.REFERENCE]]

    @staticmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        ratio: np.ndarray = statistics[:, 0] / np.maximum(statistics[:, 1], 1)
        return ratio
