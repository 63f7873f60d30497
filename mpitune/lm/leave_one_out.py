"""Leave-one-out language models: a sentence is learned from with models as if their texts were without it.

A model that was estimated from the references that are tuned on knows each of them by heart. The best translations are
then those that the model likes best, and every learner trusts it more than it deserves on other text. So a reference is
left out of its model as its pair is left out of its grammar:

- n-grams that occur nowhere else in the model's text are not found, and words that do not are unknown to the model;
- others are less probable. Of p(w | h) = u(w | h) + b(h) p(w | h'), the interpolation of Kneser-Ney models, the
  backoff b stays, and u is in proportion to the discounted adjusted count of h w over the count of h
  (`mpitune.lm.kneser_ney`): both are those of the text without the sentence. p(w) is in proportion to the count of w.

What stays as it is in this approximation *(ours)*: backoffs, discounts, and n-grams that the sentence does not have,
which would be a little more probable. N-grams that a pruned model lacks count as different ones.
"""

from __future__ import annotations

import mmap
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.arrays import release_changes
from mpitune.array_files.csr import row_ends
from mpitune.corpus.lines import kilobytes, lines
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import split_words
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.jit import int64, kernel
from mpitune.lm.kneser_ney import FALLBACK_DISCOUNTS, discounts
from mpitune.lm.log_scale import log_scale
from mpitune.lm.ngram_table import UNKNOWN, LanguageModel, LmVocabulary, child, end_of_nodes, entry, find
from mpitune.lm.probing import key_place, prob_place, with_sign
from mpitune.portable_math import exp10s, log10s

COVERED = 0.99
"""Least share of a model's n-grams that a text must have for the model to have been estimated from it alone."""
_AT_ONCE = 10_000
"""Sentences whose n-grams are counted at a time."""
_NODES_AT_ONCE = 1 << 20
_LENGTH, _NODE, _SUFFIX, _CONTEXT, _ADJUSTED = range(5)
"""Columns of the n-grams of a sentence."""
_CLASSES = 5
"""Adjusted counts that discounts are estimated from: 1 to 4; larger ones are in class 5."""
_HIDDEN = 0xFFFFFFFF
"""Both halves of a hidden n-gram's key: neither an empty slot nor the key of any n-gram."""


class LeftOut(NamedTuple):
    """Changes of a language model without one sentence of its text."""

    node: np.ndarray
    """int32, each once: nodes of the model; those of single words are the words' numbers."""
    prob: np.ndarray
    """float32: their scores without the sentence, in the model's unit; -inf: the n-gram is not found, the word is
    unknown."""


NOTHING = LeftOut(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))


class _Counts(NamedTuple):
    """Counts of a text by the nodes of a model."""

    occurrences: np.ndarray
    """int32 [nodes]"""
    adjusted: np.ndarray
    """int32 [nodes]: the number of different n-grams that are a word longer on the left; the occurrences of n-grams of
    the model's order or with ``<s>``."""
    of_counts: np.ndarray
    """int64 [order + 1, `_CLASSES` + 1]: by length, the number of n-grams with each adjusted count."""


class OwnNgrams(NamedTuple):
    """Changes of a language model without each of the sentences that are tuned on."""

    ptr: np.ndarray
    """int64 [sentences + 1]: the n-grams of sentence i are ``node[ptr[i]:ptr[i + 1]]``."""
    node: np.ndarray
    prob: np.ndarray
    """See `LeftOut`."""
    references: np.ndarray
    """int64 [2]: how many references the model's text has, and how many there are."""
    covered: np.ndarray
    """float64 [1]: the share of the model's n-grams that its text has; 0 if it has none of the references."""

    def of(self, i: int) -> LeftOut:
        """The changes for sentence ``i``."""
        part = slice(*self.ptr[i : i + 2].tolist())
        return LeftOut(self.node[part], self.prob[part])


def own_ngrams(
    lm: LanguageModel,
    vocabulary: LmVocabulary,
    references: Sequence[Sequence[np.ndarray]],
    texts: Sequence[Path],
    *,
    certain: bool,
) -> OwnNgrams:
    """The n-grams of ``lm`` that a sentence's references have in common with its ``texts``, without one copy of each.

    ``references``: those of each sentence, int [words] each, the model's numbers; those that are no line of ``texts``
    have none; words that the model does not know are equal. If the texts are not ``certain`` to be the model's, all
    have none unless the texts have `COVERED` of its n-grams. Raises DataError for a text that cannot be read.
    """
    marked = [[np.array([lm.bos, *words, lm.eos], dtype=np.int32) for words in each] for each in references]
    wanted = {text.tobytes() for each in marked for text in each}
    with Progress("kB of the language model's text read", kilobytes(texts)) as progress:
        ptr, text = _read(vocabulary, texts, progress)
    limits = zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)
    copies = Counter(line for a, b in limits if (line := text[a:b].tobytes()) in wanted)
    # Counting takes long for large texts, and is for nothing where no reference is found.
    counts = _counts(lm, ptr if copies else ptr[:1], text)
    discount, scale = _discounts(counts), log_scale(lm)
    covered = _covered(lm, counts) if copies else 0.0
    if not certain and covered < COVERED:
        copies.clear()
    own = []
    with Progress("sentences left out", len(marked)) as progress:
        for each in marked:
            own.append(_left_out(lm, _copies(each, copies), counts, discount, scale))
            progress.advance()
    node, prob = map(np.concatenate, zip(NOTHING, *own, strict=True))
    found = [sum(text.tobytes() in copies for each in marked for text in each), sum(map(len, marked))]
    return OwnNgrams(row_ends([len(left.node) for left in own]), node, prob, np.array(found), np.array([covered]))


def _copies(references: Sequence[np.ndarray], copies: Mapping[bytes, int]) -> list[np.ndarray]:
    """The ``references`` of a sentence that the text has, each no more often than its ``copies`` there."""
    texts = {text.tobytes(): text for text in references}
    given = Counter(text.tobytes() for text in references)
    return [texts[key] for key, count in given.items() for _ in range(min(count, copies.get(key, 0)))]


@contextmanager
def without(lm: LanguageModel, left: LeftOut) -> Iterator[None]:
    """Within the block, the model is as ``left`` says, but that no word is unknown: who looks words up must see to it.

    The model's arrays must be writable; where they are mapped, pages that are written to are private within the block.
    """
    is_gone = np.isneginf(left.prob)
    memory, keys = _keys(lm, left.node[is_gone & (left.node >= lm.words)])
    probs, bits = _probs(lm, left.node[~is_gone], left.prob[~is_gone])
    places = np.concatenate([keys.ravel(), probs])
    before = memory[places]
    memory[places] = np.concatenate([np.full(keys.size, _HIDDEN, dtype=np.uint32), bits])
    try:
        yield
    finally:
        memory[places] = before
        if len(lm.node) == 0:
            # `open_kenlm` may have written to the page of the unknown word.
            unknown = prob_place(lm.probing, lm.words, lm.order, np.array([UNKNOWN]))
            places = places[places > unknown + mmap.PAGESIZE // memory.itemsize]
        release_changes(memory, places)


def _read(vocabulary: LmVocabulary, texts: Sequence[Path], progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """Rows (int64) and words (int32, the model's numbers) of the sentences in ``texts``, with their ends."""
    words = Vocabulary(["<s>", "</s>"])
    tokens, ends = array("i"), array("q", [0])
    for text in texts:
        for _, line in lines(text, progress):
            tokens.append(0)
            tokens.extend(words.numbers(split_words(line)))
            tokens.append(1)
            ends.append(len(tokens))
    numbers = vocabulary.numbers(words.words)
    return np.frombuffer(ends, dtype=np.int64), numbers[np.frombuffer(tokens, dtype=np.intc)]


def _counts(lm: LanguageModel, ptr: np.ndarray, text: np.ndarray) -> _Counts:
    """The counts of n-grams in the sentences ``text[ptr[s]:ptr[s + 1]]``."""
    occurrences, adjusted = np.zeros((2, end_of_nodes(lm)), dtype=np.int32)
    counts = _Counts(occurrences, adjusted, np.zeros((lm.order + 1, _CLASSES + 1), dtype=np.int64))
    with Progress("sentences of the language model's text counted", len(ptr) - 1) as progress:
        for first in range(0, len(ptr) - 1, _AT_ONCE):
            part = ptr[first : first + _AT_ONCE + 1]
            _count(lm, part, text, counts)
            progress.advance(len(part) - 1)
    return counts


def _discounts(counts: _Counts) -> np.ndarray:
    """float64 [order + 1, 4]: discounts of n-grams of each length with adjusted counts 0, 1, 2, and 3 or more."""
    found = [discounts(of_counts[:_CLASSES]) for of_counts in counts.of_counts.tolist()]
    return np.array([[0.0, *FALLBACK_DISCOUNTS] if each is None else each for each in found])


def _discounted(length: np.ndarray, adjusted: np.ndarray, discount: np.ndarray) -> np.ndarray:
    """float64: the counts ``adjusted`` of n-grams of this ``length``, less the `_discounts`."""
    less: np.ndarray = adjusted - discount[length, np.minimum(adjusted, 3)]
    return less


def _left_out(
    lm: LanguageModel, texts: Sequence[np.ndarray], counts: _Counts, discount: np.ndarray, scale: float
) -> LeftOut:
    """The changes if one copy of each of ``texts`` (int32 each, with ends) is left out.

    ``counts``, ``discount``: of the whole text; ``scale``: that of the model (`log_scale`).
    """
    ngrams = np.empty((sum(map(len, texts)) * lm.order, 5), dtype=np.int64)
    used = 0
    for text in texts:
        used += _list_ngrams(lm, text.astype(np.int64), ngrams[used:])
    if used == 0:
        return NOTHING
    node, first, number = np.unique(ngrams[:used, _NODE], return_index=True, return_inverse=True)
    # A word alone has neither; a context that the model lacks is in no list.
    suffix, context = (np.searchsorted(node, ngrams[first, column]) for column in (_SUFFIX, _CONTEXT))
    has_context = node[np.minimum(context, len(node) - 1)] == ngrams[first, _CONTEXT]
    length, count, adjusted = ngrams[first, _LENGTH], counts.occurrences[node], counts.adjusted[node]
    rest = count - np.bincount(number)
    share = rest / count
    # An n-gram also loses the longer ones that nothing but the sentence has.
    less = np.bincount(number, ngrams[:used, _ADJUSTED]).astype(np.int64)
    np.add.at(less, suffix[(rest == 0) & (length > 1)], 1)
    discounted = _discounted(length, np.maximum(adjusted - less, 1), discount)
    before = _discounted(length, adjusted, discount)
    discounted_share = np.divide(discounted, before, out=np.zeros(len(node)), where=before > 0)
    log_prob, log_backoff = np.empty((2, len(node)), dtype=np.float32)
    _entries(lm, node, log_prob, log_backoff)
    old, backoff = exp10s(scale * log_prob.astype(np.float64)), exp10s(scale * log_backoff.astype(np.float64))
    new = np.where(length == 1, old * share, old)
    for n in range(2, lm.order + 1):
        here = np.flatnonzero((length == n) & (rest > 0) & has_context)
        low, high = suffix[here], context[here]
        by_backoff = backoff[high] * old[low]
        by_count = (old[here] - by_backoff) * discounted_share[here] / share[high]
        by_backoff = backoff[high] * new[low]
        # A model that is not interpolated may have less than what backing off gives.
        new[here] = np.where(by_count > 0, by_backoff + by_count, np.minimum(by_backoff, old[here]))
    wanted = ~np.isin(node, (UNKNOWN, lm.bos))
    prob = np.where(rest > 0, log10s(np.minimum(new, 1.0)) / scale, -np.inf).astype(np.float32)
    return LeftOut(node[wanted].astype(np.int32), prob[wanted])


@kernel
def _count(lm: LanguageModel, ptr: np.ndarray, text: np.ndarray, counts: _Counts) -> None:
    """Add the n-grams in the sentences ``text[ptr[s]:ptr[s + 1]]`` to ``counts``."""
    for s in range(len(ptr) - 1):
        for end in range(ptr[s], ptr[s + 1]):
            node, begin, length = int64(text[end]), end, 1
            counts.occurrences[node] += 1
            while begin > ptr[s] and length < lm.order:
                begin -= 1
                longer = child(lm, node, int64(text[begin]))
                if longer < 0 or counts.occurrences[longer] == 0:
                    _add_one(counts, node, length)
                if longer < 0:
                    # What a pruned model lacks is taken for n-grams that occur once.
                    for lacking in range(length + 1, min(lm.order, end - ptr[s] + 1) + 1):
                        counts.of_counts[lacking, 1] += 1
                    break
                counts.occurrences[longer] += 1
                node, length = longer, length + 1
            else:
                _add_one(counts, node, length)


@kernel
def _add_one(counts: _Counts, node: int, length: int) -> None:
    """Add 1 to the adjusted count of ``node``, an n-gram of this ``length``."""
    adjusted = counts.adjusted[node]
    counts.adjusted[node] = adjusted + 1
    counts.of_counts[length, min(adjusted, _CLASSES)] -= 1
    counts.of_counts[length, min(adjusted + 1, _CLASSES)] += 1


@kernel
def _list_ngrams(lm: LanguageModel, text: np.ndarray, ngrams: np.ndarray) -> int:
    """Write the n-grams in the sentence ``text`` (int64, with its ends) to ``ngrams``; returns their number.

    ``ngrams``: int64 [space for all, 5]: length; nodes of the n-gram, of its suffix and of its context (n > 1); 1 if
    this occurrence adds 1 to the adjusted count, 0 if only a longer n-gram of the model may do so.
    """
    used = 0
    for end in range(len(text)):
        node = text[end]
        begin = end
        while True:
            ngrams[used, _LENGTH] = end - begin + 1
            ngrams[used, _NODE] = node
            ngrams[used, _ADJUSTED] = 1
            if begin < end:
                ngrams[used, _CONTEXT] = find(lm, text, begin, end)
            used += 1
            begin -= 1
            if begin < 0 or begin <= end - lm.order:
                break
            longer = child(lm, node, text[begin])
            if longer < 0:
                break
            ngrams[used - 1, _ADJUSTED] = 0
            ngrams[used, _SUFFIX] = node
            node = longer
    return used


@kernel
def _entries(lm: LanguageModel, node: np.ndarray, prob: np.ndarray, backoff: np.ndarray) -> None:
    """Fill ``prob`` and ``backoff`` (float32 [nodes]) with the model's scores of ``node`` (int64)."""
    for i in range(len(node)):
        prob[i], backoff[i], _, _ = entry(lm, node[i])


def _covered(lm: LanguageModel, counts: _Counts) -> float:
    """The share of the n-grams of two words or more that the text has; of words if the model has nothing else."""
    # The first word is `UNKNOWN`.
    first, size = (lm.words, _ngrams(lm)) if lm.order > 1 else (1, lm.words - 1)
    return float(np.count_nonzero(counts.occurrences[first:]) / max(size, 1))


def _ngrams(lm: LanguageModel) -> int:
    """The number of n-grams of two words or more."""
    total = 0
    for first in range(lm.words, end_of_nodes(lm), _NODES_AT_ONCE):
        memory, places = _keys(lm, np.arange(first, min(first + _NODES_AT_ONCE, end_of_nodes(lm))))
        total += int(np.count_nonzero(memory[places].any(axis=1)))
    return total


def _keys(lm: LanguageModel, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The model's memory as uint32, and int64 [nodes, 2]: the places in it of the keys of ``node``."""
    of_node = node.astype(np.int64)
    memory, place = lm.node.view(np.uint32), 4 * of_node
    if len(lm.node) == 0:
        memory, place = lm.probing.data, key_place(lm.probing, lm.order, of_node)
    return memory, place[:, None] + np.arange(2)


def _probs(lm: LanguageModel, node: np.ndarray, prob: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64 [nodes]: the places of the log10 probabilities of ``node``; and uint32: those that make them ``prob``."""
    of_node, bits = node.astype(np.int64), prob.view(np.uint32)
    if len(lm.node):
        return 4 * of_node + 2, bits
    place = prob_place(lm.probing, lm.words, lm.order, of_node)
    return place, with_sign(bits, lm.probing.data[place])
