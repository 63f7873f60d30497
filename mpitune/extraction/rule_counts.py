"""Counts of the rules extracted from the sampled occurrences of one core, and below each rule of its alignments.

A log of the occurrences keeps the pair of each, so that leave-one-out can subtract the occurrences in one pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.corpus.hashing import extended
from mpitune.extraction.bitext import AlignedTexts, Bitext
from mpitune.extraction.lexical import lexical_scores
from mpitune.extraction.occurrences import SAMPLES
from mpitune.extraction.phrase_pairs import GAPS, SPAN, SYMBOLS, Core, OccurrenceRules
from mpitune.jit import int64, kernel, uint64

_RULES_OF_SAMPLE = 4 * SAMPLES
"""Maximum number of rules of a core with one alignment of the bitext."""
RULES, ALIGNMENTS, SYMBOL, LINK, LOG_ENTRIES = range(5)
"""Indices of the counters in ``RuleCounts.size``."""


class RuleCounts(NamedTuple):
    """The counts of a core; the arrays are longer than used."""

    size: np.ndarray
    """int64 [5]: numbers of rules, alignments, symbols, links, log entries."""
    rule_slot: np.ndarray
    """int32 [a power of 2]: hash table of the rules; -1 in an empty slot."""
    edges: np.ndarray
    """int8 [rules]: the edges that have a gap, `LEFT` | `RIGHT`."""
    target: np.ndarray
    """int32 [rules, 2]: begin and end of the target side in ``symbol``."""
    lexical: np.ndarray
    """float64 [rules, 2]: MaxLexFgivenE, MaxLexEgivenF."""
    first_alignment: np.ndarray
    """int32 [rules]: the first alignment found for the rule."""
    symbol: np.ndarray
    """int32: words, first gap -1, second gap -2."""
    alignment_rule: np.ndarray
    """int32 [alignments]: the rule of each alignment."""
    next_alignment: np.ndarray
    """int32 [alignments]: the next alignment of the same rule, or -1."""
    alignment_count: np.ndarray
    """int32 [alignments]: number of occurrences that give the rule with this alignment."""
    links: np.ndarray
    """int32 [alignments, 2]: begin and end of the alignment in ``link``."""
    link: np.ndarray
    """int16 [links, 2]: source symbol, target symbol."""
    log_pair: np.ndarray
    """int32 [log entries]: the pair of each occurrence, and again for each alignment that it gives; ascending."""
    log_alignment: np.ndarray
    """int32 [log entries]: this alignment; -1 in the entry of the occurrence itself."""


def new_rule_counts(alignments: int) -> RuleCounts:
    """Space for the counts of a core in a bitext with so many alignments."""
    most = _RULES_OF_SAMPLE * alignments
    return RuleCounts(
        size=np.zeros(5, dtype=np.int64),
        rule_slot=np.full(1 << (3 * most).bit_length(), -1, dtype=np.int32),
        edges=np.empty(most, dtype=np.int8),
        target=np.empty((most, 2), dtype=np.int32),
        lexical=np.empty((most, 2), dtype=np.float64),
        first_alignment=np.empty(most, dtype=np.int32),
        symbol=np.empty((most + 1) * SPAN, dtype=np.int32),
        alignment_rule=np.empty(most, dtype=np.int32),
        next_alignment=np.empty(most, dtype=np.int32),
        alignment_count=np.empty(most, dtype=np.int32),
        links=np.empty((most, 2), dtype=np.int32),
        link=np.empty(((most + 1) * SPAN * SYMBOLS, 2), dtype=np.int16),
        log_pair=np.empty(SAMPLES * alignments + most, dtype=np.int32),
        log_alignment=np.empty(SAMPLES * alignments + most, dtype=np.int32),
    )


@kernel
def most_rules(counts: RuleCounts) -> int:
    """The number of rules that ``counts`` has space for, and of alignments."""
    return len(counts.edges)


@kernel
def clear(counts: RuleCounts) -> None:
    """Start the counts of another core."""
    if counts.size[RULES] > 0:
        counts.rule_slot[:] = -1
    for k in range(5):
        counts.size[k] = 0


@kernel
def log_occurrence(counts: RuleCounts, pair: int, alignment: int) -> None:
    """Add an occurrence in ``pair`` to the log (``alignment`` -1), or an alignment that it gives."""
    entry = counts.size[LOG_ENTRIES]
    counts.log_pair[entry], counts.log_alignment[entry] = pair, alignment
    counts.size[LOG_ENTRIES] = entry + 1


@kernel
def count_rule(
    bitext: Bitext, source: np.ndarray, core: Core, chunks: int, r: int, found: OccurrenceRules, counts: RuleCounts
) -> None:
    """Count rule ``r`` of ``found``, the rules of an occurrence of ``core``; ``source``: the core's words (int32).

    The log has the pair's place with the first alignment.
    """
    texts = bitext.texts
    pair = int64(texts.source[core.at[0]]["pair"])
    rule = _rule(texts, pair, r, found, counts)
    if rule == counts.size[RULES]:
        counts.size[RULES] += 1
        counts.size[SYMBOL] = counts.target[rule, 1]
        first, last = counts.target[rule, 0], counts.target[rule, 1]
        counts.lexical[rule, 0], counts.lexical[rule, 1] = lexical_scores(
            bitext.lexicon, source, counts.symbol, first, last
        )
    begin = counts.size[LINK]
    end = _write_links(texts, core, chunks, r, found, counts, begin)
    before, alignment = int64(-1), int64(counts.first_alignment[rule])
    while alignment >= 0 and not _is_alignment(counts, alignment, begin, end):
        before, alignment = alignment, int64(counts.next_alignment[alignment])
    if alignment < 0:
        alignment = counts.size[ALIGNMENTS]
        counts.links[alignment, 0], counts.links[alignment, 1] = begin, end
        counts.alignment_count[alignment], counts.next_alignment[alignment] = 0, -1
        counts.alignment_rule[alignment] = rule
        if before < 0:
            counts.first_alignment[rule] = alignment
        else:
            counts.next_alignment[before] = alignment
        counts.size[ALIGNMENTS] += 1
        counts.size[LINK] = end
    counts.alignment_count[alignment] += 1
    log_occurrence(counts, pair % len(bitext.place), alignment)


@kernel
def _rule(texts: AlignedTexts, pair: int, r: int, found: OccurrenceRules, counts: RuleCounts) -> int:
    """The number of rule ``r`` of ``found`` among those of the current core; a new rule is written as the next one."""
    t = texts.target_ptr[pair]
    begin = end = counts.size[SYMBOL]
    edges = int64(found.edges[r])
    hash_ = uint64(edges)
    k = found.span[r, 0]
    while k < found.span[r, 1]:
        symbol = int64(texts.target[t + k]["word"])
        k += 1
        for g in range(found.gaps[r]):
            if found.gap[r, g, 0] == k - 1:
                symbol, k = -1 - g, found.gap[r, g, 1]
        counts.symbol[end] = symbol
        hash_ = extended(hash_, uint64(symbol + GAPS))
        end += 1
    last_slot = len(counts.rule_slot) - 1
    slot = int64(hash_ & uint64(last_slot))
    while counts.rule_slot[slot] >= 0 and not _is_rule(
        counts, int64(counts.rule_slot[slot]), int64(found.edges[r]), begin, end
    ):
        slot = (slot + 1) & last_slot
    if counts.rule_slot[slot] < 0:
        rule = counts.size[RULES]
        counts.rule_slot[slot] = rule
        counts.edges[rule] = edges
        counts.target[rule, 0], counts.target[rule, 1] = begin, end
        counts.first_alignment[rule] = -1
    return int64(counts.rule_slot[slot])


@kernel
def _is_rule(counts: RuleCounts, rule: int, edges: int, begin: int, end: int) -> bool:
    """True if ``rule`` has these edges and the target side ``counts.symbol[begin:end]``."""
    if counts.edges[rule] != edges or counts.target[rule, 1] - counts.target[rule, 0] != end - begin:
        return False
    other = counts.target[rule, 0]
    same, k = True, 0
    while same and k < end - begin:
        same = counts.symbol[begin + k] == counts.symbol[other + k]
        k += 1
    return bool(same)


@kernel
def _is_alignment(counts: RuleCounts, alignment: int, begin: int, end: int) -> bool:
    """True if ``alignment`` has the links ``counts.link[begin:end]``."""
    if counts.links[alignment, 1] - counts.links[alignment, 0] != end - begin:
        return False
    other = counts.links[alignment, 0]
    for k in range(end - begin):
        if counts.link[begin + k, 0] != counts.link[other + k, 0]:
            return False
        if counts.link[begin + k, 1] != counts.link[other + k, 1]:
            return False
    return True


@kernel
def _write_links(
    texts: AlignedTexts, core: Core, chunks: int, r: int, found: OccurrenceRules, counts: RuleCounts, begin: int
) -> int:
    """Write the links between the words of a rule, as pairs of symbols, to ``counts.link`` from ``begin`` on.

    Returns their end.
    """
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
        counts.link[end, 0], counts.link[end, 1] = source, target
        end += 1
    return end


@kernel
def is_before(counts: RuleCounts, one: int, other: int) -> bool:
    """True if alignment ``one`` precedes ``other`` in the lexicographic order of their links."""
    a, b = counts.links[one, 0], counts.links[other, 0]
    while a < counts.links[one, 1] and b < counts.links[other, 1]:
        for k in range(2):
            if counts.link[a, k] != counts.link[b, k]:
                return bool(counts.link[a, k] < counts.link[b, k])
        a += 1
        b += 1
    return bool(counts.links[one, 1] - a < counts.links[other, 1] - b)
