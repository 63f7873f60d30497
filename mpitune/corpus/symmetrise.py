"""Symmetrisation of two directed word alignments of a sentence pair by grow-diag-final-and.

A directed aligner links each word of one side to at most one word of the other. Links of both directions are seldom
wrong; links of one direction are often right. grow-diag-final-and begins with the former and adds some of the latter
(Koehn et al., "Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation", 2005; after Och and Ney,
"A Systematic Comparison of Various Statistical Alignment Models", 2003). The result depends on the order in which links
are visited, which the paper leaves open. The order here is that of Moses' ``symal -alignment=grow -diagonal=yes
-final=yes -both=yes``, and so are the links.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

Link = tuple[int, int]
"""A word's position in the source sentence and one in the target sentence, from 0."""

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""Offsets of the eight neighbours of a link as (target, source), in the order in which they are visited."""


def grow_diag_final_and(forward: Iterable[Link], backward: Iterable[Link]) -> list[Link]:
    """The links of a sentence pair, by source position, then by target position.

    ``forward`` has at most one link for each target word, ``backward`` at most one for each source word.

    1. Begin with the links of both directions.
    2. grow-diag: visit the links by target position, then by source position. Of the eight neighbours of each, add
       those of either direction with a word that is not linked yet. Added links are visited as well: in the same pass
       if their position is still to come, else in the next pass, until a pass adds nothing.
    3. final-and: add the remaining links of ``forward``, then of ``backward``, in the same order, if both words are
       not linked yet.
    """
    # In this function, a link is (target, source), so that tuples sort in the order of visits.
    ahead = {(target, source) for source, target in forward}
    back = {(target, source) for source, target in backward}
    either, links = ahead | back, ahead & back
    targets, sources = {target for target, _ in links}, {source for _, source in links}
    next_pass = list(links)
    while next_pass:
        this_pass, next_pass = next_pass, []
        heapify(this_pass)
        while this_pass:
            link = heappop(this_pass)
            for down, right in _NEIGHBOURS:
                target, source = near = link[0] + down, link[1] + right
                # One visit per link is enough: a neighbour that was not added has both words linked, and keeps them.
                if near in either and not (target in targets and source in sources):
                    links.add(near)
                    targets.add(target)
                    sources.add(source)
                    heappush(this_pass if near > link else next_pass, near)
    for directed in (ahead, back):
        for target, source in sorted(directed - links):
            if target not in targets and source not in sources:
                links.add((target, source))
                targets.add(target)
                sources.add(source)
    return sorted((source, target) for target, source in links)
