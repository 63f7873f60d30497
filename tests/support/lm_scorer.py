"""Language model states of the embedded decoder, one at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from mpitune.decoder.embedded.lm_state import (
    LEFT,
    LEFT_KEY,
    LEFT_LENGTH,
    RIGHT_KEY,
    RIGHT_LENGTH,
    begin_sentence,
    new_states,
    nonterminal,
    reset,
    terminal,
    width,
)
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary

ROWS = 4096


class Scorer:
    """States of a model, taken row by row."""

    def __init__(self, lm: LanguageModel, vocabulary: LmVocabulary) -> None:
        self.lm = lm
        self.vocabulary = vocabulary
        self.states = new_states(lm.order, ROWS)
        self.free = 0
        self.gain = np.empty(2 * int(width(self.states)), dtype=np.float32)

    def build(self, parts: Sequence[str | int], begin: bool = False) -> tuple[int, float]:
        """A new state made of words and finished states, and the sum of the increments."""
        i = self.free % ROWS
        self.free += 1
        if begin:
            begin_sentence(self.lm, self.states, i)
        else:
            reset(self.states, i)
        total = 0.0
        for part in parts:
            if isinstance(part, str):
                total += float(terminal(self.lm, self.states, i, int(self.vocabulary.numbers([part])[0])))
            else:
                gains = nonterminal(self.lm, self.states, i, part, self.gain)
                total += float(self.gain[:gains].sum())
        return int(i), total

    def bracket(self, words: Sequence[str], draw: random.Random, begin: bool = False) -> tuple[int, float]:
        """The state and the summed increments of ``words`` under random rules of up to two gaps."""
        gaps = min(draw.choice([0, 1, 1, 2, 2]), len(words) // 2)
        cuts = sorted(draw.sample(range(len(words) + 1), 2 * gaps))
        parts: list[str | int] = []
        total, done = 0.0, 0
        for a, b in zip(cuts[::2], cuts[1::2], strict=True):
            inner, gain = self.bracket(words[a:b], draw)
            parts += [*words[done:a], inner]
            total, done = total + gain, b
        i, gain = self.build([*parts, *words[done:]], begin)
        return i, total + gain

    def key(self, i: int) -> tuple[int, int]:
        return int(self.states.row[i, LEFT_KEY]), int(self.states.row[i, RIGHT_KEY])

    def rest(self, i: int) -> list[int]:
        """All of a row that is in use, beside what its key is made of."""
        row, wide = self.states.row[i], width(self.states)
        left, right = row[LEFT_LENGTH], row[RIGHT_LENGTH]
        words, backoffs = row[LEFT + wide :], row[LEFT + 2 * wide :]
        return [left, right, *row[LEFT:][:left], *words[:right], *backoffs]
