"""Language models estimated by NumPy alone, with one sort for each length of n-grams: the slow twin of `mpitune lm`.

It gives the same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mpitune.lm.kneser_ney import FALLBACK_DISCOUNTS, discounts
from mpitune.portable_math import log10s

UNKNOWN, START, END = range(3)


class Level(NamedTuple):
    """The n-grams of one length, in suffix order: by their last words, then by those before, and so on."""

    first: np.ndarray
    """The first word."""
    suffix: np.ndarray
    """The number of the n-gram after the first word among those that are one word shorter; 0 for single words."""
    context: np.ndarray
    """The number of the n-gram before the last word, likewise."""
    counts: np.ndarray
    """Occurrences, or adjusted counts."""


def arpa_file(sentences: Sequence[Sequence[str]], order: int, allowed: Collection[str] | None = None) -> bytes:
    """The model of ``sentences``; words that are not ``allowed`` (None: all are) count as ``<unk>``."""
    words, tokens = ["<unk>", "<s>", "</s>"], list[int]()
    number = {word: k for k, word in enumerate(words)}
    for sentence in sentences:
        tokens.append(START)
        for word in sentence:
            if allowed is not None and word not in allowed:
                tokens.append(UNKNOWN)
                continue
            if word not in number:
                number[word] = len(words)
                words.append(word)
            tokens.append(number[word])
        tokens.append(END)
    levels = count(np.array(tokens, dtype=np.int64), len(words), order)
    adjusted = [
        ngrams._replace(
            counts=np.where(
                ngrams.first == START, ngrams.counts, np.bincount(longer.suffix, minlength=len(ngrams.counts))
            )
        )
        for ngrams, longer in pairwise(levels)
    ]
    return written(words, [*adjusted, levels[-1]])


def count(token: np.ndarray, words: int, order: int) -> list[Level]:
    """The n-grams of length 1 .. ``order``, coded as one integer, from the first word and the number of the suffix."""
    start = np.flatnonzero(token == START)
    position = np.arange(len(token)) - np.repeat(start, np.diff(start, append=len(token)))
    number = token.copy()
    occurrences, empty = np.bincount(token, minlength=words), np.zeros(words, dtype=np.int64)
    occurrences[START] = 0
    levels = [Level(np.arange(words), empty, empty, occurrences)]
    for n in range(2, order + 1):
        end = np.flatnonzero(position >= n - 1)
        key, which = np.unique(number[end] * words + token[end - (n - 1)], return_inverse=True)
        suffix, first = np.divmod(key, words)
        context = np.empty_like(suffix)
        context[which] = number[end - 1]
        number[end] = which
        levels.append(Level(first, suffix, context, np.bincount(which, minlength=len(key))))
    return levels


def written(words: Sequence[str], levels: Sequence[Level]) -> bytes:
    """The file of a model with these adjusted counts."""
    prob, probs, backoffs = np.array([1 / (len(words) - 1)]), list[np.ndarray](), list[np.ndarray]()
    for _, suffix, context, a in levels:
        found = discounts(np.bincount(np.minimum(a, 5), minlength=6)[:5].tolist())
        discount = (np.array([0.0, *FALLBACK_DISCOUNTS]) if found is None else found)[np.minimum(a, 3)]
        total = np.bincount(context, weights=a, minlength=len(prob))
        left_over = np.bincount(context, weights=discount, minlength=len(prob))
        backoff = np.divide(left_over, total, out=np.ones(len(prob)), where=total > 0)
        prob = (a - discount) / total[context] + backoff[context] * prob[suffix]
        probs.append(prob)
        backoffs.append(backoff)
    lines = ["\\data\\", *(f"ngram {n}={len(level.first)}" for n, level in enumerate(levels, start=1))]
    texts = [""]
    for n, level in enumerate(levels, start=1):
        lines += ["", f"\\{n}-grams:"]
        texts = [f"{words[w]} {texts[s]}".strip() for w, s in zip(level.first, level.suffix, strict=True)]
        columns = [numbers(np.minimum(probs[n - 1], 1)), texts, *([numbers(backoffs[n])] if n < len(levels) else [])]
        lines += map("\t".join, zip(*columns, strict=True))
    return "\n".join([*lines, "", "\\end\\", ""]).encode()


def numbers(values: np.ndarray) -> list[str]:
    """Their log10 in the fewest digits that a float32 has."""
    return [str(value).removesuffix(".0") for value in log10s(values).astype(np.float32) + np.float32(0)]
