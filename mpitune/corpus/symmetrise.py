"""Two directed word alignments of a sentence pair made into one: grow-diag-final-and.

A directed aligner gives each word of one side at most one word of the other. Links that both directions have are
seldom wrong; links that only one has are often right. grow-diag-final-and begins with the first kind and adds some of
the second (Koehn et al., "Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation", 2005; after
Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models", 2003). What is added depends on the
order in which links are looked at, for which the paper leaves room; the order is that of Moses' ``symal
-alignment=grow -diagonal=yes -final=yes -both=yes``, so the links are those that it gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

Link = tuple[int, int]
"""A word's position in the source sentence and one in the target sentence, from 0."""

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""Steps to the links around one, as (target, source), in the order in which they are tried."""


def grow_diag_final_and(forward: Iterable[Link], backward: Iterable[Link]) -> list[Link]:
    """The links of a sentence pair, by source position, then by target position.

    ``forward`` has at most one link for each target word, ``backward`` at most one for each source word.

    1. Begin with the links that both have.
    2. grow-diag: go through the links, by target position, then by source position. Of the eight links around each,
       add those that one direction has, as long as one of the two words is in no link yet. Links so added are gone
       through as well: in the same turn if their place is still to come, else in the next, until nothing is added.
    3. final-and: add what is left of ``forward``, then of ``backward``, in that order again, as long as both words
       are in no link yet.
    """
    # Within, a link is (target, source): then its natural order is the one to go by.
    ahead = {(target, source) for source, target in forward}
    back = {(target, source) for source, target in backward}
    either, links = ahead | back, ahead & back
    targets, sources = {target for target, _ in links}, {source for _, source in links}
    waiting = list(links)
    while waiting:
        turn, waiting = waiting, []
        heapify(turn)
        while turn:
            link = heappop(turn)
            for down, right in _NEIGHBOURS:
                target, source = near = link[0] + down, link[1] + right
                # A link is gone through once: what it could not add has both words in links, and will for good.
                if near in either and not (target in targets and source in sources):
                    links.add(near)
                    targets.add(target)
                    sources.add(source)
                    heappush(turn if near > link else waiting, near)
    for directed in (ahead, back):
        for target, source in sorted(directed - links):
            if target not in targets and source not in sources:
                links.add((target, source))
                targets.add(target)
                sources.add(source)
    return sorted((source, target) for target, source in links)
