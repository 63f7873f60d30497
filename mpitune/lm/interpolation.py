"""The kernels of Kneser-Ney smoothing, over the n-grams of one length in the trie of `ngram_runs.Ngrams`.

``begin`` and ``end`` are places of these n-grams; ``shorter`` is the place of the first of those that are a word
shorter. What belongs to a context is in ``mass`` (float64 [n-grams, 2]): the sum of the counts of n-grams that begin
with it, and of their discounts.
"""

from __future__ import annotations

import numpy as np

from mpitune.jit import at, inlined, int64, kernel
from mpitune.lm.ngram_runs import Ngrams
from mpitune.portable_math import log10

_TOTAL, _LEFT_OVER = range(2)


@kernel
def find_contexts(ngrams: Ngrams, begin: int, end: int, context: np.ndarray) -> None:
    """Fill ``context`` (int32 [n-grams of all lengths]) with the places of w1 .. wn-1; it has those of shorter ones.

    The context is longer by w1 than that of w2 .. wn, and both have their children in ascending order.
    """
    first, previous = ngrams.first, -1
    place, last = 0, 0
    for i in range(begin, end):
        suffix = int64(ngrams.suffix[at(i)])
        if suffix != previous:
            previous = suffix
            parent = int64(context[at(suffix)])
            place = int64(ngrams.child[at(parent)])
            last = place + ngrams.counts[at(parent)] - 1
        word = first[at(i)]
        # Steps that double, from the context of the n-gram before, and then are halved.
        step = 1
        while place + step <= last and first[at(place + step)] <= word:
            place += step
            step *= 2
        while step > 0:
            if place + step <= last and first[at(place + step)] <= word:
                place += step
            step >>= 1
        context[at(i)] = place


@kernel
def add_up(
    ngrams: Ngrams, begin: int, end: int, context: np.ndarray, shorter: int, discount: np.ndarray, mass: np.ndarray
) -> None:
    """Add counts and discounts to the ``mass`` of contexts; ``discount``: float64 [4], of counts 0, 1, 2, and more."""
    for i in range(begin, end):
        of, count = context[at(i)] - shorter, ngrams.counts[at(i)]
        mass[at(of), _TOTAL] += count
        mass[at(of), _LEFT_OVER] += discount[at(min(count, 3))]


@kernel
def interpolate(
    ngrams: Ngrams,
    begin: int,
    end: int,
    context: np.ndarray,
    shorter: int,
    discount: np.ndarray,
    mass: np.ndarray,
    shorter_prob: np.ndarray,
    prob: np.ndarray,
) -> None:
    """Fill ``prob`` (float64 [end - begin]) with probabilities, from those of shorter n-grams."""
    for i in range(begin, end):
        of, count = context[at(i)] - shorter, ngrams.counts[at(i)]
        own = (count - discount[at(min(count, 3))]) / mass[at(of), _TOTAL]
        prob[at(i - begin)] = own + backoff(mass, of) * shorter_prob[at(ngrams.suffix[at(i)] - shorter)]


@inlined
def backoff(mass: np.ndarray, context: int) -> float:
    """Probability left over for n-grams that do not occur after a context; 1 for what is no context."""
    total: float = mass[at(context), _TOTAL]
    left_over: float = mass[at(context), _LEFT_OVER]
    return left_over / total if is_context(mass, context) else 1.0


@inlined
def is_context(mass: np.ndarray, ngram: int) -> bool:
    """True if longer n-grams begin with ``ngram``."""
    return bool(mass[at(ngram), _TOTAL] > 0.0)


@inlined
def log_prob(prob: np.ndarray, ngram: int) -> np.float32:
    """log10 of a probability, which rounding may have raised above 1."""
    return np.float32(log10(min(prob[at(ngram)], 1.0)))


@inlined
def log_backoff(mass: np.ndarray, context: int) -> np.float32:
    """log10 of the `backoff`."""
    return np.float32(log10(backoff(mass, context)))
