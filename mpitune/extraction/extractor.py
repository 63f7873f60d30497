"""Hiero rules from a word-aligned bitext, for one sentence at a time (Chiang 2007; Lopez 2007).

The source sides are those of the sentence: up to `SYMBOLS` symbols, up to two gaps. Of each core (a side without gaps
at its edges) at most `SAMPLES` occurrences are looked at; what they yield is counted, and becomes seven features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.occurrences import SAMPLES, Chunk, narrowed, occurrences
from mpitune.extraction.phrase_pairs import (
    GAPS,
    LEFT,
    RIGHT,
    SPAN,
    SYMBOLS,
    Core,
    OccurrenceRules,
    new_found,
    phrase_pairs,
)
from mpitune.extraction.rule_counts import (
    RuleCounts,
    begin,
    count,
    end,
    forget_last,
    is_before,
    make_room,
    meet,
    new_yields,
    slot_of,
)
from mpitune.extraction.suffix_array import Bitext
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
_CHUNK = SYMBOLS - 2
"""The most words of a chunk that has a gap beside it."""
KEPT = 20
"""Cores with so many occurrences are kept for the next sentence."""
CACHE = 1 << 16
"""About how many cores are kept."""
RULES, SOURCES, TARGETS, LINKS = range(4)
"""What is counted in ``Extracted.size``."""


class Extracted(NamedTuple):
    """The rules of one sentence, and the space that they have; all have the left-hand side X."""

    size: np.ndarray
    """int64 [4]: rules, source symbols, target symbols, links."""
    source_ptr: np.ndarray
    """int64 [rules + 1]"""
    source: np.ndarray
    """int32: words (as the bitext numbers them), first gap -1, second gap -2."""
    target_ptr: np.ndarray
    """int64 [rules + 1]"""
    target: np.ndarray
    """int32"""
    align_ptr: np.ndarray
    """int64 [rules + 1]"""
    align: np.ndarray
    """int16 [links, 2]: source symbol, target symbol."""
    score: np.ndarray
    """float64 [rules, 7]: `FEATURES`."""
    rule: np.ndarray
    """int32 [rules]: numbers of no meaning outside."""


class _Space(NamedTuple):
    """Space to work in."""

    low: np.ndarray
    """int64 [words, SYMBOLS]: the suffixes that begin with 1, 2, ... words from each word of the sentence on ..."""
    high: np.ndarray
    """int64 [words, SYMBOLS]: ... up to here, excluded."""
    seen: np.ndarray
    """int64 [a power of 2, 3]: the cores that are done, by hash."""
    places: np.ndarray
    """int32 [SAMPLES, 3]"""
    chunk: Chunk
    core: Core
    found: OccurrenceRules
    source: np.ndarray
    """int32 [SYMBOLS]: the words of the core."""
    together: np.ndarray
    """int64 [4]: how often rules were extracted, by the edges that have a gap."""
    yields: RuleCounts


class Extractor:
    """Extracts grammars from one bitext."""

    def __init__(self, bitext: Bitext) -> None:
        self._bitext = bitext
        self._space = _new_space(64, new_yields(CACHE))
        self._rules = 1 << 13

    def grammar(self, words: np.ndarray, without: int = -1) -> Extracted:
        """The rules for a sentence of ``words`` (int32, as the bitext numbers them; -1: a word that it does not have).

        ``without``: a pair of the bitext, by its number there, whose occurrences do not count (leave-one-out); lexical
        probabilities count it all the same.
        """
        words = np.asarray(words, dtype=np.int32)
        if len(words) > len(self._space.low):
            self._space = _new_space(2 * len(words), self._space.yields)
        place = int(self._bitext.place[without]) if without >= 0 else -1
        while True:
            extracted = _new_extracted(self._rules)
            if _extract(self._bitext, words, place, self._space, extracted):
                return _cut(extracted)
            self._rules *= 2


def _new_space(words: int, yields: RuleCounts) -> _Space:
    chunk = Chunk(*(np.zeros(3, dtype=np.int64) for _ in Chunk._fields))
    core = Core(*(np.zeros(3, dtype=np.int64) for _ in Core._fields))
    return _Space(
        low=np.zeros((words, SYMBOLS), dtype=np.int64),
        high=np.zeros((words, SYMBOLS), dtype=np.int64),
        seen=np.empty((_seen(words), 3), dtype=np.int64),
        places=np.empty((SAMPLES, 3), dtype=np.int32),
        chunk=chunk,
        core=core,
        found=new_found(),
        source=np.empty(SYMBOLS, dtype=np.int32),
        together=np.empty(4, dtype=np.int64),
        yields=yields,
    )


def _new_extracted(rules: int) -> Extracted:
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


def _cut(found: Extracted) -> Extracted:
    rules, sources, targets, links = found.size.tolist()
    return Extracted(
        size=found.size,
        source_ptr=found.source_ptr[: rules + 1].copy(),
        source=found.source[:sources].copy(),
        target_ptr=found.target_ptr[: rules + 1].copy(),
        target=found.target[:targets].copy(),
        align_ptr=found.align_ptr[: rules + 1].copy(),
        align=found.align[:links].copy(),
        score=found.score[:rules].copy(),
        rule=found.rule[:0],
    )


@kernel
def _extract(bitext: Bitext, words: np.ndarray, without: int, space: _Space, extracted: Extracted) -> bool:
    """Fill ``extracted``; False where it has too little space. ``without``: a place among the pairs, or -1."""
    chunk, n = space.chunk, int64(len(words))
    _look_up(bitext, words, space)
    cores = _seen(n)
    for k in range(cores):
        space.seen[k, 0] = 0
    for i in range(n):
        for a in range(1, min(SYMBOLS, n - i) + 1):
            if not _set_chunk(space, 0, i, a):
                break
            if not _core(bitext, words, without, 1, a, cores, space, extracted):
                return False
    # The last word of a core is at most SPAN words after its first: one word more than a rule covers, as the reference
    # has it; what its gaps stand for may be shorter.
    for i in range(n):
        for a in range(1, min(_CHUNK, n - i) + 1):
            if not _set_chunk(space, 0, i, a):
                break
            for j in range(i + a + 1, min(n, i + SPAN + 1)):
                for b in range(1, min(SYMBOLS - 1 - a, n - j, i + SPAN + 1 - j) + 1):
                    if not _set_chunk(space, 1, j, b):
                        break
                    if not _core(bitext, words, without, 2, a + b + 1, cores, space, extracted):
                        return False
                    if a + b + GAPS + 1 > SYMBOLS:
                        continue
                    for k in range(j + b + 1, min(n, i + SPAN + 1)):
                        if _set_chunk(space, 2, k, 1) and not _core(
                            bitext, words, without, 3, a + b + GAPS + 1, cores, space, extracted
                        ):
                            return False
                        chunk.length[2] = 0
    return True


@kernel
def _seen(words: int) -> int:
    """Slots enough, a power of 2, for the cores of a sentence: fewer than 200 begin with each of its ``words``."""
    slots = int64(1)
    while slots < 400 * words:
        slots *= 2
    return slots


@kernel
def _look_up(bitext: Bitext, words: np.ndarray, space: _Space) -> None:
    """Find the suffixes that begin with each part of the sentence."""
    n = len(words)
    for i in range(n):
        low, high = int64(0), int64(0)
        for d in range(SYMBOLS):
            if d == 0 and words[i] >= 0:
                low, high = bitext.suffixes.word_ptr[words[i]], bitext.suffixes.word_ptr[words[i] + 1]
            elif high > low and i + d < n and words[i + d] >= 0:
                low, high = narrowed(bitext.texts, bitext.suffixes, low, high, d, int64(words[i + d]))
            else:
                low = high = int64(0)
            space.low[i, d], space.high[i, d] = low, high


@kernel
def _set_chunk(space: _Space, c: int, word: int, length: int) -> bool:
    """Make ``length`` words from ``word`` on the chunk ``c``; False where the bitext does not have them."""
    space.chunk.word[c], space.chunk.length[c] = word, length
    space.chunk.low[c], space.chunk.high[c] = space.low[word, length - 1], space.high[word, length - 1]
    return bool(space.chunk.high[c] > space.chunk.low[c])


@kernel
def _core(
    bitext: Bitext,
    words: np.ndarray,
    without: int,
    chunks: int,
    symbols: int,
    cores: int,
    space: _Space,
    extracted: Extracted,
) -> bool:
    """Add the rules of the core that is set; False where ``extracted`` has too little space for them."""
    chunk, yields = space.chunk, space.yields
    # The suffixes that begin with a chunk, and its length, tell chunks apart.
    a = chunk.low[0] * 8 + chunk.length[0]
    b = chunk.low[1] * 8 + chunk.length[1] if chunks > 1 else int64(0)
    c = chunk.low[2] * 8 + chunk.length[2] if chunks > 2 else int64(0)
    slot = slot_of(space.seen, cores, a, b, c)
    if space.seen[slot, 0] != 0:
        return True
    space.seen[slot, 0], space.seen[slot, 1], space.seen[slot, 2] = a, b, c
    slot = slot_of(yields.key, len(yields.key), a, b, c)
    if yields.key[slot, 0] != 0:
        return _write(words, without, int64(yields.core[slot]), chunks, space, extracted)
    make_room(yields)
    found = occurrences(bitext, words, chunk, chunks, space.places)
    core = _counted(bitext, chunks, symbols, found, space)
    complete = _write(words, without, core, chunks, space, extracted)
    if found < KEPT:
        forget_last(yields)
    else:
        slot = slot_of(yields.key, len(yields.key), a, b, c)
        yields.key[slot, 0], yields.key[slot, 1], yields.key[slot, 2] = a, b, c
        yields.core[slot] = core
    return complete


@kernel
def _counted(bitext: Bitext, chunks: int, symbols: int, found: int, space: _Space) -> int:
    """Count what the ``found`` occurrences of a core yield; returns the core's number in the yields."""
    core, yields = space.core, space.yields
    for c in range(chunks):
        core.length[c] = space.chunk.length[c]
    terminals = 0
    for c in range(chunks):
        for k in range(core.length[c] if found > 0 else 0):
            space.source[terminals] = bitext.texts.source[space.places[0, c] + k]["word"]
            terminals += 1
    source = space.source[:terminals]
    begin(yields)
    for o in range(found):
        for c in range(chunks):
            core.at[c] = space.places[o, c]
        meet(yields, int64(bitext.texts.source[core.at[0]]["pair"]), -1)
        for r in range(phrase_pairs(bitext.texts, core, chunks, symbols, space.found)):
            count(bitext, source, core, chunks, r, space.found, yields)
    return end(yields)


@kernel
def _write(words: np.ndarray, without: int, core: int, chunks: int, space: _Space, extracted: Extracted) -> bool:
    """Write the rules of a core that was counted; False where there is too little space."""
    yields, size = space.yields, extracted.size
    first, last = yields.rules[core], yields.rules[core + 1]
    if size[RULES] + last - first > len(extracted.score):
        return False
    sample = _leave_out(yields, core, without, -1)
    together = space.together
    for edges in range(4):
        together[edges] = 0
    begin_row = size[RULES]
    for rule in range(first, last):
        times, best, chosen = 0, 0, int64(-1)
        alignment = int64(yields.first[rule])
        while alignment >= 0:
            met = yields.times[alignment]
            times += met
            if met > best or (met == best and met > 0 and is_before(yields, alignment, chosen)):
                best, chosen = met, alignment
            alignment = int64(yields.next[alignment])
        if times > 0:
            together[yields.edges[rule]] += times
            _write_rule(words, chunks, rule, chosen, times, sample, space, extracted)
    row = begin_row
    for rule in range(first, last):
        if row < size[RULES] and extracted.rule[row] == rule:
            extracted.score[row, 5] = 1.0 if together[yields.edges[rule]] == 1 else 0.0
            row += 1
    if without >= 0:
        _leave_out(yields, core, without, 1)
    return True


@kernel
def _leave_out(yields: RuleCounts, core: int, without: int, sign: int) -> int:
    """Take what comes of the pair ``without`` out of the counts (-1), or put it back (1).

    Returns how many occurrences were looked at in other pairs.
    """
    sample = 0
    for k in range(yields.occurrence_log[core], yields.occurrence_log[core + 1]):
        alignment = yields.alignment[k]
        if yields.pair[k] == without:
            if alignment >= 0:
                yields.times[alignment] += sign
        elif alignment < 0:
            sample += 1
    return sample


@kernel
def _write_rule(
    words: np.ndarray,
    chunks: int,
    rule: int,
    alignment: int,
    times: int,
    sample: int,
    space: _Space,
    extracted: Extracted,
) -> None:
    """Write a rule that was extracted ``times`` from ``sample`` occurrences."""
    yields, chunk, size = space.yields, space.chunk, extracted.size
    row = size[RULES]
    sources, targets, links = size[SOURCES], size[TARGETS], size[LINKS]
    gap = 0
    for c in range(chunks):
        if c > 0 or yields.edges[rule] & LEFT:
            gap -= 1
            extracted.source[sources] = gap
            sources += 1
        for k in range(chunk.length[c]):
            extracted.source[sources] = words[chunk.word[c] + k]
            sources += 1
    if yields.edges[rule] & RIGHT:
        extracted.source[sources] = gap - 1
        sources += 1
    for k in range(yields.target[rule, 0], yields.target[rule, 1]):
        extracted.target[targets] = yields.symbol[k]
        targets += 1
    for k in range(yields.links[alignment, 0], yields.links[alignment, 1]):
        extracted.align[links, 0], extracted.align[links, 1] = yields.link[k, 0], yields.link[k, 1]
        links += 1
    extracted.rule[row] = rule
    extracted.score[row, 0] = -np.log10(times / sample)
    extracted.score[row, 1] = np.log10(1.0 + sample)
    extracted.score[row, 2] = np.log10(1.0 + times)
    extracted.score[row, 3], extracted.score[row, 4] = yields.lexical[rule, 0], yields.lexical[rule, 1]
    extracted.score[row, 6] = 1.0 if times == 1 else 0.0
    size[RULES], size[SOURCES], size[TARGETS], size[LINKS] = row + 1, sources, targets, links
    extracted.source_ptr[row + 1] = sources
    extracted.target_ptr[row + 1] = targets
    extracted.align_ptr[row + 1] = links
