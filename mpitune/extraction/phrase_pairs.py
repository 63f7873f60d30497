"""What one occurrence of a source side yields: the targets that are consistent with the word alignment.

A source side without gaps at its edges, a core, occurs in a pair of sentences as a span with holes. Its rule is the
smallest phrase pair around it; links that lead out of the span force a gap at an edge. Three more rules come of letting
a gap follow, precede, or do both (Chiang 2007, section 3.2; Lopez 2007; tight phrases: no unlinked word at an edge of a
phrase or of a gap).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.suffix_array import AlignedTexts
from mpitune.jit import int64, kernel

SPAN = 15
"""The most words that a rule covers, on either side."""
SYMBOLS = 5
"""The most symbols of a source side, gaps among them."""
GAPS = 2
LEFT, RIGHT = 2, 1
"""Bits of the edges that have a gap."""


class Core(NamedTuple):
    """A source side without gaps at its edges, at one place."""

    at: np.ndarray
    """int64 [3]: where its chunks of words begin in ``AlignedTexts.source``."""
    length: np.ndarray
    """int64 [3]: how many words each has."""


class OccurrenceRules(NamedTuple):
    """The rules of one occurrence; spans are of positions in their sentences."""

    edges: np.ndarray
    """int64 [4]: which edges have a gap."""
    span: np.ndarray
    """int64 [4, 2]: on the target side."""
    gaps: np.ndarray
    """int64 [4]"""
    gap: np.ndarray
    """int64 [4, 2, 2]: the gaps' spans on the target side, in the order of the source side."""


def new_occurrence_rules() -> OccurrenceRules:
    """Space for the rules of an occurrence."""
    return OccurrenceRules(
        np.zeros(4, dtype=np.int64),
        np.zeros((4, 2), dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        np.zeros((4, 2, 2), dtype=np.int64),
    )


@kernel
def _reach(words: np.ndarray, begin: int, end: int, a: int, b: int) -> tuple[int, int]:
    """The span from ``a`` to ``b`` (-1: none yet) and all that words from ``begin`` to ``end`` are linked to."""
    for k in range(begin, end):
        word = words[k]
        if word["low"] >= 0:
            if a < 0 or word["low"] < a:
                a = int64(word["low"])
            b = max(b, int64(word["high"]))
    return a, b


@kernel
def _gap(texts: AlignedTexts, pair: int, begin: int, end: int) -> tuple[int, int]:
    """The target span of a gap; (-1, -1) where the two are no phrase pair."""
    s, t = texts.source_ptr[pair], texts.target_ptr[pair]
    a, b = _reach(texts.source, s + begin, s + end, -1, -1)
    if a < 0 or b - a > SPAN:
        return -1, -1
    x, y = _reach(texts.target, t + a, t + b, -1, -1)
    return (a, b) if x >= begin and y <= end else (-1, -1)


@kernel
def _closure(texts: AlignedTexts, pair: int, x: int, y: int, edges: int) -> tuple[int, int, int, int]:
    """The smallest phrase pair around the source span ``x`` to ``y`` that grows at ``edges`` only.

    Returns source and target span; the last is -1 where there is none.
    """
    s, t = texts.source_ptr[pair], texts.target_ptr[pair]
    a, b = _reach(texts.source, s + x, s + y, -1, -1)
    while a >= 0 and b - a <= SPAN:
        p, q = _reach(texts.target, t + a, t + b, x, y)
        if p == x and q == y:
            return x, y, a, b
        if (p < x and not edges & LEFT) or (q > y and not edges & RIGHT) or q - p > SPAN:
            break
        c, d = _reach(texts.source, s + p, s + x, a, b)
        c, d = _reach(texts.source, s + y, s + q, c, d)
        x, y = p, q
        if c == a and d == b:
            return x, y, a, b
        a, b = c, d
    return 0, 0, 0, -1


@kernel
def _base(
    texts: AlignedTexts, pair: int, core: Core, chunks: int, symbols: int, found: OccurrenceRules
) -> tuple[int, int, int, bool]:
    """The smallest phrase pair around a core: fills rule 0 of ``found``.

    Returns its source span (the end is -1 where there is none), the edges that have a gap, and whether it is a rule
    itself: where an edge word is unlinked it is not, but a gap may follow.
    """
    s, t = texts.source_ptr[pair], texts.target_ptr[pair]
    begin, end = core.at[0] - s, core.at[chunks - 1] + core.length[chunks - 1] - s
    linked = False
    for c in range(chunks):
        for k in range(core.at[c], core.at[c] + core.length[c]):
            linked |= texts.source[k]["low"] >= 0
    if not linked:
        return 0, -1, 0, False
    for c in range(chunks - 1):
        if texts.source[core.at[c] + core.length[c]]["low"] < 0 or texts.source[core.at[c + 1] - 1]["low"] < 0:
            return 0, -1, 0, False
    a, b = _reach(texts.source, s + begin, s + end, -1, -1)
    if b - a > SPAN:
        return 0, -1, 0, False
    x, y = _reach(texts.target, t + a, t + b, begin, end)
    edges = (LEFT if x < begin else 0) | (RIGHT if y > end else 0)
    more = (edges >> 1) + (edges & 1)
    if chunks - 1 + more > GAPS or symbols + more > SYMBOLS or y - x > SPAN:
        return 0, -1, 0, False
    c, d = _reach(texts.source, s + x, s + begin, a, b)
    c, d = _reach(texts.source, s + end, s + y, c, d)
    if c != a or d != b:
        return 0, -1, 0, False
    gaps = 0
    for k in range(-1, chunks):
        # The gap after chunk k.
        if (k == -1 and not edges & LEFT) or (k == chunks - 1 and not edges & RIGHT):
            continue
        first = x if k == -1 else core.at[k] + core.length[k] - s
        last = y if k == chunks - 1 else core.at[k + 1] - s
        if texts.source[s + first]["low"] < 0 or texts.source[s + last - 1]["low"] < 0:
            return 0, -1, 0, False
        c, d = _gap(texts, pair, first, last)
        if c < 0:
            return 0, -1, 0, False
        found.gap[0, gaps, 0], found.gap[0, gaps, 1] = c, d
        gaps += 1
    found.edges[0], found.gaps[0] = edges, gaps
    found.span[0, 0], found.span[0, 1] = a, b
    is_rule = (edges & LEFT or texts.source[s + begin]["low"] >= 0) and (
        edges & RIGHT or texts.source[s + end - 1]["low"] >= 0
    )
    return x, y, edges, bool(is_rule)


@kernel
def phrase_pairs(texts: AlignedTexts, core: Core, chunks: int, symbols: int, found: OccurrenceRules) -> int:
    """Fill ``found`` with the rules of an occurrence of a core of ``chunks`` chunks and ``symbols`` symbols.

    Returns how many there are.
    """
    pair = int64(texts.source[core.at[0]]["pair"])
    x, y, edges, is_rule = _base(texts, pair, core, chunks, symbols, found)
    if y < 0:
        return 0
    s = texts.source_ptr[pair]
    length = texts.source_ptr[pair + 1] - 1 - s
    gaps = found.gaps[0]
    symbols += (edges >> 1) + (edges & 1)
    count = 1
    for more in (RIGHT, LEFT, LEFT | RIGHT):
        left, right = more >> 1, more & 1
        new = left + right
        if edges & more or gaps + new > GAPS or symbols + new > SYMBOLS:
            continue
        if x < left or y + right > length or y - x + new > SPAN:
            continue
        if texts.source[s + x - left]["low"] < 0 or texts.source[s + y + right - 1]["low"] < 0:
            continue
        p, q, a, b = _closure(texts, pair, x - left, y + right, more)
        if b < 0:
            continue
        n = 0
        if left:
            c, d = _gap(texts, pair, p, x)
            if c < 0 or texts.source[s + p]["low"] < 0:
                continue
            found.gap[count, 0, 0], found.gap[count, 0, 1] = c, d
            n = 1
        for k in range(gaps):
            found.gap[count, n, 0], found.gap[count, n, 1] = found.gap[0, k, 0], found.gap[0, k, 1]
            n += 1
        if right:
            c, d = _gap(texts, pair, y, q)
            if c < 0 or texts.source[s + q - 1]["low"] < 0:
                continue
            found.gap[count, n, 0], found.gap[count, n, 1] = c, d
            n += 1
        found.edges[count], found.gaps[count] = edges | more, n
        found.span[count, 0], found.span[count, 1] = a, b
        count += 1
    if is_rule:
        return count
    # The base was only a step on the way: the last takes its place.
    count -= 1
    found.edges[0], found.gaps[0] = found.edges[count], found.gaps[count]
    for k in range(2):
        found.span[0, k] = found.span[count, k]
        for n in range(GAPS):
            found.gap[0, n, k] = found.gap[count, n, k]
    return count
