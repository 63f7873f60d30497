"""Add typical errors of word aligners to alignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from mpitune.demo.sentences import Pair
from mpitune.demo.synchronous import Link

LOST = 0.05
"""Probability that a link is lost."""
FAR = 0.3
"""Probability that a long-distance link is lost, such as that of a verb at the end of a clause."""
FAR_WORDS = 4
"""Least distance in words of a long-distance link."""
SWAPPED = 0.25
"""Probability that a link goes to another occurrence of a repeated word."""
COLLECTED = 0.4
"""Probability that a rare word also links to a frequent neighbour of its translation."""
RARE = 4
"""Largest number of occurrences of a rare word."""
FREQUENT = 60
"""Least number of occurrences of a frequent word."""


def misaligned(pairs: Sequence[Pair], random: Random) -> list[Pair]:
    """Return the pairs with errors in their alignments."""
    source = Counter(word for pair in pairs for word in pair.source)
    target = Counter(word for pair in pairs for word in pair.target)
    return [pair._replace(links=_misaligned(pair, source, target, random)) for pair in pairs]


def _misaligned(pair: Pair, source: Counter[str], target: Counter[str], random: Random) -> set[Link]:
    links: set[Link] = set()
    for i, j in sorted(pair.links):
        places = [k for k, word in enumerate(pair.target) if word == pair.target[j] and k != j]
        if random.random() < (FAR if abs(i - j) >= FAR_WORDS else LOST):
            continue
        links.add((i, random.choice(places) if places and random.random() < SWAPPED else j))
    for i, j in sorted(pair.links):
        if source[pair.source[i]] <= RARE:
            beside = [k for k in (j - 1, j + 1) if 0 <= k < len(pair.target) and target[pair.target[k]] >= FREQUENT]
            links |= {(i, k) for k in beside if random.random() < COLLECTED}
        if target[pair.target[j]] <= RARE:
            beside = [k for k in (i - 1, i + 1) if 0 <= k < len(pair.source) and source[pair.source[k]] >= FREQUENT]
            links |= {(k, j) for k in beside if random.random() < COLLECTED}
    return links
