"""MERT, minimum error rate training (Och 2003): a metric of accumulated k-best lists, made as good as it gets.

Along a line w + t d the score of an entry is linear in t, so that the best of a list changes at few t: where the upper
envelope of its lines has a corner. Between the corners of all lists a metric whose statistics add up (BLEU, TER, chrF)
is constant, so that the best t of the whole line is found exactly. Lines are followed one after another, features
first, then random directions, until a round of all brings nothing more; from the weights of the epoch before and from
random ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.jit import kernel
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.pool import NBestPool, scores
from mpitune.metrics.tuning_metric import SCORES

LOG = logging.getLogger(__name__)

BEYOND = 0.1
"""How far past the first or the last corner of a line t goes, where that is best *(ours)*."""
GAIN = 1e-5
"""A round of all lines that brings less of the metric (BLEU: 0 to 1) is the last *(ours)*."""

MANY = 1000
"""More features than this make a warning *(ours)*: each is a line to follow in every round."""


@dataclass(frozen=True)
class MertOptions:
    """The options of MERT, named as in a job; the defaults are ours."""

    metric: str = "bleu"
    """One of `mpitune.metrics.tuning_metric.SCORES`."""
    directions: int = 10
    """Random directions in each round, besides the features."""
    restarts: int = 10
    """Random weights to start from, besides those of the epoch before."""


class Lines(NamedTuple):
    """The scores ``at + t slope`` of entries, sentence by sentence."""

    sentence_ptr: np.ndarray
    """int64 [sentences + 1]: entries of a sentence."""
    at: np.ndarray
    """float64 [entries]"""
    slope: np.ndarray
    """float64 [entries]"""
    statistics: np.ndarray
    """int64 [entries, columns]: those of the metric, BLEU's first."""


class Envelope(NamedTuple):
    """How the statistics of the best entries change along a line."""

    corner: np.ndarray
    """float64 [n]: t, ascending in each sentence."""
    change: np.ndarray
    """int64 [n, columns]: what is added to the statistics there."""
    first: np.ndarray
    """int64 [columns]: the statistics at t = -infinity."""


def envelope(lines: Lines) -> Envelope:
    """The corners of each sentence's upper envelope. Where lines are the same the earlier entry counts."""
    sentence_ptr, at, slope, statistics = lines
    corner = np.empty(len(at))
    entry = np.empty(len(at), dtype=np.int64)
    count = np.empty(len(sentence_ptr) - 1, dtype=np.int64)
    _corners(sentence_ptr, at, slope, corner, entry, count)
    # Each sentence's first entry is the best at t = -infinity; the others begin at a corner.
    place = np.arange(count.sum()) + np.repeat(sentence_ptr[:-1] - row_ends(count)[:-1], count)
    begins = np.zeros(len(place), dtype=np.bool_)
    begins[row_ends(count)[:-1][count > 0]] = True
    best = statistics[entry[place]]
    change = best[1:] - best[:-1]
    return Envelope(corner[place][~begins], change[~begins[1:]], best[begins].sum(axis=0))


@kernel
def _corners(
    sentence_ptr: np.ndarray,
    at: np.ndarray,
    slope: np.ndarray,
    corner: np.ndarray,
    entry: np.ndarray,
    count: np.ndarray,
) -> None:
    """From the beginning of each sentence's rows: the entries of its envelope, and where each takes over.

    From the line that is on top, the next one is that of larger slope which meets it first, the steepest of several:
    envelopes have few corners, so that this is faster than sorting.
    """
    for s in range(len(count)):
        start, end = sentence_ptr[s], sentence_ptr[s + 1]
        count[s] = 0
        if start == end:
            continue
        top = start
        for j in range(start + 1, end):
            if slope[j] < slope[top] or (slope[j] == slope[top] and at[j] > at[top]):
                top = j
        t = -np.inf
        while top >= 0:
            corner[start + count[s]] = t
            entry[start + count[s]] = top
            count[s] += 1
            following = -1
            nearest = np.inf
            for j in range(start, end):
                if slope[j] > slope[top]:
                    meets = (at[top] - at[j]) / (slope[j] - slope[top])
                    if meets < nearest or (meets == nearest and _above(at, slope, j, following)):
                        following = j
                        nearest = meets
            # Rounding must not make corners go back.
            t = max(t, nearest)
            top = following


@kernel
def _above(at: np.ndarray, slope: np.ndarray, j: int, other: int) -> bool:
    """Whether line ``j`` is above line ``other`` right of where they meet."""
    return other < 0 or slope[j] > slope[other] or (slope[j] == slope[other] and at[j] > at[other])


class MertPart:
    """The lists of one shard."""

    pairs = 0

    def __init__(self, pool: NBestPool, place: np.ndarray) -> None:
        self._pool = pool
        self._place = place

    def lines(self, question: np.ndarray) -> Lines:
        """The lines of all entries; ``question``: as in `answer`."""
        at, slope = (scores(self._pool, vector[self._place]) for vector in question)
        return Lines(self._pool.sentence_ptr, at, slope, self._pool.statistics)

    def answer(self, question: np.ndarray) -> Reply:
        """The `Envelope` along a line; ``question``: float64 [2, features], w and d."""
        return envelope(self.lines(question))


class Mert:
    """An `mpitune.learner.base.BatchLearner`."""

    def __init__(self, options: MertOptions) -> None:
        self._options = options
        self._score = SCORES[options.metric]

    def part(
        self, pool: NBestPool, place: np.ndarray, free: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> MertPart:
        return MertPart(pool, place)

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, ask: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """Where several starts come to the same score, the first counts."""
        if (features := int(free.sum())) > MANY:
            LOG.warning("MERT follows each of %d features in turn, which may take for ever: PRO does not", features)
        best = self._climb(weights, free, ask, random)
        for _ in range(self._options.restarts):
            start = np.where(free, random.uniform(-1, 1, len(weights)), weights)
            found = self._climb(start, free, ask, random)
            if found.objective > best.objective:
                best = found
        return best

    def _climb(
        self, start: np.ndarray, free: np.ndarray, ask: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        weights, score, steps, gain = start, -np.inf, 0, np.inf
        while gain >= GAIN:
            before = score
            for direction in self._directions(free, random):
                t, score = search(list(ask(np.stack([weights, direction]))), self._score)
                if t != 0:
                    weights, steps = _scaled(weights + t * direction, free), steps + 1
            gain = score - before
        return OptimizerResult(weights, score, steps)

    def _directions(self, free: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
        for d in np.flatnonzero(free):
            axis = np.zeros(len(free))
            axis[d] = 1.0
            yield axis
        for _ in range(self._options.directions):
            yield np.where(free, random.uniform(-1, 1, len(free)), 0.0)


def _scaled(weights: np.ndarray, free: np.ndarray) -> np.ndarray:
    """With absolute values that add up to 1 *(ours)*, where none but the free weights are other than 0.

    No factor changes what is best; left alone, weights grow from line to line.
    """
    total = np.abs(weights).sum()
    return weights / total if total > 0 and not weights[~free].any() else weights


def search(envelopes: list[Reply], score: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """The t of the largest score along a line, and that score; of several the t nearest to 0.

    ``score``: float64 [n], from summed statistics (int64 [n, columns]).
    Inside an interval between corners t is its middle, but for the one around 0, where it is 0.
    """
    parts = [Envelope(*reply) for reply in envelopes]
    corner = np.concatenate([part.corner for part in parts])
    order = np.argsort(corner, kind="stable")
    corner = corner[order]
    # Integers: whatever the order of their sum, it is the same.
    change = np.concatenate([part.change for part in parts])[order]
    first = np.sum([part.first for part in parts], axis=0)
    total = np.concatenate([first[None], first + np.cumsum(change, axis=0)])
    low, high = np.append(-np.inf, corner), np.append(corner, np.inf)
    t = _inside(low, high)
    # Where corners are next to each other or the same, there is nothing between them.
    real = (low < t) & (t < high)
    t, found = t[real], score(total[real])
    chosen = np.lexsort((t, np.abs(t), -found))[0]
    return float(t[chosen]), float(found[chosen])


def _inside(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """float64 [n]: a number between ``low`` and ``high``, each of which may be infinite: 0 wherever it can be."""
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(low), high - BEYOND, np.where(np.isinf(high), low + BEYOND, low / 2 + high / 2))
    return np.where((low < 0) & (high > 0), 0.0, middle)
