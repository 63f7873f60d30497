"""Exact match: the share of translations that are equal to a reference, word for word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.metrics.tuning_metric import METRICS, Counter


@METRICS.register("exact")
class ExactMatch(Counter):
    """The statistics of a translation are 1 if it is equal to a reference, and 1, the number of translations."""

    label, width = "exact match", 2

    def __init__(self, words: Sequence[str]) -> None:
        """The statistics do not depend on the words."""

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        wanted = {reference.astype(np.int32).tobytes() for reference in references}
        found = [kbest.translation(j).astype(np.int32).tobytes() in wanted for j in range(kbest.size)]
        return np.stack([np.array(found, dtype=np.int64), np.ones(kbest.size, dtype=np.int64)], axis=1)

    @staticmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        share: np.ndarray = statistics[:, 0] / np.maximum(statistics[:, 1], 1)
        return share
