"""Response curves of scores in bins: contribution to the model score as a function of a score's value.

For features in bins see Clark, Dyer and Lavie (TACL 2014) and `mpitune.grammar.binning`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mpitune.grammar.score_transforms import Scoring, apply_transform


class Response(NamedTuple):
    """The curve of one feature: its bins in ascending order of their (transformed) values."""

    feature: str
    transform: str | None
    least: np.ndarray
    """float64 [bins]: smallest value in each bin."""
    most: np.ndarray
    """float64 [bins]: largest value in each bin."""
    contribution: np.ndarray
    """float64 [bins]: contribution to the model score: the weights of the bins that fire for a value in this bin, plus,
    if the feature itself is kept, its weight times the middle value of the bin."""
    population: np.ndarray
    """int64 [bins]: number of rules in the training grammars with a value in the bin."""


def responses(scoring: Scoring, weights: Mapping[str, float]) -> list[Response]:
    """The curves of all features in bins, for these ``weights``."""
    curves = []
    for bins in scoring.bins:
        transform = scoring.transforms.get(bins.feature)
        least, most = (
            np.array([apply_transform(transform, v) for v in side.tolist()]) for side in (bins.least, bins.most)
        )
        weight = np.array([weights.get(name, 0.0) for name in bins.names])
        contribution = sum(
            (np.eye(len(weight), k=k) @ weight for k in range(-scoring.overlap, scoring.overlap + 1)),
            start=np.zeros(len(weight)),
        )
        if scoring.keep:
            contribution = contribution + weights.get(bins.feature, 0.0) * (least + most) / 2
        curve = Response(bins.feature, transform, least, most, contribution, bins.population)
        if least[0] > most[-1]:
            # The transform is decreasing: reverse the bins.
            curve = curve._replace(
                least=most[::-1], most=least[::-1], contribution=contribution[::-1], population=bins.population[::-1]
            )
        curves.append(curve)
    return curves
