"""The rules of one occurrence of a core: target sides that are consistent with the word alignment.

A core, a source side without gaps at its edges, occurs in a pair of sentences as a span with holes. Its base rule is
the smallest phrase pair around it; links that lead out of the span force a gap at an edge. Up to three more rules have
a further gap after the core, before it, or on both sides (Chiang, "Hierarchical Phrase-Based Translation",
Computational Linguistics 2007, section 3.2; Lopez, EMNLP-CoNLL 2007). Phrases are tight: no word at an edge of a phrase
or of a gap is unlinked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.bitext import AlignedTexts
from mpitune.jit import int64, kernel

SPAN = 15
"""Maximum number of words that a rule covers, on either side."""
SYMBOLS = 5
"""Maximum number of symbols of a source side, gaps included."""
GAPS = 2
"""Maximum number of gaps."""
LEFT, RIGHT = 2, 1
"""Bit flags of the edges that have a gap."""


class Core(NamedTuple):
    """An occurrence of a core."""

    at: np.ndarray
    """int64 [3]: the places of its chunks in ``AlignedTexts.source``."""
    length: np.ndarray
    """int64 [3]: the numbers of words of its chunks."""


class OccurrenceRules(NamedTuple):
    """The rules of one occurrence, at most four; spans are positions in the sentence, the end excluded."""

    edges: np.ndarray
    """int64 [4]: the edges that have a gap, `LEFT` | `RIGHT`."""
    span: np.ndarray
    """int64 [4, 2]: the span on the target side."""
    gaps: np.ndarray
    """int64 [4]: the number of gaps."""
    gap: np.ndarray
    """int64 [4, 2, 2]: the gaps' spans on the target side, in the order of the source side."""


def new_occurrence_rules() -> OccurrenceRules:
    """Arrays for the rules of an occurrence."""
    return OccurrenceRules(
        np.zeros(4, dtype=np.int64),
        np.zeros((4, 2), dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        np.zeros((4, 2, 2), dtype=np.int64),
    )


@kernel
def _reach(words: np.ndarray, begin: int, end: int, a: int, b: int) -> tuple[int, int]:
    """The smallest span of the other language with ``a`` to ``b`` and all links of the words ``begin`` to ``end``.

    ``a`` = ``b`` = -1: the empty span. ``words``: `SOURCE` or `TARGET`.
    """
    for k in range(begin, end):
        word = words[k]
        if word["low"] >= 0:
            if a < 0 or word["low"] < a:
                a = int64(word["low"])
            b = max(b, int64(word["high"]))
    return a, b


@kernel
def _gap(texts: AlignedTexts, pair: int, begin: int, end: int) -> tuple[int, int]:
    """The target span of the source gap ``begin`` to ``end``; (-1, -1) if they are not a phrase pair."""
    s, t = texts.source_ptr[pair], texts.target_ptr[pair]
    a, b = _reach(texts.source, s + begin, s + end, -1, -1)
    if a < 0 or b - a > SPAN:
        return -1, -1
    x, y = _reach(texts.target, t + a, t + b, -1, -1)
    return (a, b) if x >= begin and y <= end else (-1, -1)


@kernel
def _closure(texts: AlignedTexts, pair: int, x: int, y: int, edges: int) -> tuple[int, int, int, int]:
    """The smallest phrase pair around the source span ``x`` to ``y``, which may be extended at ``edges`` only.

    Returns source and target span; the end of the target span is -1 if there is no such pair.
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
    """The smallest phrase pair around a core, written as rule 0 of ``found``.

    Returns its source span (the end is -1 if there is no such pair), the edges that have a gap, and whether it is a
    rule: with an unlinked word at an edge it is not, but it can be extended to a rule by a gap.
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

    Returns their number.
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
    # The base pair is not a rule: the last rule takes its place.
    count -= 1
    found.edges[0], found.gaps[0] = found.edges[count], found.gaps[count]
    for k in range(2):
        found.span[0, k] = found.span[count, k]
        for n in range(GAPS):
            found.gap[0, n, k] = found.gap[count, n, k]
    return count
