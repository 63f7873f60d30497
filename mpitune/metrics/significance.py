"""Significance of the difference between two systems that have several runs each, and Holm's correction.

A run is one execution of the optimizer; its translations differ from those of another run by the optimizer's random
choices alone. J. H. Clark, C. Dyer, A. Lavie and N. A. Smith, *Better Hypothesis Testing for Statistical Machine
Translation: Controlling for Optimizer Instability*, ACL 2011.

The statistic of both tests is the absolute difference of two corpus scores, each of the translations of all runs of a
system together. A p-value is (1 + trials that reach the observed difference) / (1 + trials). Every call starts from the
same seed, so that equal texts give equal p-values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mpitune.metrics.choices import SignificanceTest

TRIALS: dict[SignificanceTest, int] = {"ar": 10_000, "bootstrap": 1_000}
"""By test: the number of trials, sacreBLEU's defaults."""
SEED = 12345

_ROUNDING = 1e-9
"""Differences this close are equal."""
_BLOCK = 1 << 21
"""Labels drawn at a time."""

PValues = Mapping[str, float]
"""By metric."""
Scores = Callable[[np.ndarray], Mapping[str, np.ndarray]]
"""By metric: float64 [n], from sums of statistics, whole numbers [n, columns]."""


class Interval(NamedTuple):
    """95 % of the resamples lie in ``mean`` +- ``half_width``."""

    mean: float
    half_width: float


def approximate_randomization(first: np.ndarray, second: np.ndarray, scores: Scores) -> PValues:
    """p-values of stratified approximate randomisation (Noreen 1989; Clark et al. 2011).

    ``first``, ``second``: statistics of the systems' translations, int64 [sentences, runs, columns]; the numbers of
    runs may differ. In each trial, the labels of the systems are permuted among all translations of a sentence, of all
    runs of both systems, with equal probability, and independently of other sentences. With one run each, this is the
    exchange of the two translations with probability 1/2.
    """
    translations = np.concatenate([first, second], axis=1)
    sentences, size, _ = translations.shape
    of_first = np.arange(size) < first.shape[1]
    observed = label_differences(translations, np.broadcast_to(of_first, (1, sentences, size)), scores)
    generator = np.random.default_rng(SEED)
    reached = dict.fromkeys(observed, 0)
    step = max(1, _BLOCK // (sentences * size))
    for begin in range(0, TRIALS["ar"], step):
        shape = min(step, TRIALS["ar"] - begin), sentences, size
        labels = generator.permuted(np.broadcast_to(of_first, shape), axis=2)
        for name, differences in label_differences(translations, labels, scores).items():
            reached[name] += int((differences >= observed[name] - _ROUNDING).sum())
    return {name: (count + 1) / (TRIALS["ar"] + 1) for name, count in reached.items()}


def label_differences(translations: np.ndarray, labels: np.ndarray, scores: Scores) -> dict[str, np.ndarray]:
    """By metric, float64 [trials]: the absolute difference of the systems' scores for given labels.

    ``translations``: int64 [sentences, size, columns]; ``labels``: bool [trials, sentences, size], true for the
    translations that belong to the first system. They have the same number in every trial.
    """
    rows = translations.reshape(-1, translations.shape[2]).astype(np.float64)
    # The sums are whole numbers below 2^53: exact, in any order.
    sums = labels.reshape(len(labels), -1).astype(np.float64) @ rows
    return _differences(scores(sums), scores(rows.sum(axis=0) - sums))


def bootstrap(first: np.ndarray, second: np.ndarray, scores: Scores) -> PValues:
    """p-values of the paired bootstrap (Koehn 2004), the test that sacreBLEU has; arguments as above.

    A sentence is resampled with the translations of all runs of both systems. The statistic of a resample is its
    absolute difference minus the mean of these over all resamples.
    """
    observed = _differences(scores(_summed(first)), scores(_summed(second)))
    result = {}
    for name, differences in _differences(scores(resampled_sums(first)), scores(resampled_sums(second))).items():
        reached = int((differences - differences.mean() >= observed[name] - _ROUNDING).sum())
        result[name] = (reached + 1) / (len(differences) + 1)
    return result


def resampled_sums(statistics: np.ndarray) -> np.ndarray:
    """float64 [resamples, columns]: sums over sentences drawn with replacement, the same ones for every system."""
    sentences = len(statistics)
    drawn = np.random.default_rng(SEED).choice(sentences, size=(TRIALS["bootstrap"], sentences), replace=True)
    counts = np.stack([np.bincount(row, minlength=sentences) for row in drawn])
    sums: np.ndarray = counts.astype(np.float64) @ statistics.sum(axis=1).astype(np.float64)
    return sums


def interval(scores: np.ndarray) -> Interval:
    """The interval of the ``scores`` (float64 [resamples]) of resamples."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return Interval(float(ordered.mean()), float(ordered[-1 - cut] - ordered[cut]) / 2)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of several tests, corrected by Holm's method (1979): it bounds the probability of any false positive."""
    corrected, largest = list(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def _differences(some: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.abs(of_some - others[name]) for name, of_some in some.items()}


def _summed(statistics: np.ndarray) -> np.ndarray:
    total: np.ndarray = statistics.sum(axis=(0, 1))[None]
    return total
