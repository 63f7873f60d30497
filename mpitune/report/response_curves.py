"""Response curves: what a rule's score is worth to the model by its value, where the model has it in bins (CDL14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mpitune.grammar.score_transforms import Scoring, apply_transform


class Response(NamedTuple):
    """The curve of one feature; its bins in the order of ascending values, transformed where the job says so."""

    feature: str
    transform: str | None
    least: np.ndarray
    """float64 [bins]: the smallest value in each bin."""
    most: np.ndarray
    """float64 [bins]: the largest one."""
    worth: np.ndarray
    """float64 [bins]: what a rule with such a value gets: the weights of the bins that it fires, and, where the feature
    itself was kept, its weight times the value in the middle of the bin."""
    population: np.ndarray
    """int64 [bins]: how many rules of the grammars that were tuned on have such a value."""


def responses(scoring: Scoring, weights: Mapping[str, float]) -> list[Response]:
    """The curves of all features that ``scoring`` has put into bins, under ``weights``."""
    curves = []
    for bins in scoring.bins:
        transform = scoring.transforms.get(bins.feature)
        least, most = (
            np.array([apply_transform(transform, v) for v in side.tolist()]) for side in (bins.least, bins.most)
        )
        weight = np.array([weights.get(name, 0.0) for name in bins.names])
        worth = sum(
            (np.eye(len(weight), k=k) @ weight for k in range(-scoring.overlap, scoring.overlap + 1)),
            start=np.zeros(len(weight)),
        )
        if scoring.keep:
            worth = worth + weights.get(bins.feature, 0.0) * (least + most) / 2
        curve = Response(bins.feature, transform, least, most, worth, bins.population)
        if least[0] > most[-1]:
            # A transform that turns the order around.
            curve = curve._replace(
                least=most[::-1], most=least[::-1], worth=worth[::-1], population=bins.population[::-1]
            )
        curves.append(curve)
    return curves
