"""Joining two directed alignments as the paper's pseudocode does it, over the whole matrix: slow and plain."""

from __future__ import annotations

from itertools import product

from mpitune.corpus.symmetrise import Link

CROSS = [(-1, 0), (0, -1), (1, 0), (0, 1)]
DIAGONAL = [(-1, -1), (-1, 1), (1, -1), (1, 1)]


def grow_diag_final_and(forward: list[Link], backward: list[Link], words: tuple[int, int]) -> list[Link]:
    """The links of a pair of so many source and target ``words``."""
    either = {*forward, *backward}
    links = {*forward} & {*backward}
    by_target = [(i, j) for j, i in product(range(words[1]), range(words[0]))]

    def free(link: Link) -> tuple[bool, bool]:
        return all(i != link[0] for i, _ in links), all(j != link[1] for _, j in links)

    before = -1
    while before != len(links):
        before = len(links)
        for i, j in by_target:
            if (i, j) in links:
                for down, right in CROSS + DIAGONAL:
                    near = i + right, j + down
                    if near in either and any(free(near)):
                        links.add(near)
    for directed in (forward, backward):
        for link in by_target:
            if link in directed and all(free(link)):
                links.add(link)
    return sorted(links)
