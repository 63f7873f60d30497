"""The errors of a word aligner, made on purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from sentences import Pair
from synchronous import Link

LOST = 0.05
"""How often a link is lost."""
FAR = 0.3
"""How often a link is lost that leads far from its neighbors, as those of verbs at the end of a clause do."""
FAR_WORDS = 4
SWAPPED = 0.25
"""How often a word that stands several times in a sentence is linked to the wrong one."""
COLLECTED = 0.4
"""How often a rare word attracts a frequent one that stands beside it, on the other side."""
RARE = 4
"""Words that occur at most so often are rare."""
FREQUENT = 60


def misaligned(pairs: Sequence[Pair], random: Random) -> list[Pair]:
    """The pairs with errors in their alignments: each word keeps at least the links that no error hits."""
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
