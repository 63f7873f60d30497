"""What the occurrences of source sides have yielded: rules, and under each its alignments, counted.

Cores of frequent words come up in sentence after sentence, so what they yield is kept: with the pairs that it comes
from, that a pair may be left out again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.lexical import lexical_scores
from mpitune.extraction.occurrences import SAMPLES
from mpitune.extraction.phrase_pairs import GAPS, SPAN, SYMBOLS, Core, OccurrenceRules
from mpitune.extraction.suffix_array import AlignedTexts, Bitext
from mpitune.jit import int64, kernel, uint64

_SLOTS = 1 << 12
"""Slots to find a core's rules by: more than three times as many as one core can have."""
MOST_RULES = 4 * SAMPLES
"""The most rules that a core can have."""
CORES, RULES, ALIGNMENTS, SYMBOL, LINK, MEETINGS = range(6)
"""What is counted in ``RuleCounts.size``."""


class RuleCounts(NamedTuple):
    """The yields of many cores, one after the other, and the space that they have."""

    size: np.ndarray
    """int64 [6]"""
    key: np.ndarray
    """int64 [a power of 2, 3]: the cores that are kept, by hash; the first is 0 where there is none."""
    core: np.ndarray
    """int32 [the same]: their numbers."""
    rules: np.ndarray
    """int32 [cores + 1]: where the rules of each core begin."""
    occurrence_log: np.ndarray
    """int32 [cores + 1]: where its meetings begin."""
    slot: np.ndarray
    """int32 [_SLOTS]: rules of the core that is being counted, by hash, or -1."""
    edges: np.ndarray
    """int8 [rules]"""
    target: np.ndarray
    """int32 [rules, 2]: where the target side begins and ends in ``symbol``."""
    lexical: np.ndarray
    """float64 [rules, 2]: MaxLexFgivenE, MaxLexEgivenF."""
    first: np.ndarray
    """int32 [rules]: the alignment met first."""
    symbol: np.ndarray
    """int32: words, first gap -1, second gap -2."""
    next: np.ndarray
    """int32 [alignments]: the next alignment of the same rule, or -1."""
    times: np.ndarray
    """int32 [alignments]: how often it was met."""
    links: np.ndarray
    """int32 [alignments, 2]: where it begins and ends in ``link``."""
    link: np.ndarray
    """int16 [links, 2]: source symbol, target symbol."""
    pair: np.ndarray
    """int32 [meetings]: the pair of each occurrence, and once more with each alignment that it yields."""
    alignment: np.ndarray
    """int32 [meetings]: that alignment; -1 for the occurrence itself."""


def new_yields(scale: int) -> RuleCounts:
    """Space for about ``scale`` cores; not for fewer than one of the largest."""
    rules, slots = 16 * scale + MOST_RULES, 1 << (2 * scale).bit_length()
    return RuleCounts(
        size=np.zeros(6, dtype=np.int64),
        key=np.zeros((slots, 3), dtype=np.int64),
        core=np.empty(slots, dtype=np.int32),
        rules=np.zeros(scale + 1, dtype=np.int32),
        occurrence_log=np.zeros(scale + 1, dtype=np.int32),
        slot=np.empty(_SLOTS, dtype=np.int32),
        edges=np.empty(rules, dtype=np.int8),
        target=np.empty((rules, 2), dtype=np.int32),
        lexical=np.empty((rules, 2), dtype=np.float64),
        first=np.empty(rules, dtype=np.int32),
        symbol=np.empty(6 * rules + MOST_RULES * SPAN, dtype=np.int32),
        next=np.empty(2 * rules, dtype=np.int32),
        times=np.empty(2 * rules, dtype=np.int32),
        links=np.empty((2 * rules, 2), dtype=np.int32),
        link=np.empty((8 * rules + MOST_RULES * SPAN * SYMBOLS, 2), dtype=np.int16),
        pair=np.empty(8 * rules, dtype=np.int32),
        alignment=np.empty(8 * rules, dtype=np.int32),
    )


@kernel
def make_room(yields: RuleCounts) -> None:
    """See to it that there is space for the yield of one more core: forget all where there is not."""
    size = yields.size
    if (
        size[CORES] + 1 < len(yields.rules)
        and size[RULES] + MOST_RULES <= len(yields.edges)
        and size[ALIGNMENTS] + MOST_RULES <= len(yields.times)
        and size[SYMBOL] + MOST_RULES * SPAN <= len(yields.symbol)
        and size[LINK] + MOST_RULES * SPAN * SYMBOLS <= len(yields.link)
        and size[MEETINGS] + SAMPLES + MOST_RULES <= len(yields.pair)
    ):
        return
    for k in range(6):
        size[k] = 0
    for k in range(len(yields.key)):
        yields.key[k, 0] = 0


@kernel
def begin(yields: RuleCounts) -> None:
    """Begin to count a core, which gets the next number."""
    for k in range(_SLOTS):
        yields.slot[k] = -1
    core = yields.size[CORES]
    yields.rules[core], yields.occurrence_log[core] = yields.size[RULES], yields.size[MEETINGS]


@kernel
def end(yields: RuleCounts) -> int:
    """The core's number, now that all is counted."""
    core = int64(yields.size[CORES])
    yields.size[CORES] = core + 1
    yields.rules[core + 1], yields.occurrence_log[core + 1] = yields.size[RULES], yields.size[MEETINGS]
    return core


@kernel
def forget_last(yields: RuleCounts) -> None:
    """Undo what was counted for the last core; it must not be kept by a key."""
    size = yields.size
    core = size[CORES] - 1
    rule = yields.rules[core]
    if size[RULES] > rule:
        size[SYMBOL] = yields.target[rule, 0]
        alignment = yields.first[rule]
        size[ALIGNMENTS], size[LINK] = alignment, yields.links[alignment, 0]
    size[CORES], size[RULES], size[MEETINGS] = core, rule, yields.occurrence_log[core]


@kernel
def slot_of(keys: np.ndarray, slots: int, a: int, b: int, c: int) -> int:
    """The slot of the key (a, b, c), a > 0, among the first ``slots`` of ``keys`` (int64 [.., 3]), or its place."""
    hash_ = uint64(a) * uint64(0x9E3779B97F4A7C15) + uint64(b) * uint64(0xC2B2AE3D27D4EB4F)
    hash_ += uint64(c) * uint64(0x165667B19E3779F9)
    slot = int64((hash_ >> uint64(32)) & uint64(slots - 1))
    while keys[slot, 0] != 0 and (keys[slot, 0] != a or keys[slot, 1] != b or keys[slot, 2] != c):
        slot = (slot + 1) & (slots - 1)
    return slot


@kernel
def meet(yields: RuleCounts, pair: int, alignment: int) -> None:
    """Note that an occurrence in ``pair`` was looked at (-1), or has yielded ``alignment``."""
    place = yields.size[MEETINGS]
    yields.pair[place], yields.alignment[place] = pair, alignment
    yields.size[MEETINGS] = place + 1


@kernel
def count(
    bitext: Bitext, source: np.ndarray, core: Core, chunks: int, r: int, found: OccurrenceRules, yields: RuleCounts
) -> None:
    """Count rule ``r`` of ``found``, the yield of an occurrence of ``core``, whose words are ``source`` (int32)."""
    texts = bitext.texts
    pair = int64(texts.source[core.at[0]]["pair"])
    rule = _rule(texts, pair, r, found, yields)
    if rule == yields.size[RULES]:
        yields.size[RULES] += 1
        yields.size[SYMBOL] = yields.target[rule, 1]
        first, last = yields.target[rule, 0], yields.target[rule, 1]
        yields.lexical[rule, 0], yields.lexical[rule, 1] = lexical_scores(
            bitext.lexicon, source, yields.symbol, first, last
        )
    alignments, links = yields.size[ALIGNMENTS], yields.size[LINK]
    last = _links(texts, core, chunks, r, found, yields, links)
    before, alignment = int64(-1), int64(yields.first[rule])
    while alignment >= 0 and not _is_alignment(yields, alignment, links, last):
        before, alignment = alignment, int64(yields.next[alignment])
    if alignment < 0:
        alignment = alignments
        yields.links[alignment, 0], yields.links[alignment, 1] = links, last
        yields.times[alignment], yields.next[alignment] = 0, -1
        if before < 0:
            yields.first[rule] = alignment
        else:
            yields.next[before] = alignment
        yields.size[ALIGNMENTS] += 1
        yields.size[LINK] = last
    yields.times[alignment] += 1
    meet(yields, pair, alignment)


@kernel
def _rule(texts: AlignedTexts, pair: int, r: int, found: OccurrenceRules, yields: RuleCounts) -> int:
    """The number of a rule of the core that is being counted: the next one, filled, where it is new."""
    t = texts.target_ptr[pair]
    begin = end = yields.size[SYMBOL]
    hash_ = uint64(found.edges[r])
    k = found.span[r, 0]
    while k < found.span[r, 1]:
        symbol = int64(texts.target[t + k]["word"])
        k += 1
        for g in range(found.gaps[r]):
            if found.gap[r, g, 0] == k - 1:
                symbol, k = -1 - g, found.gap[r, g, 1]
        yields.symbol[end] = symbol
        hash_ = (hash_ ^ uint64(symbol + GAPS)) * uint64(0x9E3779B97F4A7C15)
        hash_ ^= hash_ >> uint64(29)
        end += 1
    slot = int64(hash_ & uint64(_SLOTS - 1))
    while yields.slot[slot] >= 0 and not _is_rule(yields, int64(yields.slot[slot]), int64(found.edges[r]), begin, end):
        slot = (slot + 1) & (_SLOTS - 1)
    if yields.slot[slot] < 0:
        rule = yields.size[RULES]
        yields.slot[slot] = rule
        yields.edges[rule] = found.edges[r]
        yields.target[rule, 0], yields.target[rule, 1] = begin, end
        yields.first[rule] = -1
    return int64(yields.slot[slot])


@kernel
def _is_rule(yields: RuleCounts, rule: int, edges: int, begin: int, end: int) -> bool:
    if yields.edges[rule] != edges or yields.target[rule, 1] - yields.target[rule, 0] != end - begin:
        return False
    other = yields.target[rule, 0]
    same, k = True, 0
    while same and k < end - begin:
        same = yields.symbol[begin + k] == yields.symbol[other + k]
        k += 1
    return bool(same)


@kernel
def _is_alignment(yields: RuleCounts, alignment: int, begin: int, end: int) -> bool:
    if yields.links[alignment, 1] - yields.links[alignment, 0] != end - begin:
        return False
    other = yields.links[alignment, 0]
    for k in range(end - begin):
        if yields.link[begin + k, 0] != yields.link[other + k, 0]:
            return False
        if yields.link[begin + k, 1] != yields.link[other + k, 1]:
            return False
    return True


@kernel
def _links(
    texts: AlignedTexts, core: Core, chunks: int, r: int, found: OccurrenceRules, yields: RuleCounts, begin: int
) -> int:
    """Write the links between the words of a rule from ``begin`` on, by symbol; returns where they end."""
    pair = texts.source[core.at[0]]["pair"]
    s = texts.source_ptr[pair]
    end = begin
    for link in range(texts.link_ptr[pair], texts.link_ptr[pair + 1]):
        i, j = int64(texts.link[link, 0]), int64(texts.link[link, 1])
        if j < found.span[r, 0] or j >= found.span[r, 1]:
            continue
        target, in_gap = j - found.span[r, 0], False
        for g in range(found.gaps[r]):
            if found.gap[r, g, 1] <= j:
                target -= found.gap[r, g, 1] - found.gap[r, g, 0] - 1
            elif found.gap[r, g, 0] <= j:
                in_gap = True
        if in_gap:
            continue
        source = int64(found.edges[r] >> 1)
        for c in range(chunks):
            first = core.at[c] - s
            if first <= i < first + core.length[c]:
                source += i - first
                break
            source += core.length[c] + 1
        yields.link[end, 0], yields.link[end, 1] = source, target
        end += 1
    return end


@kernel
def is_before(yields: RuleCounts, one: int, other: int) -> bool:
    """The order of alignments: that of their lists of links."""
    a, b = yields.links[one, 0], yields.links[other, 0]
    while a < yields.links[one, 1] and b < yields.links[other, 1]:
        for k in range(2):
            if yields.link[a, k] != yields.link[b, k]:
                return bool(yields.link[a, k] < yields.link[b, k])
        a += 1
        b += 1
    return bool(yields.links[one, 1] - a < yields.links[other, 1] - b)
