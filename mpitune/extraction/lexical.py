"""Lexical scores of a rule: MaxLexFgivenE and MaxLexEgivenF."""

from __future__ import annotations

import numpy as np

from mpitune.extraction.bitext import Lexicon
from mpitune.jit import kernel
from mpitune.portable_math import log10

NEVER = 99.0
"""Score of a word with probability 0, in place of -log10 of it."""


@kernel
def lexical_scores(
    lexicon: Lexicon, source: np.ndarray, target: np.ndarray, begin: int, end: int
) -> tuple[float, float]:
    """MaxLexFgivenE and MaxLexEgivenF of the words ``source`` (int32) and ``target[begin:end]`` (int32, gaps negative).

    The first is the sum over source words f of -log10 max p(f|e), e being the target words and NULL, the second the
    same with the sides exchanged; p are relative frequencies of links.
    """
    null = len(lexicon.source_null)
    forward = 0.0
    for f in source:
        best = lexicon.source_null[f] / lexicon.target_count[null] if lexicon.source_null[f] > 0 else 0.0
        for j in range(begin, end):
            e = target[j]
            if e >= 0:
                times = _linked(lexicon, f, e)
                if times > 0:
                    best = max(best, times / lexicon.target_count[e])
        forward += -log10(best) if best > 0.0 else NEVER
    backward = 0.0
    for j in range(begin, end):
        e = target[j]
        if e < 0:
            continue
        best = lexicon.target_null[e] / lexicon.source_count[null] if lexicon.target_null[e] > 0 else 0.0
        for f in source:
            times = _linked(lexicon, f, e)
            if times > 0:
                best = max(best, times / lexicon.source_count[f])
        backward += -log10(best) if best > 0.0 else NEVER
    return forward, backward


@kernel
def _linked(lexicon: Lexicon, f: int, e: int) -> int:
    """Number of links between source word ``f`` and target word ``e``."""
    low, high = lexicon.ptr[f], lexicon.ptr[f + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if lexicon.word[middle] < e:
            low = middle + 1
        else:
            high = middle
    return int(lexicon.times[low]) if low < end and lexicon.word[low] == e else 0
