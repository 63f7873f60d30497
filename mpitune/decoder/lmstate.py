"""Language model scores of partial translations, put together bottom-up (Li & Khudanpur 2008; Heafield 2011: KenLM).

A partial translation is scored word by word with as much context as it has. What words to come on either side still
depend on or change is its state: on the left, the n-grams of its first words that some longer n-gram ends with; on the
right, its last words as far as they matter as context. Both are as short as the model allows, so that more hypotheses
recombine.

States are rows of `LmStates`. One is built in place: `reset` (or `begin_sentence`), then `terminal` and `nonterminal`
from left to right, each returning the log10 probability that it adds. However a sentence is bracketed, its increments
add up to its log10 probability, with ``</s>`` as the last terminal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.grammar.lm import EXTENDS_LEFT, EXTENDS_RIGHT, LanguageModel, child
from mpitune.kernel import kernel

LEFT_KEY, RIGHT_KEY, LEFT_LENGTH, RIGHT_LENGTH, LEFT = range(5)
"""Columns of `LmStates.row`."""


class LmStates(NamedTuple):
    """States of C hypotheses under one model.

    All of a state lies side by side, in one cache line up to order 5: the search spends much of its time on it. With W
    the `width` of the model, the columns of a row are

    - `LEFT_KEY`: 1 + the last of the left nodes, 0 if there is none; inverted (``~``) if the state is full: no word
      appended from now on can be changed by words put before the state. While it is not full, all words of the
      hypothesis are in its left and in its right state;
    - `RIGHT_KEY`: 1 + the node of the n-gram of all context words, 0 if there are none;
    - `LEFT_LENGTH`, `RIGHT_LENGTH`: how many left nodes and how many context words there are;
    - from `LEFT` on, W left nodes: of the n-grams w1, w1 w2, ..., which wait for words before them;
    - W context words, newest first;
    - W backoffs (log10, the bits of a float32): of the newest word, of the newest two, ...; 0 past the last one in use.
    """

    row: np.ndarray
    """int32 [C, 4 + 3 W]"""
    places: tuple[int, ...]
    """W zeros. The length of a tuple is known when kernels are compiled: their loops over W are unrolled."""


def new_states(order: int, capacity: int) -> LmStates:
    """Room for ``capacity`` states of a model of at most that ``order``.

    Each is undefined until `reset`, `begin_sentence` or `copy`.
    """
    # Even, so that there are few to compile for.
    context = max(order, 2) // 2 * 2
    return LmStates(np.empty((capacity, LEFT + 3 * context), dtype=np.int32), (0,) * context)


@kernel
def width(states: LmStates) -> int:
    """W: room for so many context words, order - 1 or one more."""
    return len(states.places)


@kernel
def reset(states: LmStates, i: int) -> None:
    """Make ``i`` the state of no words."""
    for k in range(LEFT + 3 * width(states)):
        states.row[i, k] = 0


@kernel
def begin_sentence(lm: LanguageModel, states: LmStates, i: int) -> None:
    """Make ``i`` the state of ``<s>``, which itself is not scored."""
    reset(states, i)
    row = states.row
    row[i, LEFT_KEY] = ~0
    if lm.node[lm.bos]["key"] & EXTENDS_RIGHT:
        row[i, RIGHT_KEY] = lm.bos + 1
        row[i, RIGHT_LENGTH] = 1
        row[i, LEFT + width(states)] = lm.bos
        row[i, LEFT + 2 * width(states)] = _bits(lm.node[lm.bos]["backoff"])


@kernel
def copy(states: LmStates, i: int, j: int) -> None:
    """Make ``i`` the state that ``j`` is."""
    row = states.row
    to, of = np.uint64(i), np.uint64(j)
    for k in range(LEFT + 3 * width(states)):
        row[to, k] = row[of, k]


@kernel
def key(states: LmStates, i: int) -> int:
    """The state as an int64: two states are the same if and only if their keys are."""
    # A node stands for its n-gram, and so for the lengths and for all that is shorter.
    return int(states.row[i, LEFT_KEY]) << 32 | int(states.row[i, RIGHT_KEY])


@kernel
def terminal(lm: LanguageModel, states: LmStates, i: int, word: int, total: np.float32) -> np.float32:
    """Append ``word`` (a word number of the model) to state ``i``; returns ``total`` + its log10 probability there."""
    node, row = lm.node, states.row
    to = np.uint64(i)
    words = LEFT + width(states)
    backoffs = words + width(states)
    length = int(row[to, RIGHT_LENGTH])
    ngram = word
    flags = node[ngram]["key"]
    backoff = node[ngram]["backoff"]
    # use: how many of the last words, this one included, are context for the next; top: 1 + the node of their n-gram.
    use, top = 0, 0
    if flags & EXTENDS_RIGHT:
        use, top = 1, ngram + 1
    found = 0
    while found < length and flags & EXTENDS_LEFT:
        longer = child(lm, ngram, int(row[to, words + found]))
        if longer < 0:
            break
        # This context's own backoff is not charged, so its place is free.
        row[to, backoffs + found] = _bits(backoff)
        ngram = longer
        flags = node[ngram]["key"]
        backoff = node[ngram]["backoff"]
        found += 1
        if flags & EXTENDS_RIGHT:
            use, top = found + 1, ngram + 1
    score = node[ngram]["prob"]
    for k in range(width(states)):
        score += _backoff(row[to, backoffs + k]) if k >= found else np.float32(0.0)
        row[to, backoffs + k] = row[to, backoffs + k] if k < use else 0
    if found < use:
        row[to, backoffs + found] = _bits(backoff)
    for k in range(width(states) - 1, 0, -1):
        row[to, words + k] = row[to, words + k - 1]
    row[to, words] = word
    row[to, RIGHT_LENGTH] = use
    row[to, RIGHT_KEY] = top
    if row[to, LEFT_KEY] >= 0:
        _extend_left(row, to, ngram, found == length and flags & EXTENDS_LEFT != 0, use > length)
    return np.float32(total + score)


@kernel
def nonterminal(lm: LanguageModel, states: LmStates, i: int, j: int, total: np.float32) -> np.float32:
    """Append the words of state ``j`` to state ``i``; returns ``total`` + what their log10 probability gains there."""
    node, row = lm.node, states.row
    to, of = np.uint64(i), np.uint64(j)
    words = LEFT + width(states)
    backoffs = words + width(states)
    length = int(row[to, RIGHT_LENGTH])
    waiting = int(row[of, LEFT_LENGTH])
    full = row[of, LEFT_KEY] < 0
    if length == 0 and row[to, LEFT_KEY] >= 0:
        copy(states, i, j)
        return total
    if waiting == 0 and not full:
        return total
    top = 0
    m = 0
    while m < waiting and length > 0:
        # Where `terminal` ran out of words, with the n-gram w1 .. wm of j, the words of i lead on.
        start = int(row[of, LEFT + m])
        ngram = start
        flags = EXTENDS_LEFT
        use, found = 0, 0
        while found < length and flags & EXTENDS_LEFT:
            longer = child(lm, ngram, int(row[to, words + found]))
            if longer < 0:
                break
            ngram = longer
            flags = node[ngram]["key"]
            row[to, backoffs + found] = _bits(node[ngram]["backoff"])
            found += 1
            if flags & EXTENDS_RIGHT:
                use, top = found, ngram + 1
        score = node[ngram]["prob"]
        for k in range(width(states)):
            score += _backoff(row[to, backoffs + k]) if k >= found else np.float32(0.0)
            row[to, backoffs + k] = row[to, backoffs + k] if k < use else 0
        total = np.float32(total + (score - node[start]["prob"]))
        if row[to, LEFT_KEY] >= 0:
            _extend_left(row, to, ngram, found == length and flags & EXTENDS_LEFT != 0, use == length)
        length = use
        m += 1
    if length == 0 or full:
        # The next word of j has found its n-gram already, and backs off from all that i could have added to it.
        for k in range(width(states)):
            total = np.float32(total + _backoff(row[to, backoffs + k]))
        row[to, LEFT_KEY] = min(row[to, LEFT_KEY], ~row[to, LEFT_KEY])
        row[to, RIGHT_KEY] = row[of, RIGHT_KEY]
        row[to, RIGHT_LENGTH] = row[of, RIGHT_LENGTH]
        for k in range(words, words + 2 * width(states)):
            row[to, k] = row[of, k]
        return total
    # All words of j are context, and before them as many of i as are in use.
    inner = int(row[of, RIGHT_LENGTH])
    for k in range(length - 1, -1, -1):
        row[to, words + inner + k] = row[to, words + k]
        row[to, backoffs + inner + k] = row[to, backoffs + k]
    for k in range(inner):
        row[to, words + k] = row[of, words + k]
        row[to, backoffs + k] = row[of, backoffs + k]
    row[to, RIGHT_LENGTH] = length + inner
    row[to, RIGHT_KEY] = top
    return total


@kernel
def _extend_left(row: np.ndarray, i: np.uint64, ngram: int, waits: bool, still_open: bool) -> None:
    """Note in state ``i``, not full so far, the n-gram of all its words if that waits for words to its left."""
    left_key = int(row[i, LEFT_KEY])
    if waits:
        row[i, LEFT + row[i, LEFT_LENGTH]] = ngram
        row[i, LEFT_LENGTH] += 1
        left_key = ngram + 1
    row[i, LEFT_KEY] = left_key if waits and still_open else ~left_key


@kernel
def _backoff(bits: int) -> np.float32:
    return np.int32(bits).view(np.float32)


@kernel
def _bits(backoff: float) -> np.int32:
    return np.float32(backoff).view(np.int32)
