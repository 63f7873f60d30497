"""Language model scores of partial translations, computed bottom-up.

Li and Khudanpur (SSST 2008); Heafield (WMT 2011): KenLM. A partial translation is scored word by word with the context
that it contains. Its state is all that words added on either side depend on or rescore: on the left, the n-grams of its
first words that some longer n-gram ends with; on the right, its last words as far as they matter as context. Both are
as short as the model allows, so that more hypotheses recombine.

States are rows of `LmStates`. A state is built in place: `reset` (or `begin_sentence`), then `terminal` and
`nonterminal` from left to right; each returns its increment of the log10 probability. For every bracketing of a
sentence, the increments add up to its log10 probability, with ``</s>`` as the last terminal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.embedded.arena import aligned_empty
from mpitune.jit import int64, kernel
from mpitune.lm.ngram_table import LanguageModel, child, entry, prefetch_longer

LEFT_KEY, RIGHT_KEY, LEFT_LENGTH, RIGHT_LENGTH, LEFT = range(5)
"""Columns of `LmStates.row`."""


class LmStates(NamedTuple):
    """States of C partial translations under one model.

    With W the `width` of the model, the columns of a row are

    - `LEFT_KEY`: 1 + the last of the left nodes, 0 if there is none; inverted (``~``) if the state is full: words put
      before it cannot change the scores of words appended from now on. While it is not full, both its left nodes and
      its context words comprise all its words;
    - `RIGHT_KEY`: 1 + the node of the n-gram of all context words, 0 if there are none;
    - `LEFT_LENGTH`, `RIGHT_LENGTH`: number of left nodes, number of context words;
    - from `LEFT` on, W left nodes: of the n-grams w1, w1 w2, ..., whose last words are rescored when words are put
      before the state;
    - W context words, newest first;
    - W backoffs (log10, the bits of a float32): of the newest word, of the newest two, ...; 0 past the last one in use.

    Two states with equal keys are equal: a node determines its n-gram, and so all shorter ones in it.
    """

    row: np.ndarray
    """int32 [C, 4 + 3 W]"""


def new_states(order: int, capacity: int) -> LmStates:
    """Space for ``capacity`` states of a model of that ``order``; undefined until `reset` or `copy`."""
    return LmStates(aligned_empty((capacity, LEFT + 3 * max(order - 1, 1)), np.int32))


@kernel
def width(states: LmStates) -> int:
    """W, the most words of context: one less than the order of the model, at least 1."""
    return int64((states.row.shape[1] - LEFT) // 3)


@kernel
def reset(states: LmStates, i: int) -> None:
    """Make ``i`` the state of no words."""
    states.row[i] = 0


@kernel
def begin_sentence(lm: LanguageModel, states: LmStates, i: int) -> None:
    """Make ``i`` the state of ``<s>``, which is not scored."""
    reset(states, i)
    row = states.row[i]
    row[LEFT_KEY] = ~0
    _, backoff, _, extends_right = entry(lm, lm.bos)
    if extends_right:
        row[RIGHT_KEY] = lm.bos + 1
        row[RIGHT_LENGTH] = 1
        row[LEFT + width(states)] = lm.bos
        row[LEFT + 2 * width(states)] = _bits(backoff)


@kernel
def copy(states: LmStates, i: int, other: LmStates, j: int) -> None:
    """Copy state ``j`` of ``other`` to ``i``."""
    _copy(states.row[i], other.row[j])


@kernel
def terminal(lm: LanguageModel, states: LmStates, i: int, word: int) -> np.float32:
    """Append ``word`` (a word number of the model) to state ``i``; returns its log10 probability there."""
    row = states.row[i]
    words = LEFT + width(states)
    backoffs = words + width(states)
    length = int64(row[RIGHT_LENGTH])
    ngram = int64(word)
    prefetch_longer(lm, ngram, row, words, length)
    prob, backoff, extends_left, extends_right = entry(lm, ngram)
    # use: number of last words, including this one, that are context for the next; top: 1 + the node of their n-gram.
    use, top = int64(0), int64(0)
    if extends_right:
        use, top = int64(1), ngram + 1
    found = int64(0)
    while found < length and extends_left:
        longer = child(lm, ngram, int64(row[words + found]))
        if longer < 0:
            break
        # The backoff of this context is not charged, so its column is free.
        row[backoffs + found] = _bits(backoff)
        ngram = longer
        prob, backoff, extends_left, extends_right = entry(lm, ngram)
        found += 1
        if extends_right:
            use, top = found + 1, ngram + 1
    score = prob
    for k in range(found, length):
        score = np.float32(score + _backoff(row[backoffs + k]))
    if found < use:
        row[backoffs + found] = _bits(backoff)
    row[backoffs + use :] = 0
    for k in range(use - 1, 0, -1):
        row[words + k] = row[words + k - 1]
    row[words] = word
    row[RIGHT_LENGTH] = use
    row[RIGHT_KEY] = top
    if row[LEFT_KEY] >= 0:
        _extend_left(row, ngram, found == length and extends_left, use > length)
    return score


@kernel
def nonterminal(lm: LanguageModel, states: LmStates, i: int, j: int, gain: np.ndarray) -> int:
    """Append the words of state ``j`` to state ``i``; returns how many numbers were written to ``gain``.

    ``gain``: float32 [2 W or more]. The sum of these numbers is the change of the log10 probability of the words of
    ``j`` when those of ``i`` precede them.

    Example: a trigram model (W = 2) with the bigrams "we see", "see the", "the red", "red car" and the trigrams "we see
    the", "the red car".

    - ``i`` = "we see" has scored p(we) p(see | we). No longer n-gram ends with "we": it has no left nodes and is full.
      Its context words are "see", "we", with the backoffs b(see), b(we see).
    - ``j`` = "the red car" has scored p(the) p(red | the) p(car | the red). "see the" ends with "the", but no trigram
      ends with "the red": its only left node is "the", and it is full. Its context words are "car", "red".

    "the" is rescored with the words of ``i`` as context: gain[0] = log p(the | we see) - log p(the). Of these words,
    only "see" is context for the next word. "red" keeps its bigram, and is charged the backoff of "see the":
    gain[1] = log b(see the). "car" has its longest n-gram already. The result is 2, and ``i`` becomes the state of "we
    see the red car": no left nodes, full, context words "car", "red".
    """
    row, after = states.row[i], states.row[j]
    words = LEFT + width(states)
    backoffs = words + width(states)
    length = int64(row[RIGHT_LENGTH])
    waiting = int64(after[LEFT_LENGTH])
    full = after[LEFT_KEY] < 0
    if length == 0 and row[LEFT_KEY] >= 0:
        _copy(row, after)
        return int64(0)
    if waiting == 0 and not full:
        return int64(0)
    for m in range(waiting):
        # Nearly always, the context gets shorter with each word.
        prefetch_longer(lm, int64(after[LEFT + m]), row, words, length - m)
    top = int64(0)
    m = int64(0)
    while m < waiting and length > 0:
        # `terminal` stopped at the n-gram w1 .. wm of j for lack of words; the words of i extend it.
        ngram = int64(after[LEFT + m])
        before, _, extends_left, _ = entry(lm, ngram)
        score = before
        use, found = int64(0), int64(0)
        while found < length and extends_left:
            longer = child(lm, ngram, int64(row[words + found]))
            if longer < 0:
                break
            ngram = longer
            score, backoff, extends_left, extends_right = entry(lm, ngram)
            row[backoffs + found] = _bits(backoff)
            found += 1
            if extends_right:
                use, top = found, ngram + 1
        for k in range(found, length):
            score = np.float32(score + _backoff(row[backoffs + k]))
        gain[m] = score - before
        row[backoffs + use : backoffs + width(states)] = 0
        if row[LEFT_KEY] >= 0:
            _extend_left(row, ngram, found == length and extends_left, use == length)
        length = use
        m += 1
    if length == 0 or full:
        # The n-gram of the next word of j is complete: it backs off from the remaining context words of i.
        for k in range(length):
            gain[m + k] = _backoff(row[backoffs + k])
        row[LEFT_KEY] = min(row[LEFT_KEY], ~row[LEFT_KEY])
        row[RIGHT_KEY] = after[RIGHT_KEY]
        row[RIGHT_LENGTH] = after[RIGHT_LENGTH]
        _copy(row[words:], after[words:])
        return m + length
    # The context words are all words of j, and before them those of i that are still in use.
    inner = int64(after[RIGHT_LENGTH])
    for k in range(length - 1, -1, -1):
        row[words + inner + k] = row[words + k]
        row[backoffs + inner + k] = row[backoffs + k]
    _copy(row[words : words + inner], after[words : words + inner])
    _copy(row[backoffs : backoffs + inner], after[backoffs : backoffs + inner])
    row[RIGHT_LENGTH] = length + inner
    row[RIGHT_KEY] = top
    return m


@kernel
def _copy(to: np.ndarray, of: np.ndarray) -> None:
    # Assigning one array to another allocates, in case they overlap.
    for k in range(to.shape[0]):
        to[k] = of[k]


@kernel
def _extend_left(row: np.ndarray, ngram: int, waits: bool, still_open: bool) -> None:
    """Update the left side of a state that was not full: append ``ngram``, the n-gram of all its words, if ``waits``.

    ``waits``: some longer n-gram ends with it; ``still_open``: the state stays not full then.
    """
    left_key = int64(row[LEFT_KEY])
    if waits:
        row[LEFT + row[LEFT_LENGTH]] = ngram
        row[LEFT_LENGTH] += 1
        left_key = ngram + 1
    row[LEFT_KEY] = left_key if waits and still_open else ~left_key


@kernel
def _backoff(bits: int) -> np.float32:
    return np.int32(bits).view(np.float32)


@kernel
def _bits(backoff: np.float32) -> np.int32:
    return np.float32(backoff).view(np.int32)
