"""Estimate n-gram language models with interpolated modified Kneser-Ney smoothing; the models equal those of lmplz.

Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling" (TR-10-98, 1998);
Heafield, Pouzyrevsky, Clark and Koehn, "Scalable Modified Kneser-Ney Language Model Estimation" (ACL 2013).
How n-grams are sorted and counted, in any memory: `mpitune.lm.ngram_runs`.

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

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from mpitune.array_files.atomic import open_atomic
from mpitune.array_files.disk_array import Scratch
from mpitune.corpus.lines import kilobytes, lines
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import split_words
from mpitune.corpus.wording import counted
from mpitune.errors import DataError, UsageError
from mpitune.files import exists, is_file, temporary_place
from mpitune.lm.arpa_writer import ArpaWriter
from mpitune.lm.interpolation import add_up, find_contexts, interpolate
from mpitune.lm.ngram_runs import Ngrams, Runs
from mpitune.lm.numbered_text import MARKERS, MAX_PLACES, NumberedText
from mpitune.lm.table_writer import MOST_NGRAMS, TableWriter

LOG = logging.getLogger(__name__)

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
"""Discounts of lmplz for adjusted counts 1, 2, and 3 or more, used if the text is too small to estimate them."""
MEMORY = 2 << 30
"""Bytes of memory that an estimation takes, about, unless it is told otherwise."""
_BLOCK = 1 << 20
"""N-grams that are smoothed at a time."""


class _Writer(Protocol):
    """Takes a model, length by length: `ArpaWriter` or `TableWriter`."""

    def begin(self, n: int) -> None: ...

    def write(self, places: range, prob: np.ndarray, mass: np.ndarray) -> None: ...


_W = TypeVar("_W", bound=_Writer)


def estimate(
    text: Path,
    order: int,
    output: Path,
    *,
    vocabulary: Path | None = None,
    further_texts: Sequence[Path] = (),
    memory: int = MEMORY,
) -> None:
    """Estimate a model of n-grams up to length ``order`` from ``text`` (tokenised, a sentence a line) into ``output``.

    ``vocabulary``: a file of words, separated by blanks and line ends; other words of the text count as ``<unk>``.
    ``further_texts`` are read after ``text``; all may be gzipped, and ``output`` is gzipped if its name ends in .gz.
    ``memory``: the bytes that are used, about; the model is the same whatever they are. What does not fit is in files
    without a name beside ``output`` meanwhile. Warns if `FALLBACK_DISCOUNTS` are used.

    Raises UsageError for an order below 1; DataError for a text without sentences, for a vocabulary of which the text
    has no word, and for a line that is not UTF-8 or contains a marker or a character that no ARPA file can hold;
    MachineError if the disk has no room for files; OSError if ``output`` cannot be written.
    """
    if order < 1:
        raise UsageError(f"order {order}: must be 1 or more")
    # Opened first, so that an unwritable output fails before the work.
    with open_atomic(output) as file:
        # Beside a pipe or a device there is no place.
        special = exists(output) and not is_file(output)
        scratch = Scratch(temporary_place() if special else output.parent, memory)
        texts, writer = [text, *further_texts], partial(ArpaWriter, file)
        _estimate(texts, order, scratch, memory, MAX_PLACES, writer, vocabulary).end()


def estimate_arrays(texts: Sequence[Path], order: int, folder: Path) -> dict[str, np.ndarray]:
    """Estimate a model as `estimate` does, into the arrays that `arpa.read_arpa` reads from its text.

    ``order``: 1 or more; ``folder``: of files without a name, for what does not fit into `MEMORY`. Raises as `estimate`
    does.
    """
    scratch = Scratch(folder, MEMORY)
    return _estimate(texts, order, scratch, MEMORY, MOST_NGRAMS, TableWriter, None).arrays()


def _estimate(
    texts: Sequence[Path],
    order: int,
    scratch: Scratch,
    memory: int,
    most: int,
    new_writer: Callable[[Sequence[str], Ngrams, Sequence[range]], _W],
    vocabulary: Path | None,
) -> _W:
    """`estimate`; returns the writer, which has got all n-grams. ``most``: the number of n-grams that it can take."""
    LOG.info(f"reading {', '.join(map(str, texts))}")
    allowed = None if vocabulary is None else read_vocabulary(vocabulary)
    numbered, runs = NumberedText(allowed), Runs(order, scratch, memory)
    words = numbered.vocabulary
    with Progress("kB of text read", kilobytes(texts)) as progress:
        for sentences in numbered.read(texts, order - 1, progress):
            runs.add(sentences, len(words))
        runs.finish(len(words))
    distinct = len(words) - len(MARKERS)
    if vocabulary is not None and distinct == 0:
        raise DataError.at(vocabulary, None, found=f"no word of {texts[0]}", expected="words, separated by blanks")
    size = f"{counted(numbered.sentences, 'sentence')}, {counted(numbered.words, 'word')}"
    unknown = "" if allowed is None else f", {numbered.unknown} outside the vocabulary"
    LOG.info(f"{size} ({distinct} distinct{unknown})")
    if runs.most.sum() > most:
        raise DataError.at(texts[0], None, found=f"more than {most} n-grams", expected="a smaller text or order")
    with Progress("distinct n-grams merged", sum(map(len, runs.rows))) as progress:
        ngrams, levels = runs.merged(len(words), progress)
    for n, level in enumerate(levels[2:], start=2):
        LOG.info(f"{n}-grams: {len(level)}")
    discount = [_discounts_or_fallback(n, ngrams, level) for n, level in enumerate(levels[1:], start=1)]
    writer = new_writer(words, ngrams, levels)
    with Progress("n-grams written", sum(map(len, levels[1:]))) as progress:
        _smooth(ngrams, levels, discount, scratch, writer, progress)
    return writer


def read_vocabulary(path: Path) -> frozenset[str]:
    """The words of a file, separated by blanks and line ends."""
    return frozenset(word for _, line in lines(path) for word in split_words(line))


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


def _discounts_or_fallback(n: int, ngrams: Ngrams, level: range) -> np.ndarray:
    """The `discounts` of the ``n``-grams, which are at the places ``level``; `FALLBACK_DISCOUNTS` with a warning."""
    classes = np.zeros(6, dtype=np.int64)
    for part in _parts(level):
        classes += np.bincount(np.minimum(ngrams.counts[part.start : part.stop], 5), minlength=6)
    counts_of_counts = classes[:5].tolist()
    discount = discounts(counts_of_counts)
    if discount is None:
        discount = np.array([0.0, *FALLBACK_DISCOUNTS])
        found = ", ".join(map(str, counts_of_counts[1:]))
        LOG.warning(f"numbers of {n}-grams with counts 1, 2, 3, 4: {found}: too few, using fallback discounts")
    LOG.info(f"{n}-grams: discounts " + " ".join(f"{value:.4g}" for value in discount[1:]))
    return discount


def _smooth(
    ngrams: Ngrams,
    levels: Sequence[range],
    discount: Sequence[np.ndarray],
    scratch: Scratch,
    writer: _Writer,
    progress: Progress,
) -> None:
    """Compute probabilities and backoffs from adjusted counts a, and write them.

    Heafield et al. 2013, sections 3.3 and 3.4; Chen and Goodman 1998, page 20. With sums over all words x that follow
    the context c = w1 .. wn-1,

        u(wn | c) = (a(c wn) - D(a(c wn))) / sum_x a(c x)
        b(c)      = sum_x D(a(c x)) / sum_x a(c x)
        p(wn | c) = u(wn | c) + b(c) p(wn | w2 .. wn-1)

    down to p(w1) = u(w1) + b(empty) / |vocabulary|. D depends on n. An n-gram that is no context has backoff 1.
    """
    context = scratch.empty(len(ngrams.first), np.int32)
    context[: levels[1].stop] = 0
    prob = np.array([1 / (len(levels[1]) - 1)])
    for n, (shorter, level) in enumerate(pairwise([*levels, range(0)])):
        mass = scratch.empty(2 * len(shorter) if level else 0, np.float64).reshape(-1, 2)
        mass.fill(0.0)
        for part in _parts(level):
            if n > 0:
                find_contexts(ngrams, part.start, part.stop, context)
            add_up(ngrams, part.start, part.stop, context, shorter.start, discount[n], mass)
            scratch.release()
        if n > 0:
            LOG.info(f"writing {len(shorter)} {n}-grams")
            writer.begin(n)
            for part in _parts(shorter):
                done = slice(part.start - shorter.start, part.stop - shorter.start)
                writer.write(part, prob[done], mass[done])
                progress.advance(len(part))
                scratch.release()
        longer = scratch.empty(len(level), np.float64)
        for part in _parts(level):
            done = slice(part.start - level.start, part.stop - level.start)
            interpolate(ngrams, part.start, part.stop, context, shorter.start, discount[n], mass, prob, longer[done])
            scratch.release()
        prob = longer


def _parts(places: range) -> Iterator[range]:
    """``places``, `_BLOCK` at a time."""
    return (places[begin : begin + _BLOCK] for begin in range(0, len(places), _BLOCK))
