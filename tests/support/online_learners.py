"""Random k-best lists, and online learners for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from support import naive
from support.learner_options import mira_options, perceptron_options, sampler

from mpitune.decoder.base import KBest
from mpitune.learner.online.mira import Mira
from mpitune.learner.online.perceptron import Perceptron

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


def perceptron_learner(
    frozen: Sequence[int] = (), pairs: str = "multipartite", first_sparse: int = 0, **options: Any
) -> Perceptron:
    mask = np.zeros(SIZE, dtype=bool)
    mask[list(frozen)] = True
    return Perceptron(sampler(pairs), perceptron_options(**options), mask, first_sparse)


def mira_learner(frozen: Sequence[int] = (), **options: Any) -> Mira:
    mask = np.zeros(SIZE, dtype=bool)
    mask[list(frozen)] = True
    return Mira(mira_options(**options), mask)
