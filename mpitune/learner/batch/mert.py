"""MERT, minimum error rate training (Och 2003): maximises a metric over accumulated k-best lists.

Along a line w + t d the score of an entry is linear in t, so that the 1-best of a list changes only at the corners of
the upper envelope of its entries' lines. Between the corners of all lists a metric of additive statistics is constant,
so that the best t of the whole line is found exactly. A round searches along each feature, then along random
directions; rounds repeat until the gain is below `GAIN`. Searches start from the weights of the epoch before and from
random weights.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpitune.decoder.choices import MAX_SIZE
from mpitune.jit import at, kernel
from mpitune.learner.base import EvaluateShards, OptimizerResult, Reply
from mpitune.learner.batch.envelope import PARALLEL
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.pool import NBestPool
from mpitune.metrics.tuning_metric import Metric
from mpitune.schema import choice, number

LOG = logging.getLogger(__name__)

BEYOND = 0.1
"""Distance of t from the first or last corner if the optimum lies beyond it *(ours)*."""
NARROW = 1e-9
"""Intervals that are narrower, relative to t, are passed over *(ours)*."""
GAIN = 1e-5
"""A round with a smaller gain of the metric (BLEU: 0 to 1) is the last *(ours)*."""
MANY = 1000
"""More features than this cause a warning *(ours)*: each is a line search in every round."""


@METHODS.register("mert")
@dataclass(frozen=True)
class MertOptions(Method):
    """``[learner.mert]``: the options of MERT."""

    about = 'For method = "mert"; suitable for few features only.'
    is_batch = True
    uses_pairs = False
    smooths_bins = False

    search: str = choice(
        "kbest",
        "hypergraph",
        text="Line search: kbest (over the lists), hypergraph (also over all derivations of the epoch's forests; "
        "requires the embedded decoder and bleu).",
    )
    directions: int = number(
        10,
        0,
        MAX_SIZE,
        text="Random directions in each round, in addition to the axes; random starting points, in addition to the "
        "last weights.",
    )
    """Random directions in each round, besides the features."""
    restarts: int = number(10, 0, MAX_SIZE)
    """Random start weights, besides those of the epoch before."""

    def make(self, parts: Parts) -> Mert:
        if self.search == "kbest":
            return Mert(self, parts.metric)
        from mpitune.learner.batch.hypergraph import HypergraphMert  # which is a Mert

        return HypergraphMert(self, parts.metric)

    def remedy(self) -> str:
        return "raise decoder.kbest"

    def key_of_forests(self) -> str:
        return 'learner.mert.search = "hypergraph"' if self.search == "hypergraph" else ""


class Lines(NamedTuple):
    """The scores ``at + t slope`` of entries, sentence by sentence."""

    sentence_ptr: np.ndarray
    """int64 [sentences + 1]: entries of a sentence."""
    at: np.ndarray
    """float64 [entries]"""
    slope: np.ndarray
    """float64 [entries]"""
    statistics: np.ndarray
    """int64 [entries, columns]: statistics of `mpitune.metrics.tuning_metric`."""


class Envelope(NamedTuple):
    """The change of the 1-best entries' statistics along a line."""

    corner: np.ndarray
    """float64 [n]: t, ascending in each sentence."""
    change: np.ndarray
    """int64 [n, columns]: difference of the statistics at the corner."""
    first: np.ndarray
    """int64 [columns]: the statistics at t = -infinity."""


def envelope(lines: Lines) -> Envelope:
    """The corners of each sentence's upper envelope. Of identical lines the first entry counts."""
    sentence_ptr, at, slope, statistics = lines
    corner = np.empty(len(at))
    entry = np.empty(len(at), dtype=np.int64)
    count = np.empty(len(sentence_ptr) - 1, dtype=np.int64)
    _corners(sentence_ptr, at, slope, corner, entry, count)
    corners = int(np.maximum(count - 1, 0).sum())
    result = Envelope(
        np.empty(corners),
        np.empty((corners, statistics.shape[1]), dtype=np.int64),
        np.zeros(statistics.shape[1], dtype=np.int64),
    )
    _changes(sentence_ptr, statistics, corner, entry, count, result)
    return result


@kernel
def _changes(
    sentence_ptr: np.ndarray,
    statistics: np.ndarray,
    corner: np.ndarray,
    entry: np.ndarray,
    count: np.ndarray,
    result: Envelope,
) -> None:
    """Fill ``result`` from what `_corners` has found; ``result.first`` is 0 before."""
    n = 0
    for s in range(len(count)):
        start = sentence_ptr[s]
        for i in range(count[s]):
            row = statistics[entry[start + i]]
            if i == 0:
                # The first entry is the best at t = -infinity; the others begin at a corner.
                for c in range(len(row)):
                    result.first[c] += row[c]
                continue
            before = statistics[entry[start + i - 1]]
            result.corner[n] = corner[start + i]
            for c in range(len(row)):
                result.change[n, c] = row[c] - before[c]
            n += 1


@kernel
def _corners(
    sentence_ptr: np.ndarray,
    at: np.ndarray,
    slope: np.ndarray,
    corner: np.ndarray,
    entry: np.ndarray,
    count: np.ndarray,
) -> None:
    """Find the entries of each sentence's envelope and the t from which each is the maximum.

    ``sentence_ptr``: int64 [sentences + 1]; ``at``, ``slope``: float64 [entries]; ``corner``: float64 [entries] and
    ``entry``: int64 [entries], filled from each sentence's first row on; ``count``: int64 [sentences], filled: entries
    of the envelope. After a line, the next one is the line of larger slope that crosses it first, of several the
    steepest. Envelopes have few corners, so that this is faster than sorting. Slopes that differ by at most `PARALLEL`
    times the steepest one are the same.
    """
    for s in range(len(count)):
        start, end = sentence_ptr[s], sentence_ptr[s + 1]
        count[s] = 0
        if start == end:
            continue
        lowest = slope[start]
        steepest = 0.0
        for j in range(start, end):
            lowest = min(lowest, slope[j])
            steepest = max(steepest, abs(slope[j]))
        parallel = PARALLEL * steepest
        top = -1
        for j in range(start, end):
            if slope[j] - lowest <= parallel and (top < 0 or at[j] > at[top]):
                top = j
        t = -np.inf
        while top >= 0:
            corner[start + count[s]] = t
            entry[start + count[s]] = top
            count[s] += 1
            following = -1
            nearest = np.inf
            for j in range(start, end):
                if slope[j] - slope[top] > parallel:
                    crossing = (at[top] - at[j]) / (slope[j] - slope[top])
                    if crossing < nearest or (crossing == nearest and _above(at, slope, j, following)):
                        following = j
                        nearest = crossing
            # Corners must not decrease through rounding.
            t = max(t, nearest)
            top = following


@kernel
def _above(at: np.ndarray, slope: np.ndarray, j: int, other: int) -> bool:
    """True if line ``j`` is above line ``other`` to the right of their intersection, or if ``other`` is -1.

    ``at``, ``slope``: float64 [entries].
    """
    return other < 0 or slope[j] > slope[other] or (slope[j] == slope[other] and at[j] > at[other])


class MertObjective:
    """The lists of one shard."""

    pairs = 0

    def __init__(self, pool: NBestPool, place: np.ndarray) -> None:
        self._pool = pool
        self._place = place

    def lines(self, point: np.ndarray) -> Lines:
        """The lines of all entries; ``point``: float64 [2, features], w and d."""
        pool, (w, d) = self._pool, point[:, self._place]
        at, slope = np.empty((2, len(pool.fingerprint)))
        _fill_lines(pool.feature_ptr, pool.feature, pool.value, w, d, at, slope)
        return Lines(pool.sentence_ptr, at, slope, pool.statistics)

    def evaluate(self, point: np.ndarray) -> Reply:
        """The `Envelope` along the line w + t d; ``point``: float64 [2, features], w and d."""
        return envelope(self.lines(point))


@kernel
def _fill_lines(
    ptr: np.ndarray,
    feature: np.ndarray,
    value: np.ndarray,
    w: np.ndarray,
    d: np.ndarray,
    at_0: np.ndarray,
    slope: np.ndarray,
) -> None:
    """Fill ``at_0`` and ``slope`` (float64 [rows]) with the products of each row with ``w`` and ``d``, in row order.

    ``ptr``: int64 [rows + 1], ``feature``: int32, ``value``: float64, the rows (CSR), read once for both.
    """
    for j in range(len(at_0)):
        of_w = 0.0
        of_d = 0.0
        for e in range(at(ptr[j]), at(ptr[j + 1])):
            place = at(feature[e])
            of_w += w[place] * value[e]
            of_d += d[place] * value[e]
        at_0[j] = of_w
        slope[j] = of_d


class Mert:
    """An `mpitune.learner.base.BatchLearner`."""

    def __init__(self, options: MertOptions, metric: Metric) -> None:
        self._options = options
        self._score = metric.set_scores

    def shard_objective(
        self, pool: NBestPool, place: np.ndarray, random: Callable[[int], np.random.Generator]
    ) -> MertObjective:
        return MertObjective(pool, place)

    def optimise(
        self, weights: np.ndarray, free: np.ndarray, evaluate_shards: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        """Of several starts with the same score, the first counts."""
        if (features := int(free.sum())) > MANY:
            LOG.warning("MERT searches along each of %d features, which may take very long; consider PRO", features)
        best = self._climb(weights, free, evaluate_shards, random)
        for _ in range(self._options.restarts):
            start = np.where(free, random.uniform(-1, 1, len(weights)), weights)
            found = self._climb(start, free, evaluate_shards, random)
            if found.objective > best.objective:
                best = found
        return best

    def _climb(
        self, start: np.ndarray, free: np.ndarray, evaluate_shards: EvaluateShards, random: np.random.Generator
    ) -> OptimizerResult:
        weights, score, steps, gain = start, -np.inf, 0, np.inf
        while gain >= GAIN:
            before = score
            for direction in self._directions(free, random):
                t, found = search(list(evaluate_shards(np.stack([weights, direction]))), self._score)
                # Where the weights are at a corner, such as 0, all intervals may be worse.
                if found > score:
                    score = found
                    if t != 0:
                        weights, steps = _scaled(weights + t * direction, free), steps + 1
            gain = score - before
        return OptimizerResult(weights, score, steps)

    def _directions(self, free: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
        if not free.any():
            # No way to go, but the score of where it is.
            yield np.zeros(len(free))
            return
        for d in np.flatnonzero(free):
            axis = np.zeros(len(free))
            axis[d] = 1.0
            yield axis
        for _ in range(self._options.directions):
            yield np.where(free, random.uniform(-1, 1, len(free)), 0.0)


def _scaled(weights: np.ndarray, free: np.ndarray) -> np.ndarray:
    """``weights`` scaled to an l1 norm of 1 *(ours)*; unchanged if a frozen weight is not 0.

    A factor does not change the 1-best; without scaling, weights grow from line to line.
    """
    total = np.abs(weights).sum()
    return weights / total if total > 0 and not weights[~free].any() else weights


def search(envelopes: list[Reply], score: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """The t of the largest score along a line, and that score; of several t, the one nearest to 0.

    ``envelopes``: the shards' replies; ``score``: float64 [n], from summed statistics (int64 [n, columns]). Within an
    interval between corners, t is 0 if the interval contains 0, else its middle.
    """
    parts = [Envelope(*reply) for reply in envelopes]
    corner = np.concatenate([part.corner for part in parts])
    order = np.argsort(corner, kind="stable")
    corner = corner[order]
    # Integers: their sum does not depend on the order.
    change = np.concatenate([part.change for part in parts])[order]
    first = np.sum([part.first for part in parts], axis=0)
    total = np.concatenate([first[None], first + np.cumsum(change, axis=0)])
    low, high = np.append(-np.inf, corner), np.append(corner, np.inf)
    t = _inside(low, high)
    # Rounding puts corners apart that are one, such as those of t where all weights are 0.
    real = high - low > NARROW * np.abs(t)
    t, found = t[real], score(total[real])
    chosen = np.lexsort((t, np.abs(t), -found))[0]
    return float(t[chosen]), float(found[chosen])


def _inside(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """float64 [n]: a number between ``low`` and ``high`` (float64 [n], may be infinite); 0 if it lies between them."""
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(low), high - BEYOND, np.where(np.isinf(high), low + BEYOND, low / 2 + high / 2))
    return np.where((low < 0) & (high > 0), 0.0, middle)
