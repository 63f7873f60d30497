"""The unit of a language model's scores: log10 probabilities, natural logarithms, hundredths of either, ..."""

from __future__ import annotations

from mpitune.jit import kernel
from mpitune.lm.ngram_table import UNKNOWN, LanguageModel, entry
from mpitune.portable_math import exp10, log10

USUAL = 0.8, 1.25
"""Scales between these are taken for 1: probabilities that do not add up to 1, such as those of a pruned vocabulary."""
LARGEST = 1e6
"""The largest factor that is looked for, and one over the smallest."""


def log_scale(lm: LanguageModel) -> float:
    """The factor that makes the model's scores log10 probabilities: with it, those of the unigrams add up to 1.

    1 if this holds without one or nearly so (`USUAL`), or with none from 1/`LARGEST` to `LARGEST`. Not counted are
    ``<unk>``, which some files lack, and ``<s>``, which has no probability. A choice of this implementation.
    """

    def surplus(power: float) -> float:
        return _unigram_sum(lm, exp10(power)) - 1.0

    limit = log10(LARGEST)
    if not surplus(limit) < 0 < surplus(-limit):
        return 1.0
    from scipy.optimize import brentq  # takes half a second, which commands that read a store need not wait

    scale = exp10(brentq(surplus, -limit, limit))
    return 1.0 if USUAL[0] < scale < USUAL[1] else scale


@kernel
def _unigram_sum(lm: LanguageModel, scale: float) -> float:
    """The sum of the unigrams' probabilities if ``scale`` times their scores are log10 probabilities."""
    total = 0.0
    for word in range(lm.words):
        if word not in (UNKNOWN, lm.bos):
            total += exp10(scale * float(entry(lm, word)[0]))
    return total
