"""The rules of one sentence as arrays: written from rule counts, with the seven features of Lopez 2007.

Lopez 2007 = "Hierarchical Phrase-Based Translation with Suffix Arrays", EMNLP-CoNLL.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.occurrences import Chunk
from mpitune.extraction.phrase_pairs import LEFT, RIGHT, SPAN, SYMBOLS
from mpitune.extraction.rule_counts import RuleCounts, is_before
from mpitune.jit import int64, kernel

FEATURES = (
    "EgivenFCoherent",
    "SampleCountF",
    "CountEF",
    "MaxLexFgivenE",
    "MaxLexEgivenF",
    "IsSingletonF",
    "IsSingletonFE",
)
"""The features of a rule, in the order of its scores."""
RULES, SOURCES, TARGETS, LINKS = range(4)
"""Indices of the counters in ``Extracted.size``."""


class Extracted(NamedTuple):
    """The rules of one sentence; the left-hand side of all is X. During extraction, arrays may be longer than used."""

    size: np.ndarray
    """int64 [4]: numbers of rules, source symbols, target symbols, links."""
    source_ptr: np.ndarray
    """int64 [rules + 1]"""
    source: np.ndarray
    """int32: words (as the bitext numbers them), first gap -1, second gap -2."""
    target_ptr: np.ndarray
    """int64 [rules + 1]"""
    target: np.ndarray
    """int32, likewise"""
    align_ptr: np.ndarray
    """int64 [rules + 1]"""
    align: np.ndarray
    """int16 [links, 2]: source symbol, target symbol."""
    score: np.ndarray
    """float64 [rules, 7]: `FEATURES`."""
    rule: np.ndarray
    """int32 [rules]: numbers in `RuleCounts`, used during extraction only."""


class CoreSource(NamedTuple):
    """The source side of a core in the sentence."""

    words: np.ndarray
    """int32 [words]: the sentence, as the bitext numbers its words."""
    chunk: Chunk
    chunks: int
    """Number of chunks of the core."""


def new_extracted(rules: int) -> Extracted:
    """Arrays for at most ``rules`` rules."""
    return Extracted(
        size=np.zeros(4, dtype=np.int64),
        source_ptr=np.zeros(rules + 1, dtype=np.int64),
        source=np.empty(rules * SYMBOLS, dtype=np.int32),
        target_ptr=np.zeros(rules + 1, dtype=np.int64),
        target=np.empty(rules * SPAN, dtype=np.int32),
        align_ptr=np.zeros(rules + 1, dtype=np.int64),
        align=np.empty((rules * SPAN, 2), dtype=np.int16),
        score=np.empty((rules, len(FEATURES)), dtype=np.float64),
        rule=np.empty(rules, dtype=np.int32),
    )


def trimmed(extracted: Extracted) -> Extracted:
    """A copy of the used part of each array; ``rule`` is empty."""
    rules, sources, targets, links = extracted.size.tolist()
    return Extracted(
        size=extracted.size,
        source_ptr=extracted.source_ptr[: rules + 1].copy(),
        source=extracted.source[:sources].copy(),
        target_ptr=extracted.target_ptr[: rules + 1].copy(),
        target=extracted.target[:targets].copy(),
        align_ptr=extracted.align_ptr[: rules + 1].copy(),
        align=extracted.align[:links].copy(),
        score=extracted.score[:rules].copy(),
        rule=extracted.rule[:0],
    )


@kernel
def write_rules(
    source: CoreSource, core: int, without: int, counts: RuleCounts, edge_counts: np.ndarray, extracted: Extracted
) -> bool:
    """Write the rules of a core that was counted; False if ``extracted`` is too small.

    ``core``: the core's number in ``counts``; ``without``: the pair to leave out, -1: none; ``edge_counts``: int64 [4],
    overwritten with the extractions of rules of the core, by the edges that have a gap.
    """
    size = extracted.size
    first, last = counts.rule_ptr[core], counts.rule_ptr[core + 1]
    if size[RULES] + last - first > len(extracted.score):
        return False
    sample = _add_pair(counts, core, without, -1)
    for edges in range(4):
        edge_counts[edges] = 0
    first_row = size[RULES]
    for rule in range(first, last):
        rule_count, best_count, best = 0, 0, int64(-1)
        alignment = int64(counts.first_alignment[rule])
        while alignment >= 0:
            count = counts.alignment_count[alignment]
            rule_count += count
            if count > best_count or (count == best_count and count > 0 and is_before(counts, alignment, best)):
                best_count, best = count, alignment
            alignment = int64(counts.next_alignment[alignment])
        if rule_count > 0:
            edge_counts[counts.edges[rule]] += rule_count
            _write_rule(source, rule, best, rule_count, sample, counts, extracted)
    for row in range(first_row, size[RULES]):
        extracted.score[row, 5] = 1.0 if edge_counts[counts.edges[extracted.rule[row]]] == 1 else 0.0
    if without >= 0:
        _add_pair(counts, core, without, 1)
    return True


@kernel
def _add_pair(counts: RuleCounts, core: int, pair: int, sign: int) -> int:
    """Subtract the occurrences of a core in ``pair`` from its counts (``sign`` -1), or add them again (1).

    Returns the number of sampled occurrences in other pairs.
    """
    sample = 0
    for k in range(counts.log_ptr[core], counts.log_ptr[core + 1]):
        alignment = counts.log_alignment[k]
        if counts.log_pair[k] == pair:
            if alignment >= 0:
                counts.alignment_count[alignment] += sign
        elif alignment < 0:
            sample += 1
    return sample


@kernel
def _write_rule(
    source: CoreSource,
    rule: int,
    alignment: int,
    count: int,
    sample: int,
    counts: RuleCounts,
    extracted: Extracted,
) -> None:
    """Write a rule that was extracted from ``count`` of ``sample`` occurrences; all scores but IsSingletonF."""
    size = extracted.size
    row = size[RULES]
    sources, targets, links = size[SOURCES], size[TARGETS], size[LINKS]
    gap = 0
    for c in range(source.chunks):
        if c > 0 or counts.edges[rule] & LEFT:
            gap -= 1
            extracted.source[sources] = gap
            sources += 1
        for k in range(source.chunk.length[c]):
            extracted.source[sources] = source.words[source.chunk.word[c] + k]
            sources += 1
    if counts.edges[rule] & RIGHT:
        extracted.source[sources] = gap - 1
        sources += 1
    for k in range(counts.target[rule, 0], counts.target[rule, 1]):
        extracted.target[targets] = counts.symbol[k]
        targets += 1
    for k in range(counts.links[alignment, 0], counts.links[alignment, 1]):
        extracted.align[links, 0], extracted.align[links, 1] = counts.link[k, 0], counts.link[k, 1]
        links += 1
    extracted.rule[row] = rule
    extracted.score[row, 0] = -np.log10(count / sample)
    extracted.score[row, 1] = np.log10(1.0 + sample)
    extracted.score[row, 2] = np.log10(1.0 + count)
    extracted.score[row, 3], extracted.score[row, 4] = counts.lexical[rule, 0], counts.lexical[rule, 1]
    extracted.score[row, 6] = 1.0 if count == 1 else 0.0
    size[RULES], size[SOURCES], size[TARGETS], size[LINKS] = row + 1, sources, targets, links
    extracted.source_ptr[row + 1] = sources
    extracted.target_ptr[row + 1] = targets
    extracted.align_ptr[row + 1] = links
