"""Pair sampling: the pairs of translations of a k-best list that a learner compares.

Every sampler returns int32 [pairs, 2], positions in the k-best list, the entry of higher gold score first. Entries of
equal gold score are never paired. Ties are resolved in favour of the entry that comes earlier in the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from mpitune.jit import kernel
from mpitune.registry import Registry

PRO_CANDIDATES = 5000
"""Pairs that PRO draws from each list (Gamma; Hopkins & May 2011)."""
PRO_THRESHOLD = 0.05
"""Smallest difference of gold scores that PRO keeps."""
PRO_KEPT = 50
"""Pairs of each list that PRO learns from (Xi): those of the largest differences."""


class Sampler(Protocol):
    """Samples the pairs of one list from its gold scores and model scores (float64 [k] each)."""

    def __call__(self, gold: np.ndarray, scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """int32 [pairs, 2]; only PRO draws from ``random``."""
        ...


@lru_cache(maxsize=4096)
def _set_size(k: int, share: float) -> int:
    """Size of HI and of LOW in a list of ``k`` entries: share * k, half rounded up, at least 1, at most k // 2.

    Computed from the decimal digits of ``share``: 0.15 of 30 is 4.5, so 5, although the binary fraction is smaller.
    """
    return min(max(1, math.floor(Fraction(str(share)) * k + Fraction(1, 2))), k // 2)


@kernel
def _fill_pairs(order: np.ndarray, gold: np.ndarray, below: np.ndarray, pairs: np.ndarray) -> int:
    """Pair the entry of each rank i with those of ranks below[i], below[i] + 1, ...; returns the number of pairs.

    ``order``: int64 [k], entries by rank; ``gold``: float64 [k]; ``below``: int64 [k]; ``pairs``: int32 [n, 2], filled.
    """
    count = 0
    for i in range(len(order)):
        for j in range(below[i], len(order)):
            if gold[order[i]] != gold[order[j]]:
                pairs[count, 0] = order[i]
                pairs[count, 1] = order[j]
                count += 1
    return count


def _make_pairs(order: np.ndarray, gold: np.ndarray, below: np.ndarray) -> np.ndarray:
    pairs = np.empty((len(order) * len(order) - int(below.sum()), 2), dtype=np.int32)
    return pairs[: _fill_pairs(order, gold, below, pairs)]


def multipartite(gold: np.ndarray, share: float, extend_ties: bool) -> np.ndarray:
    """HI x MID, HI x LOW and MID x LOW of the list sorted by gold score (Simianer, Riezler and Dyer 2012, section 3).

    HI is the first ``share`` of the list, LOW the last, MID the rest. ``extend_ties`` extends HI downwards past ties,
    not into LOW, then LOW upwards, not into HI. Order of pairs: for each HI all MID, then all LOW; then for each MID
    all LOW.
    """
    k = len(gold)
    if k < 2:
        return np.empty((0, 2), dtype=np.int32)
    order = np.argsort(-gold, kind="stable")
    high = _set_size(k, share)
    low = k - high
    if extend_ties:
        ranked = gold[order]
        while high < low and ranked[high] == ranked[high - 1]:
            high += 1
        while low > high and ranked[low - 1] == ranked[low]:
            low -= 1
    below = np.full(k, k, dtype=np.int64)
    below[:high] = high
    below[high:low] = low
    return _make_pairs(order, gold, below)


def all_pairs(gold: np.ndarray) -> np.ndarray:
    """All pairs: each entry, best gold score first, with all entries of lower gold score."""
    return _make_pairs(np.argsort(-gold, kind="stable"), gold, np.arange(1, len(gold) + 1, dtype=np.int64))


def pro(
    gold: np.ndarray,
    random: np.random.Generator,
    candidates: int = PRO_CANDIDATES,
    threshold: float = PRO_THRESHOLD,
    kept: int = PRO_KEPT,
    *,
    never_none: bool = False,
) -> np.ndarray:
    """PRO's sample: of ``candidates`` random pairs the ``kept`` of largest difference of gold scores, largest first.

    Hopkins & May 2011, figure 4. Differences below ``threshold`` are dropped. Pairs are drawn without replacement; all
    are used if there are fewer *(ours)*. Ties keep the order of drawing. ``never_none`` *(ours)*: if all differences
    are below ``threshold``, those of at least half the largest are kept.
    """
    k = len(gold)
    if k < 2:
        return np.empty((0, 2), dtype=np.int32)
    count = k * (k - 1) // 2
    # Takes memory for the drawn pairs only, not for all.
    first, second = _numbered_pairs(random.choice(count, min(candidates, count), replace=False))
    difference = gold[first] - gold[second]
    size = np.abs(difference)
    if never_none:
        largest = float(size.max())
        threshold = threshold if largest >= threshold else largest / 2
    if kept < len(size):
        # Only the largest differences need sorting.
        threshold = max(threshold, float(np.partition(size, -kept)[-kept]))
    far = np.flatnonzero((size >= threshold) & (difference != 0))
    far = far[np.argsort(-size[far], kind="stable")[:kept]]
    ahead = difference[far] > 0
    pairs = np.empty((len(far), 2), dtype=np.int32)
    pairs[:, 0] = np.where(ahead, first[far], second[far])
    pairs[:, 1] = np.where(ahead, second[far], first[far])
    return pairs


def _numbered_pairs(number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs i < j of entries (int64 [n] each) from their numbers, j (j - 1) / 2 + i (int64 [n]).

    Exact for numbers below 2^49, of lists of 33 million: floor(sqrt(x)) in float64 is the integer root below 2^52.
    """
    j = (1 + np.sqrt(8 * number + 1).astype(np.int64)) // 2
    return number - j * (j - 1) // 2, j


def hope_fear(gold: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """One pair: argmax of score - cost with argmax of score + cost, cost = 1 - gold (Eidelman 2012: M-C and M+C)."""
    if len(gold) == 0:
        return np.empty((0, 2), dtype=np.int32)
    cost = 1.0 - gold
    hope, fear = int(np.argmax(scores - cost)), int(np.argmax(scores + cost))
    # Only rounding can give the hope a lower gold score than the fear.
    return np.array([(hope, fear)] if gold[hope] > gold[fear] else [], dtype=np.int32).reshape(-1, 2)


SAMPLERS: Registry[Callable[[float, bool], Sampler]] = Registry(
    "mpitune.learner",
    parts={
        "pro": lambda share, extend_ties: lambda gold, scores, random: pro(gold, random, never_none=True),
        "multipartite": lambda share, extend_ties: lambda gold, scores, random: multipartite(gold, share, extend_ties),
        "all": lambda share, extend_ties: lambda gold, scores, random: all_pairs(gold),
        "hope-fear": lambda share, extend_ties: lambda gold, scores, random: hope_fear(gold, scores),
    },
)
"""By ``learner.pairs``: the sampler for a share and extend_ties, which only multipartite uses."""


def make_sampler(name: str, share: float, extend_ties: bool) -> Sampler:
    """The sampler called ``name``; ``share``: above 0, at most 0.5."""
    return SAMPLERS[name](share, extend_ties)
