"""Which translations of a k-best list are compared: pairs of one with a higher and one with a lower gold score.

Every way gives int32 [pairs, 2], the preferred entry first, entries being places in the k-best list. Gold scores that
are equal never make a pair; wherever scores tie, the entry that stands earlier in the list comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from mpitune.errors import UsageError
from mpitune.jit import kernel

CANDIDATES = 5000
"""How many pairs PRO draws from a list (Gamma)."""
THRESHOLD = 0.05
"""The smallest difference of gold scores that PRO keeps."""
KEPT = 50
"""How many of the pairs that pass the threshold PRO keeps (Xi)."""


class Sampler(Protocol):
    """Pairs of one list, from its gold scores and model scores (float64 [k] each)."""

    def __call__(self, gold: np.ndarray, scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """int32 [pairs, 2]; ``random`` is drawn from by PRO only."""
        ...


@lru_cache(maxsize=4096)
def _set_size(k: int, share: float) -> int:
    """How many of ``k`` entries HI takes, and LOW: share * k, half rounded up, at least 1, at most k // 2.

    Computed from the decimal digits of ``share``: 0.15 of 30 is 4.5 and so 5, whatever the binary fraction says.
    """
    return min(max(1, math.floor(Fraction(str(share)) * k + Fraction(1, 2))), k // 2)


@kernel
def _pairs(order: np.ndarray, gold: np.ndarray, below: np.ndarray, pairs: np.ndarray) -> int:
    """Pair the entry of each rank i with those of ranks below[i], below[i] + 1 ...; returns how many pairs."""
    count = 0
    for i in range(len(order)):
        for j in range(below[i], len(order)):
            if gold[order[i]] != gold[order[j]]:
                pairs[count, 0] = order[i]
                pairs[count, 1] = order[j]
                count += 1
    return count


def _paired(order: np.ndarray, gold: np.ndarray, below: np.ndarray) -> np.ndarray:
    pairs = np.empty((len(order) * len(order) - int(below.sum()), 2), dtype=np.int32)
    return pairs[: _pairs(order, gold, below, pairs)]


def multipartite(gold: np.ndarray, share: float, extend_ties: bool) -> np.ndarray:
    """HI x MID, HI x LOW and MID x LOW of the list sorted by gold score (SRD12, section 3).

    HI is the first ``share`` of it, LOW the last, MID the rest. ``extend_ties`` grows HI downwards past ties, but not
    into LOW, then LOW upwards, but not into HI. Order of pairs: for each HI all MID, then all LOW; then for each MID
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
    return _paired(order, gold, below)


def everything(gold: np.ndarray) -> np.ndarray:
    """All pairs: each entry, best gold score first, with all that are worse."""
    return _paired(np.argsort(-gold, kind="stable"), gold, np.arange(1, len(gold) + 1, dtype=np.int64))


def pro(
    gold: np.ndarray,
    random: np.random.Generator,
    candidates: int = CANDIDATES,
    threshold: float = THRESHOLD,
    kept: int = KEPT,
) -> np.ndarray:
    """Hopkins & May 2011, figure 4: of ``candidates`` random pairs those far enough apart, the ``kept`` farthest.

    Pairs are drawn without replacement, all of them where there are fewer *(ours)*. Farthest first, ties in the order
    of drawing.
    """
    k = len(gold)
    if k < 2:
        return np.empty((0, 2), dtype=np.int32)
    count = k * (k - 1) // 2
    # Takes memory for the pairs that are drawn, not for those that there are.
    first, second = _numbered_pairs(random.choice(count, min(candidates, count), replace=False))
    difference = gold[first] - gold[second]
    far = np.flatnonzero((np.abs(difference) >= threshold) & (difference != 0))
    far = far[np.argsort(-np.abs(difference[far]), kind="stable")[:kept]]
    ahead = difference[far] > 0
    pairs = np.empty((len(far), 2), dtype=np.int32)
    pairs[:, 0] = np.where(ahead, first[far], second[far])
    pairs[:, 1] = np.where(ahead, second[far], first[far])
    return pairs


def _numbered_pairs(number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs i < j of entries with these numbers, j (j - 1) / 2 + i each; all int64 [n].

    Exact for numbers below 2^49, of lists of 33 million: floor(sqrt(x)) in float64 is the integer root below 2^52.
    """
    j = (1 + np.sqrt(8 * number + 1).astype(np.int64)) // 2
    return number - j * (j - 1) // 2, j


def hope_fear(gold: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """One pair: argmax of score - cost with argmax of score + cost, cost = 1 - gold (E12: M-C and M+C)."""
    if len(gold) == 0:
        return np.empty((0, 2), dtype=np.int32)
    cost = 1.0 - gold
    hope, fear = int(np.argmax(scores - cost)), int(np.argmax(scores + cost))
    # Hope can never be the worse one but by rounding.
    return np.array([(hope, fear)] if gold[hope] > gold[fear] else [], dtype=np.int32).reshape(-1, 2)


PAIRS: dict[str, Callable[[float, bool], Sampler]] = {
    "multipartite": lambda share, extend_ties: lambda gold, scores, random: multipartite(gold, share, extend_ties),
    "all": lambda share, extend_ties: lambda gold, scores, random: everything(gold),
    "pro": lambda share, extend_ties: lambda gold, scores, random: pro(gold, random),
    "hope-fear": lambda share, extend_ties: lambda gold, scores, random: hope_fear(gold, scores),
}
"""The ways to make pairs, by the name that a job gives them; share and extend_ties are used by multipartite only."""


def make_sampler(name: str, share: float = 0.1, extend_ties: bool = False) -> Sampler:
    """The sampler called ``name``. Raises UsageError where there is none, or where ``share`` is not in (0, 0.5]."""
    if name not in PAIRS:
        raise UsageError(f"learner.pairs: found {name!r}, expected one of {', '.join(PAIRS)}")
    if not 0 < share <= 0.5:
        raise UsageError(f"learner.share: found {share}, expected a share above 0, at most 0.5")
    return PAIRS[name](share, extend_ties)
