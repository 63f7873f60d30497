"""Random k-best lists, and online learners for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from support import naive
from support.learner_options import mira_options, perceptron_options, sampler

from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import KBest
from mpitune.learner.base import Counts
from mpitune.learner.online.after_updates import Averaging, Composed
from mpitune.learner.online.mira import Mira
from mpitune.learner.online.perceptron import NormalizedPerceptron, Perceptron
from mpitune.learner.weights import Weights

SIZE = 30


def random_list(random: np.random.Generator, k: int, whole: bool = False) -> tuple[KBest, np.ndarray]:
    """A list whose rows share features, some constant, some in all rows, some rows twice, and zeros; gold scores."""
    slots = random.choice(SIZE, 14, replace=False)
    rows: list[naive.Row] = []
    for _ in range(k):
        row: naive.Row = {int(slots[0]): 2.0, int(slots[1]): 1.0 if whole else 0.3, int(slots[2]): 0.0}
        for slot in slots[3:6]:
            row[int(slot)] = float(random.integers(-3, 4)) if whole else float(random.normal())
        for slot in slots[6:]:
            if random.random() < 0.4:
                row[int(slot)] = float(random.integers(1, 3)) if whole else float(random.normal())
        rows.append(dict(rows[-1]) if rows and random.random() < 0.2 else row)
    return naive.kbest_of([[1]] * k, rows), random.integers(0, 12, k) / 16


class OnArrays:
    """An online learner that is called with plain arrays: weights, and the state that a pass begins and ends with."""

    def __init__(self, learner: Composed, frozen: np.ndarray, first_sparse: int = 0) -> None:
        self.learner, self._frozen, self._first_sparse = learner, frozen, first_sparse
        self._loaded: Weights | None = None

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = (), passes: int = 0) -> None:
        self._loaded = None
        loaded = self._on(weights)
        for name, array in zip(self.learner.state, state, strict=False):
            loaded.array(name)[: len(array)] = array
        self.learner.start_shard(loaded, passes)

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        return self.learner.update(kbest, gold, self._on(weights), random)

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        loaded = self._on(weights)
        self.learner.end_shard(loaded)
        return tuple(loaded.array(name) for name in self.learner.state)

    def _on(self, weights: np.ndarray) -> Weights:
        if self._loaded is None:
            self._loaded = Weights(FeatureTable(), self._first_sparse)
            self._loaded.resize(max(len(weights), len(self._frozen)))
            self._loaded.frozen[: len(self._frozen)] = self._frozen
        self._loaded.resize(len(weights))
        self._loaded.arrays["value"] = weights
        return self._loaded


def mask(frozen: Sequence[int], size: int = SIZE) -> np.ndarray:
    result = np.zeros(size, dtype=bool)
    result[[slot for slot in frozen if slot < size]] = True
    return result


def perceptron_learner(
    frozen: Sequence[int] = (), pairs: str = "multipartite", first_sparse: int = 0, size: int = SIZE, **options: Any
) -> OnArrays:
    """``size``: the slots that are known before the first list."""
    wanted = perceptron_options(**options)
    kind = NormalizedPerceptron if wanted.rate == "normalized" else Perceptron
    learner = kind(sampler(pairs), wanted)
    return OnArrays(Composed(learner, wanted.after_updates()), mask(frozen, size), first_sparse)


def averaged(learner: OnArrays, **options: bool) -> OnArrays:
    after = [*learner.learner.after, Averaging(**options)]
    return OnArrays(Composed(learner.learner.learner, after), learner._frozen, learner._first_sparse)


def mira_learner(frozen: Sequence[int] = (), size: int = SIZE, **options: Any) -> OnArrays:
    return OnArrays(Composed(Mira(mira_options(**options))), mask(frozen, size))
