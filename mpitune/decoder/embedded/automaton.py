"""A language model as an automaton: a cache of the increments of words and partial translations after each context.

Cube pruning needs the same few thousand transitions again and again, within a sentence and in the next ones. Therefore
the two halves of each LM state (`lm_state`) are numbered in order of appearance, and a transition (from the right half
of a state, by a word or by the left half of another state) is looked up in a table. The model itself is needed only for
transitions that are not in the table, a few per cent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.embedded.arena import aligned_empty
from mpitune.decoder.embedded.lm_state import (
    LEFT_KEY,
    LEFT_LENGTH,
    RIGHT_KEY,
    LmStates,
    begin_sentence,
    copy,
    new_states,
    nonterminal,
    reset,
    terminal,
    width,
)
from mpitune.jit import at, inlined, int64, kernel
from mpitune.lm.ngram_table import LanguageModel

EMPTY = 0
"""The number of both halves of the state of no words."""
BEGIN = 1
"""The number of both halves of the state of ``<s>``."""

TRANSITION = np.dtype(
    [
        ("right", "<i4"),
        ("symbol", "<i4"),
        ("next_left", "<i4"),
        ("next_right", "<i4"),
        ("gains", "<i4"),
        ("gain_0", "<f4"),
        ("gain_1", "<f4"),
        ("gain_2", "<f4"),
    ]
)
"""From the right half ``right``, by ``symbol``: a word, or ~ the number of a left half. Empty: ``right`` is -1.

``next_left``, ``next_right``: the halves of the state that it leads to; -1 if the left half stays the same, or the
right half is that of the partial translation appended. ``gains``: the number of addends of the change of the log10
probability: ``gain_0`` to ``gain_2``, and all of them in `Automaton.gain` if there are more. A record lies in one cache
line, and so does a row of states of 5-grams: the speed of this module is that of the memory."""

HALF = np.dtype([("key", "<u4"), ("number", "<i4")])
"""A slot of the hash table of halves: the key that identifies a half, and its number; -1 in an empty slot. Keys of left
halves are 32 bits wide with their sign, those of right halves without one: 32 bits tell them apart."""

_COUNT, _FAILED = 0, 1


class Halves(NamedTuple):
    """Left or right halves of states by number, with a hash table over their keys."""

    states: LmStates
    """For each number, one of the states with this half."""
    slot: np.ndarray
    """HALF [power of two]: open-addressing hash table."""
    size: np.ndarray
    """int64 [2]: number of halves; 1 if there was no space for another one, else 0."""


class Automaton(NamedTuple):
    """A model with the states and transitions computed so far."""

    lm: LanguageModel
    left: Halves
    """Keys are `LEFT_KEY`. Only the left half of a state matters here; if it is not full, the whole state."""
    right: Halves
    """Keys are `RIGHT_KEY`, doubled, plus 1 if the left half is not full. Only then the whole state matters: all its
    words are in both halves."""
    transition: np.ndarray
    """TRANSITION [power of two]: a direct-mapped cache, the last one used of those with the same hash."""
    gain: np.ndarray
    """float32 [transitions + 1, 2 W]: addends of the transitions that have more than three. The last row is working
    space."""
    work: LmStates
    """Working space: two states."""


def new_automaton(lm: LanguageModel, capacity: int, transitions: int) -> Automaton:
    """An automaton of ``lm`` without transitions.

    ``capacity``: the most left halves and the most right halves; ``transitions``: size of the cache. Powers of two.
    """
    free = aligned_empty(transitions, TRANSITION)
    free["right"] = -1
    work = new_states(lm.order, 2)
    automaton = Automaton(
        lm=lm,
        left=_new_halves(lm.order, capacity),
        right=_new_halves(lm.order, capacity),
        transition=free,
        gain=aligned_empty((transitions + 1, 2 * int(width(work))), np.float32),
        work=work,
    )
    _start(automaton)
    return automaton


def _new_halves(order: int, capacity: int) -> Halves:
    slot = aligned_empty(2 * capacity, HALF)
    slot["number"] = -1
    return Halves(new_states(order, capacity), slot, np.zeros(2, dtype=np.int64))


def failed(automaton: Automaton) -> bool:
    """True if there was no space for some half: all numbers returned since then are invalid."""
    return bool(automaton.left.size[_FAILED] or automaton.right.size[_FAILED])


def is_half_full(automaton: Automaton) -> bool:
    """True if half the space for left halves or for right halves is used."""
    return any(bool(2 * halves.size[_COUNT] > len(halves.states.row)) for halves in (automaton.left, automaton.right))


@kernel
def _start(automaton: Automaton) -> None:
    """Number the states `EMPTY` and `BEGIN`."""
    reset(automaton.work, int64(0))
    _number_left(automaton)
    _number_right(automaton)
    begin_sentence(automaton.lm, automaton.work, int64(0))
    _number_left(automaton)
    _number_right(automaton)


@inlined
def advance(
    automaton: Automaton, left: int, right: int, symbol: int, after: int, total: np.float32
) -> tuple[int, int, np.float32]:
    """Append a word or another state to the state with the halves ``left`` and ``right``.

    ``symbol`` (int64): the model's number of the word; or ~ the left half of the other state, whose right half is
    ``after``. Returns both halves of the result, and ``total`` plus the increment of the log10 probability.
    """
    place = at((right * 1640531527 + symbol * 1540483477) >> 13 & (automaton.transition.shape[0] - 1))
    transition = automaton.transition[place]
    if transition["right"] != right or transition["symbol"] != symbol:
        _add_transition(automaton, place, right, symbol)
    # Added one by one in the order of KenLM, so that rounding gives the same bits.
    total = np.float32(total + transition["gain_0"])
    if transition["gains"] > 1:
        total = np.float32(total + transition["gain_1"])
        if transition["gains"] > 2:
            total = np.float32(total + transition["gain_2"])
            for k in range(3, transition["gains"]):
                total = np.float32(total + automaton.gain[place, k])
    next_left, next_right = int64(transition["next_left"]), int64(transition["next_right"])
    return next_left if next_left >= 0 else left, next_right if next_right >= 0 else after, total


@kernel
def _add_transition(automaton: Automaton, place: int, right: int, symbol: int) -> None:
    """Compute a transition with the model and store it at index ``place``."""
    lm, work, gain = automaton.lm, automaton.work, automaton.gain[automaton.transition.shape[0]]
    transition = automaton.transition[place]
    state, other = int64(0), int64(1)
    copy(work, state, automaton.right.states, right)
    is_open = work.row[state, LEFT_KEY] >= 0
    if not is_open:
        # That of some other state with this right half.
        work.row[state, LEFT_KEY] = ~0
        work.row[state, LEFT_LENGTH] = 0
    transition["right"], transition["symbol"] = right, symbol
    if symbol >= 0:
        gain[0] = terminal(lm, work, state, symbol)
        gains = int64(1)
        transition["next_right"] = _number_right(automaton)
    else:
        copy(work, other, automaton.left.states, ~symbol)
        gain[0] = 0.0
        gains = nonterminal(lm, work, state, other, gain)
        transition["next_right"] = _number_right(automaton) if work.row[other, LEFT_KEY] >= 0 else -1
    transition["next_left"] = _number_left(automaton) if is_open else -1
    transition["gains"] = gains
    transition["gain_0"] = gain[0]
    if gains > 1:
        transition["gain_1"] = gain[1]
    if gains > 2:
        transition["gain_2"] = gain[2]
    if gains > 3:
        for k in range(3, gains):
            automaton.gain[place, k] = gain[k]


@kernel
def _number_left(automaton: Automaton) -> int:
    """The number of the left half of the first state in `Automaton.work`."""
    return _number(automaton.left, int64(automaton.work.row[0, LEFT_KEY]), automaton.work)


@kernel
def _number_right(automaton: Automaton) -> int:
    """The number of the right half of the first state in `Automaton.work`."""
    row = automaton.work.row[0]
    return _number(automaton.right, 2 * int64(row[RIGHT_KEY]) + int64(row[LEFT_KEY] >= 0), automaton.work)


@kernel
def _number(halves: Halves, key: int, work: LmStates) -> int:
    """The number of the half with that key; a new one is copied from the first state in ``work``."""
    places = halves.slot.shape[0]
    key &= 0xFFFFFFFF
    place = key * 1640531527 >> 9 & (places - 1)
    while halves.slot[place]["number"] >= 0:
        if halves.slot[place]["key"] == key:
            return int64(halves.slot[place]["number"])
        place = (place + 1) & (places - 1)
    number = int64(halves.size[_COUNT])
    if number == halves.states.row.shape[0]:
        halves.size[_FAILED] = 1
        return int64(EMPTY)
    halves.size[_COUNT] += 1
    halves.slot[place]["number"] = number
    halves.slot[place]["key"] = key
    copy(halves.states, number, work, int64(0))
    return number
