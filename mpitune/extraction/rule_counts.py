"""Counts of the rules extracted from the sampled occurrences of cores, and below each rule of its alignments.

Cores of frequent words occur in many sentences, so their counts are cached. A log of the occurrences keeps the pair of
each, so that leave-one-out can subtract the occurrences in one pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.row_table import add_to_hash
from mpitune.extraction.lexical import lexical_scores
from mpitune.extraction.occurrences import SAMPLES
from mpitune.extraction.phrase_pairs import GAPS, SPAN, SYMBOLS, Core, OccurrenceRules
from mpitune.extraction.suffix_array import AlignedTexts, Bitext
from mpitune.jit import int64, kernel, uint64

_SLOTS = 1 << 12
"""Slots of the hash table of a core's rules: more than three times `MOST_RULES`."""
MOST_RULES = 4 * SAMPLES
"""Maximum number of rules of a core."""
CORES, RULES, ALIGNMENTS, SYMBOL, LINK, LOG_ENTRIES = range(6)
"""Indices of the counters in ``RuleCounts.size``."""


class RuleCounts(NamedTuple):
    """The counts of many cores, one after the other; the arrays are longer than used."""

    size: np.ndarray
    """int64 [6]: numbers of cores, rules, alignments, symbols, links, log entries."""
    key: np.ndarray
    """int64 [a power of 2, 3]: hash table of the cached cores; the first number is 0 in an empty slot."""
    core: np.ndarray
    """int32 [slots of ``key``]: the number of the core in each slot."""
    rule_ptr: np.ndarray
    """int32 [cores + 1]: the rules of core i are ``rule_ptr[i]`` to ``rule_ptr[i + 1]``."""
    log_ptr: np.ndarray
    """int32 [cores + 1]: the log entries of core i are ``log_ptr[i]`` to ``log_ptr[i + 1]``."""
    rule_slot: np.ndarray
    """int32 [_SLOTS]: hash table of the rules of the core that is being counted; -1 in an empty slot."""
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
    next_alignment: np.ndarray
    """int32 [alignments]: the next alignment of the same rule, or -1."""
    alignment_count: np.ndarray
    """int32 [alignments]: number of occurrences that give the rule with this alignment."""
    links: np.ndarray
    """int32 [alignments, 2]: begin and end of the alignment in ``link``."""
    link: np.ndarray
    """int16 [links, 2]: source symbol, target symbol."""
    log_pair: np.ndarray
    """int32 [log entries]: the pair of each occurrence, and again for each alignment that the occurrence gives."""
    log_alignment: np.ndarray
    """int32 [log entries]: this alignment; -1 in the entry of the occurrence itself."""


def new_rule_counts(cores: int) -> RuleCounts:
    """Empty counts for about ``cores`` cores, and for at least one of maximum size."""
    rules, slots = 16 * cores + MOST_RULES, 1 << (2 * cores).bit_length()
    return RuleCounts(
        size=np.zeros(6, dtype=np.int64),
        key=np.zeros((slots, 3), dtype=np.int64),
        core=np.empty(slots, dtype=np.int32),
        rule_ptr=np.zeros(cores + 1, dtype=np.int32),
        log_ptr=np.zeros(cores + 1, dtype=np.int32),
        rule_slot=np.empty(_SLOTS, dtype=np.int32),
        edges=np.empty(rules, dtype=np.int8),
        target=np.empty((rules, 2), dtype=np.int32),
        lexical=np.empty((rules, 2), dtype=np.float64),
        first_alignment=np.empty(rules, dtype=np.int32),
        symbol=np.empty(6 * rules + MOST_RULES * SPAN, dtype=np.int32),
        next_alignment=np.empty(2 * rules, dtype=np.int32),
        alignment_count=np.empty(2 * rules, dtype=np.int32),
        links=np.empty((2 * rules, 2), dtype=np.int32),
        link=np.empty((8 * rules + MOST_RULES * SPAN * SYMBOLS, 2), dtype=np.int16),
        log_pair=np.empty(8 * rules, dtype=np.int32),
        log_alignment=np.empty(8 * rules, dtype=np.int32),
    )


@kernel
def clear_if_full(counts: RuleCounts) -> None:
    """Delete all counts if the arrays have no space for one more core of maximum size."""
    size = counts.size
    if (
        size[CORES] + 1 < len(counts.rule_ptr)
        and size[RULES] + MOST_RULES <= len(counts.edges)
        and size[ALIGNMENTS] + MOST_RULES <= len(counts.alignment_count)
        and size[SYMBOL] + MOST_RULES * SPAN <= len(counts.symbol)
        and size[LINK] + MOST_RULES * SPAN * SYMBOLS <= len(counts.link)
        and size[LOG_ENTRIES] + SAMPLES + MOST_RULES <= len(counts.log_pair)
    ):
        return
    for k in range(6):
        size[k] = 0
    for k in range(len(counts.key)):
        counts.key[k, 0] = 0


@kernel
def begin_core(counts: RuleCounts) -> None:
    """Start a core, which gets the next number."""
    for k in range(_SLOTS):
        counts.rule_slot[k] = -1
    core = counts.size[CORES]
    counts.rule_ptr[core], counts.log_ptr[core] = counts.size[RULES], counts.size[LOG_ENTRIES]


@kernel
def end_core(counts: RuleCounts) -> int:
    """Finish the core; returns its number."""
    core = int64(counts.size[CORES])
    counts.size[CORES] = core + 1
    counts.rule_ptr[core + 1], counts.log_ptr[core + 1] = counts.size[RULES], counts.size[LOG_ENTRIES]
    return core


@kernel
def drop_last_core(counts: RuleCounts) -> None:
    """Delete the counts of the last core, which must not be in ``key``."""
    size = counts.size
    core = size[CORES] - 1
    rule = counts.rule_ptr[core]
    if size[RULES] > rule:
        size[SYMBOL] = counts.target[rule, 0]
        alignment = counts.first_alignment[rule]
        size[ALIGNMENTS], size[LINK] = alignment, counts.links[alignment, 0]
    size[CORES], size[RULES], size[LOG_ENTRIES] = core, rule, counts.log_ptr[core]


@kernel
def find_slot(keys: np.ndarray, slots: int, a: int, b: int, c: int) -> int:
    """The slot of the key (a, b, c), a > 0, in a hash table; the empty slot for it if it is not there.

    The table is the first ``slots`` (a power of 2) rows of ``keys`` (int64 [.., 3]); empty slots begin with 0.
    """
    hash_ = uint64(a) * uint64(0x9E3779B97F4A7C15) + uint64(b) * uint64(0xC2B2AE3D27D4EB4F)
    hash_ += uint64(c) * uint64(0x165667B19E3779F9)
    slot = int64((hash_ >> uint64(32)) & uint64(slots - 1))
    while keys[slot, 0] != 0 and (keys[slot, 0] != a or keys[slot, 1] != b or keys[slot, 2] != c):
        slot = (slot + 1) & (slots - 1)
    return slot


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
    """Count rule ``r`` of ``found``, the rules of an occurrence of ``core``; ``source``: the core's words (int32)."""
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
        if before < 0:
            counts.first_alignment[rule] = alignment
        else:
            counts.next_alignment[before] = alignment
        counts.size[ALIGNMENTS] += 1
        counts.size[LINK] = end
    counts.alignment_count[alignment] += 1
    log_occurrence(counts, pair, alignment)


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
        hash_ = add_to_hash(hash_, symbol + GAPS)
        end += 1
    slot = int64(hash_ & uint64(_SLOTS - 1))
    while counts.rule_slot[slot] >= 0 and not _is_rule(
        counts, int64(counts.rule_slot[slot]), int64(found.edges[r]), begin, end
    ):
        slot = (slot + 1) & (_SLOTS - 1)
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
