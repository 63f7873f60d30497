"""Extraction of Hiero rules from a word-aligned bitext for one sentence at a time (Chiang 2007; Lopez 2007).

Source sides are taken from the sentence: up to `SYMBOLS` symbols, up to two gaps. A core is a source side without gaps
at its edges; its chunks are the word sequences between its gaps. For each core of the sentence, at most `SAMPLES`
occurrences in the bitext are sampled. The rules of these occurrences are counted, and the counts become seven features.

Chiang 2007 = "Hierarchical Phrase-Based Translation", Computational Linguistics 33; Lopez 2007 = "Hierarchical
Phrase-Based Translation with Suffix Arrays", EMNLP-CoNLL.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.extraction.extracted import CoreSource, Extracted, new_extracted, trimmed, write_rules
from mpitune.extraction.occurrences import SAMPLES, Chunk, narrow, occurrences
from mpitune.extraction.phrase_pairs import (
    GAPS,
    SPAN,
    SYMBOLS,
    Core,
    OccurrenceRules,
    new_occurrence_rules,
    phrase_pairs,
)
from mpitune.extraction.rule_counts import (
    RuleCounts,
    begin_core,
    clear_if_full,
    count_rule,
    drop_last_core,
    end_core,
    find_slot,
    log_occurrence,
    new_rule_counts,
)
from mpitune.extraction.suffix_array import Bitext
from mpitune.jit import int64, kernel

_GAPPED_WORDS = SYMBOLS - 2
"""Maximum length of the first chunk of a core with a gap."""
CACHED_OCCURRENCES = 20
"""Rule counts of cores with at least this many sampled occurrences are cached for later sentences."""
CACHE = 1 << 16
"""Approximate number of cached cores."""


class _Sentence(NamedTuple):
    """The sentence for which rules are extracted."""

    words: np.ndarray
    """int32 [words]: as the bitext numbers them; -1: unknown."""
    without: int
    """The pair to leave out, as a place among the pairs of the bitext; -1: none."""
    slots: int
    """Used length of ``_Workspace.done``, a power of 2."""


class _Workspace(NamedTuple):
    """Arrays that the kernels work in."""

    low: np.ndarray
    """int64 [words, SYMBOLS]: the suffixes that begin with 1, 2, ... words from each word of the sentence on ..."""
    high: np.ndarray
    """int64 [words, SYMBOLS]: ... up to here, excluded."""
    done: np.ndarray
    """int64 [a power of 2, 3]: hash table of the sentence's cores that are done."""
    places: np.ndarray
    """int32 [SAMPLES, 3]: see `occurrences`."""
    chunk: Chunk
    core: Core
    found: OccurrenceRules
    source: np.ndarray
    """int32 [SYMBOLS]: the words of the core."""
    edge_counts: np.ndarray
    """int64 [4]: extractions of rules of the core, by the edges that have a gap."""
    counts: RuleCounts


class Extractor:
    """Extracts grammars from one bitext."""

    def __init__(self, bitext: Bitext) -> None:
        self._bitext = bitext
        self._space = _new_workspace(64, new_rule_counts(CACHE))
        self._capacity = 1 << 13
        """Number of rules for which `grammar` allocates arrays."""

    def grammar(self, words: np.ndarray, without: int = -1) -> Extracted:
        """The rules for a sentence of ``words`` (int32, as the bitext numbers them; -1: not a word of the bitext).

        ``without``: the number of a pair in the bitext's files whose occurrences do not count (leave-one-out); lexical
        probabilities include it.
        """
        words = np.asarray(words, dtype=np.int32)
        if len(words) > len(self._space.low):
            self._space = _new_workspace(2 * len(words), self._space.counts)
        place = int(self._bitext.place[without]) if without >= 0 else -1
        sentence = _Sentence(words, place, _hash_slots(len(words)))
        while True:
            extracted = new_extracted(self._capacity)
            if _extract(self._bitext, sentence, self._space, extracted):
                return trimmed(extracted)
            self._capacity *= 2


def _new_workspace(words: int, counts: RuleCounts) -> _Workspace:
    """A workspace for sentences of at most ``words`` words."""
    return _Workspace(
        low=np.zeros((words, SYMBOLS), dtype=np.int64),
        high=np.zeros((words, SYMBOLS), dtype=np.int64),
        done=np.empty((_hash_slots(words), 3), dtype=np.int64),
        places=np.empty((SAMPLES, 3), dtype=np.int32),
        chunk=Chunk(*(np.zeros(3, dtype=np.int64) for _ in Chunk._fields)),
        core=Core(*(np.zeros(3, dtype=np.int64) for _ in Core._fields)),
        found=new_occurrence_rules(),
        source=np.empty(SYMBOLS, dtype=np.int32),
        edge_counts=np.empty(4, dtype=np.int64),
        counts=counts,
    )


@kernel
def _hash_slots(words: int) -> int:
    """Slots of a hash table, a power of 2, for the cores of a sentence: fewer than 200 begin with each of its words."""
    slots = int64(1)
    while slots < 400 * words:
        slots *= 2
    return slots


@kernel
def _extract(bitext: Bitext, sentence: _Sentence, space: _Workspace, extracted: Extracted) -> bool:
    """Fill ``extracted`` (empty); False if it is too small."""
    _find_phrases(bitext, sentence.words, space)
    for slot in range(sentence.slots):
        space.done[slot, 0] = 0
    return _cores_without_gap(bitext, sentence, space, extracted) and _cores_with_gap(
        bitext, sentence, space, extracted
    )


@kernel
def _find_phrases(bitext: Bitext, words: np.ndarray, space: _Workspace) -> None:
    """Fill ``space.low`` and ``space.high``: the suffixes that begin with each phrase of the sentence."""
    n = len(words)
    for i in range(n):
        low, high = int64(0), int64(0)
        for d in range(SYMBOLS):
            if d == 0 and words[i] >= 0:
                low, high = bitext.suffixes.word_ptr[words[i]], bitext.suffixes.word_ptr[words[i] + 1]
            elif high > low and i + d < n and words[i + d] >= 0:
                low, high = narrow(bitext.texts, bitext.suffixes, low, high, d, int64(words[i + d]))
            else:
                low = high = int64(0)
            space.low[i, d], space.high[i, d] = low, high


@kernel
def _cores_without_gap(bitext: Bitext, sentence: _Sentence, space: _Workspace, extracted: Extracted) -> bool:
    """Add the rules of the cores of one chunk; False if ``extracted`` is too small."""
    n = len(sentence.words)
    for i in range(n):
        for length in range(1, min(SYMBOLS, n - i) + 1):
            if not _set_chunk(space, 0, i, length):
                break
            if not _add_core(bitext, sentence, 1, space, extracted):
                return False
    return True


@kernel
def _cores_with_gap(bitext: Bitext, sentence: _Sentence, space: _Workspace, extracted: Extracted) -> bool:
    """Add the rules of the cores of two or three chunks; False if ``extracted`` is too small.

    The last word of a core is at most SPAN words after its first: one word more than a rule covers, as in cdec's
    extractor. Its gaps may be shorter in the bitext than in the sentence.
    """
    n = len(sentence.words)
    for i in range(n):
        for length in range(1, min(_GAPPED_WORDS, n - i) + 1):
            if not _set_chunk(space, 0, i, length):
                break
            for j in range(i + length + 1, min(n, i + SPAN + 1)):
                if not _second_chunk(bitext, sentence, j, space, extracted):
                    return False
    return True


@kernel
def _second_chunk(bitext: Bitext, sentence: _Sentence, j: int, space: _Workspace, extracted: Extracted) -> bool:
    """Add the rules of the cores with the first chunk that is set and a second one from word ``j`` on."""
    chunk, n = space.chunk, len(sentence.words)
    for length in range(1, min(SYMBOLS - 1 - chunk.length[0], n - j, chunk.word[0] + SPAN + 1 - j) + 1):
        if not _set_chunk(space, 1, j, length):
            break
        if not _add_core(bitext, sentence, 2, space, extracted):
            return False
        if chunk.length[0] + length + 1 + GAPS <= SYMBOLS and not _third_chunk(bitext, sentence, space, extracted):
            return False
    return True


@kernel
def _third_chunk(bitext: Bitext, sentence: _Sentence, space: _Workspace, extracted: Extracted) -> bool:
    """Add the rules of the cores with the two chunks that are set, of one word each, and one word as the third."""
    chunk = space.chunk
    first, last = chunk.word[1] + chunk.length[1] + 1, chunk.word[0] + SPAN
    for k in range(first, min(len(sentence.words), last + 1)):
        if _set_chunk(space, 2, k, 1) and not _add_core(bitext, sentence, 3, space, extracted):
            return False
    return True


@kernel
def _set_chunk(space: _Workspace, c: int, word: int, length: int) -> bool:
    """Set chunk ``c`` to ``length`` words of the sentence from ``word`` on; False if the bitext does not have them."""
    chunk = space.chunk
    chunk.word[c], chunk.length[c] = word, length
    chunk.low[c], chunk.high[c] = space.low[word, length - 1], space.high[word, length - 1]
    return bool(chunk.high[c] > chunk.low[c])


@kernel
def _add_core(bitext: Bitext, sentence: _Sentence, chunks: int, space: _Workspace, extracted: Extracted) -> bool:
    """Add the rules of the core of the ``chunks`` chunks that are set; False if ``extracted`` is too small."""
    chunk, counts = space.chunk, space.counts
    # The range of suffixes and the length identify a chunk.
    a = chunk.low[0] * 8 + chunk.length[0]
    b = chunk.low[1] * 8 + chunk.length[1] if chunks > 1 else int64(0)
    c = chunk.low[2] * 8 + chunk.length[2] if chunks > 2 else int64(0)
    slot = find_slot(space.done, sentence.slots, a, b, c)
    if space.done[slot, 0] != 0:
        return True
    space.done[slot, 0], space.done[slot, 1], space.done[slot, 2] = a, b, c
    slot = find_slot(counts.key, len(counts.key), a, b, c)
    source = CoreSource(sentence.words, chunk, chunks)
    if counts.key[slot, 0] != 0:
        core = int64(counts.core[slot])
        return write_rules(source, core, sentence.without, counts, space.edge_counts, extracted)
    clear_if_full(counts)
    sampled = occurrences(bitext, sentence.words, chunk, chunks, space.places)
    core = _count_rules(bitext, chunks, sampled, space)
    complete = write_rules(source, core, sentence.without, counts, space.edge_counts, extracted)
    if sampled < CACHED_OCCURRENCES:
        drop_last_core(counts)
    else:
        slot = find_slot(counts.key, len(counts.key), a, b, c)
        counts.key[slot, 0], counts.key[slot, 1], counts.key[slot, 2] = a, b, c
        counts.core[slot] = core
    return complete


@kernel
def _count_rules(bitext: Bitext, chunks: int, sampled: int, space: _Workspace) -> int:
    """Count the rules of the ``sampled`` occurrences of a core; returns the core's number in the counts."""
    core, counts = space.core, space.counts
    symbols = int64(chunks - 1)
    for c in range(chunks):
        core.length[c] = space.chunk.length[c]
        symbols += core.length[c]
    words = 0
    for c in range(chunks):
        for k in range(core.length[c] if sampled > 0 else 0):
            space.source[words] = bitext.texts.source[space.places[0, c] + k]["word"]
            words += 1
    source = space.source[:words]
    begin_core(counts)
    for o in range(sampled):
        for c in range(chunks):
            core.at[c] = space.places[o, c]
        log_occurrence(counts, int64(bitext.texts.source[core.at[0]]["pair"]), -1)
        for r in range(phrase_pairs(bitext.texts, core, chunks, symbols, space.found)):
            count_rule(bitext, source, core, chunks, r, space.found, counts)
    return end_core(counts)
