"""Estimate n-gram language models with interpolated modified Kneser-Ney smoothing; the models equal those of lmplz.

Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling" (TR-10-98, 1998);
Heafield, Pouzyrevsky, Clark and Koehn, "Scalable Modified Kneser-Ney Language Model Estimation" (ACL 2013).
This implementation works in memory, with one sort for each length of n-grams.

Conventions of lmplz (KenLM), followed here:

- a sentence is ``<s> w1 .. wn </s>``; an empty line is the sentence ``<s> </s>``; nothing is pruned;
- probabilities sum to 1 over all words, ``</s>`` and ``<unk>``, which stands for every word that the model lacks;
  1-grams are interpolated with the uniform distribution over these;
- ``<s>`` is never predicted. Its 1-gram entry exists for its backoff; the probability in it, that of a word with count
  0 like ``<unk>``, is meaningless (lmplz of 2014 writes the same value, lmplz of 2015 and later writes 1).

With a limited vocabulary, the words of the text outside it are read as ``<unk>``, which is then a word like others,
with n-grams of its own (an open-vocabulary model, SRILM's -vocab with -unk; lmplz's --limit_vocab_file drops n-grams).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.atomic import open_atomic
from mpitune.corpus.lines import kilobytes, lines
from mpitune.corpus.progress import Progress, StartProgress, no_progress
from mpitune.corpus.text import split_words
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.wording import counted
from mpitune.errors import DataError, UsageError
from mpitune.lm.arpa_writer import Level, write_arpa
from mpitune.portable_math import log10s

MARKERS = ("<unk>", "<s>", "</s>")
"""Words 0, 1 and 2, which the model adds."""
_RESERVED = (*MARKERS, "<UNK>")
"""Words that a text must not have: readers take ``<UNK>`` for ``<unk>``, as KenLM does."""
_UNKNOWN, _START, _END = 0, 1, 2

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
"""Discounts of lmplz for adjusted counts 1, 2, and 3 or more, used if the text is too small to estimate them."""


class NgramCounts(NamedTuple):
    """The n-grams of one length, n, numbered in suffix order: by their last words, then by those before, and so on."""

    first: np.ndarray
    """int64 [n-grams]: the first word, w1."""
    suffix: np.ndarray
    """int64 [n-grams]: the number of w2 .. wn among the (n-1)-grams; 0, the empty n-gram, for n = 1."""
    context: np.ndarray
    """int64 [n-grams]: the number of w1 .. wn-1 among the (n-1)-grams; 0 for n = 1."""
    counts: np.ndarray
    """int64 [n-grams]: occurrences, or adjusted counts."""


def estimate(
    text: Path,
    order: int,
    output: Path,
    log: Callable[[str], None],
    start_progress: StartProgress = no_progress,
    *,
    vocabulary: Path | None = None,
    further_texts: Sequence[Path] = (),
) -> None:
    """Estimate a model of n-grams up to length ``order`` from ``text`` (tokenised, a sentence a line) into ``output``.

    ``vocabulary``: a file of words, separated by blanks and line ends; other words of the text count as ``<unk>``.
    ``further_texts`` are read after ``text``; all may be gzipped, and ``output`` is gzipped if its name ends in .gz.
    ``log`` receives messages about the work, and a warning if `FALLBACK_DISCOUNTS` are used; ``start_progress``
    displays its stages. Memory: about 60 bytes for each word of the text, 40 for each n-gram.

    Raises UsageError for an order below 1; DataError for a text without sentences, for a vocabulary of which the text
    has no word, and for a line that is not UTF-8 or contains a marker or a character that no ARPA file can hold;
    OSError if ``output`` cannot be written.
    """
    if order < 1:
        raise UsageError(f"order {order}: must be 1 or more")
    # Opened first, so that an unwritable output fails before the work.
    with open_atomic(output) as file:
        texts = [text, *further_texts]
        log(f"reading {', '.join(map(str, texts))}")
        allowed = None if vocabulary is None else read_vocabulary(vocabulary)
        with start_progress("kB of text read", kilobytes(texts)) as progress:
            words, token = read_tokens(texts, allowed, progress)
        distinct = len(words) - len(MARKERS)
        if vocabulary is not None and distinct == 0:
            raise DataError.at(vocabulary, None, found=f"no word of {text}", expected="words, separated by blanks")
        sentences = int(np.count_nonzero(token == _START))
        size = f"{counted(sentences, 'sentence')}, {counted(len(token) - 2 * sentences, 'word')}"
        unknown = "" if allowed is None else f", {int(np.count_nonzero(token == _UNKNOWN))} outside the vocabulary"
        log(f"{size} ({distinct} distinct{unknown})")
        with start_progress("lengths of n-grams counted", order) as progress:
            counts = count(token, len(words), order, log, progress)
        with start_progress("lengths of n-grams smoothed", order) as progress:
            levels = smooth(adjust(counts), log, progress)
        with start_progress("n-grams written", sum(len(level.prob) for level in levels)) as progress:
            write_arpa(file, words, levels, log, progress)


def read_vocabulary(path: Path) -> frozenset[str]:
    """The words of a file, separated by blanks and line ends."""
    return frozenset(word for _, line in lines(path) for word in split_words(line))


def read_tokens(
    texts: Sequence[Path], allowed: Collection[str] | None = None, progress: Progress | None = None
) -> tuple[list[str], np.ndarray]:
    """Read texts; returns their words, `MARKERS` first, and their sentences with markers as numbers (int32).

    Words that are not ``allowed`` (None: all are) become ``<unk>``.
    Raises DataError as `estimate` does.
    """
    vocabulary = Vocabulary(MARKERS)
    tokens = array("i")
    for text in texts:
        for number, line in lines(text, progress):
            words = split_words(line)
            marker = next((word for word in words if word in _RESERVED), None)
            if marker is not None:
                expected = f"a sentence without {', '.join(_RESERVED)}, which the model has itself"
                raise DataError.at(
                    text, number, found=f"the word {marker}", expected=f"{expected}: remove or rename them"
                )
            tokens.append(_START)
            known = (word if allowed is None or word in allowed else MARKERS[_UNKNOWN] for word in words)
            tokens.extend(map(vocabulary.add, known))
            tokens.append(_END)
    if not tokens:
        raise DataError.at(texts[0], None, found="no lines", expected="sentences, one a line")
    return vocabulary.words, np.frombuffer(tokens, dtype=np.intc)


def count(
    token: np.ndarray, words: int, order: int, log: Callable[[str], None], progress: Progress
) -> list[NgramCounts]:
    """Count the n-grams of length 1 .. ``order`` in the sentences ``token`` (Heafield et al. 2013, section 3.1).

    An n-gram is coded as one integer, from its first word and the number of its suffix; sorting these integers gives
    suffix order. The 1-gram ``<s>`` has count 0.
    """
    start = np.flatnonzero(token == _START)
    position = np.arange(len(token)) - np.repeat(start, np.diff(start, append=len(token)))
    # The number of the n-gram that ends at each token, for the current n.
    number = token.astype(np.int64)
    occurrences, empty = np.bincount(token, minlength=words), np.zeros(words, dtype=np.int64)
    occurrences[_START] = 0
    levels = [NgramCounts(np.arange(words), empty, empty, occurrences)]
    progress.advance()
    for n in range(2, order + 1):
        end = np.flatnonzero(position >= n - 1)
        key, which = np.unique(number[end] * words + token[end - (n - 1)], return_inverse=True)
        suffix, first = np.divmod(key, words)
        context = np.empty_like(suffix)
        context[which] = number[end - 1]
        number[end] = which
        levels.append(NgramCounts(first, suffix, context, np.bincount(which, minlength=len(key))))
        log(f"{n}-grams: {len(key)}")
        progress.advance()
    return levels


def adjust(levels: Sequence[NgramCounts]) -> list[NgramCounts]:
    """Replace counts by adjusted counts (Heafield et al. 2013, section 3.2).

    a(w1 .. wn) is the number of distinct words, including ``<s>``, that precede w1 .. wn. For the longest n-grams, and
    for those that begin with ``<s>`` and so have no preceding word, it is the number of occurrences.
    """
    adjusted = []
    for ngrams, longer in pairwise(levels):
        before = np.bincount(longer.suffix, minlength=len(ngrams.counts))
        adjusted.append(ngrams._replace(counts=np.where(ngrams.first == _START, ngrams.counts, before)))
    return [*adjusted, levels[-1]]


def discounts(counts_of_counts: Sequence[int]) -> np.ndarray | None:
    """Discounts of adjusted counts 0, 1, 2, and 3 or more for n-grams of one length (float64 [4]).

    ``counts_of_counts[k]``: the number n_k of n-grams with count k, for k = 0 .. 4. Chen and Goodman 1998, equation
    (26): D_k = k - (k + 1) Y n_{k+1} / n_k with Y = n_1 / (n_1 + 2 n_2). None if that is undefined or outside (0, k].
    """
    n = counts_of_counts
    if 0 in n[1:4]:
        return None
    y = n[1] / (n[1] + 2 * n[2])
    discount = np.array([0.0] + [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)])
    return discount if (discount[1:] > 0).all() else None


def smooth(levels: Sequence[NgramCounts], log: Callable[[str], None], progress: Progress) -> list[Level]:
    """Compute probabilities and backoffs from adjusted counts a.

    Heafield et al. 2013, sections 3.3 and 3.4; Chen and Goodman 1998, page 20. With sums over all words x that follow
    the context c = w1 .. wn-1,

        u(wn | c) = (a(c wn) - D(a(c wn))) / sum_x a(c x)
        b(c)      = sum_x D(a(c x)) / sum_x a(c x)
        p(wn | c) = u(wn | c) + b(c) p(wn | w2 .. wn-1)

    down to p(w1) = u(w1) + b(empty) / |vocabulary|. D depends on n. An n-gram that is no context has backoff 1.
    """
    smoothed: list[Level] = []
    prob = np.array([1 / (len(levels[0].counts) - 1)])
    for n, (first, suffix, context, a) in enumerate(levels, start=1):
        discount = _discounts_or_fallback(n, a, log)[np.minimum(a, 3)]
        total = np.bincount(context, weights=a, minlength=len(prob))
        left_over = np.bincount(context, weights=discount, minlength=len(prob))
        backoff = np.divide(left_over, total, out=np.ones(len(prob)), where=total > 0)
        if smoothed:
            smoothed[-1] = smoothed[-1]._replace(backoff=log10s(backoff).astype(np.float32))
        prob = (a - discount) / total[context] + backoff[context] * prob[suffix]
        # Rounding can raise a probability above 1, which readers refuse.
        smoothed.append(Level(first, suffix, log10s(np.minimum(prob, 1)).astype(np.float32), None))
        progress.advance()
    return smoothed


def _discounts_or_fallback(n: int, adjusted: np.ndarray, log: Callable[[str], None]) -> np.ndarray:
    """Return the `discounts` for these adjusted counts, or `FALLBACK_DISCOUNTS` with a warning."""
    counts_of_counts = np.bincount(np.minimum(adjusted, 5), minlength=6)[:5].tolist()
    discount = discounts(counts_of_counts)
    if discount is None:
        discount = np.array([0.0, *FALLBACK_DISCOUNTS])
        found = ", ".join(map(str, counts_of_counts[1:]))
        log(f"warning: numbers of {n}-grams with counts 1, 2, 3, 4: {found}: too few, using fallback discounts")
    log(f"{n}-grams: discounts " + " ".join(f"{value:.4g}" for value in discount[1:]))
    return discount
