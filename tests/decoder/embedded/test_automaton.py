"""Numbered states and remembered transitions against the states themselves."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from support.lm_scorer import Scorer
from support.naive_lm import random_arpa

from mpitune.decoder.embedded import automaton as automata
from mpitune.decoder.embedded.automaton import BEGIN, EMPTY, Automaton, advance, failed, is_half_full, new_automaton
from mpitune.decoder.embedded.lm_state import new_states
from mpitune.lm.arpa import read_arpa
from mpitune.lm.ngram_table import language_model

pytestmark = pytest.mark.kernel

Halves = tuple[int, int]


class Pair:
    """The same partial translations twice: as rows of states, and as numbers of an automaton."""

    def __init__(self, folder: Path, seed: int, order: int, capacity: int = 4096, transitions: int = 1024) -> None:
        self.draw = random.Random(seed)
        self.words = random_arpa(folder / "lm.arpa", seed, order, pruned=0.3)[:4]
        self.scorer = Scorer(*language_model(read_arpa(folder / "lm.arpa")))
        self.automaton: Automaton = new_automaton(self.scorer.lm, capacity, transitions)
        self.known: list[tuple[int, Halves]] = []

    def build(self) -> tuple[tuple[int, float], tuple[Halves, float]]:
        """A new partial translation of words and of those before, both ways, each with what it gained."""
        parts = self.draw.choices([*self.words, "unheard", None, None], k=self.draw.randint(0, 5))
        chosen = [part or self.draw.choice(self.known or [self.words[0]]) for part in parts]
        begin = self.draw.random() < 0.1
        row, gain = self.scorer.build([part if isinstance(part, str) else part[0] for part in chosen], begin)
        left = right = np.int64(BEGIN if begin else EMPTY)
        total = np.float32(0.0)
        for part in chosen:
            if isinstance(part, str):
                word = np.int64(self.scorer.vocabulary.numbers([part])[0])
                left, right, total = advance(self.automaton, left, right, word, np.int64(EMPTY), total)
            else:
                first, last = map(np.int64, part[1])
                left, right, total = advance(self.automaton, left, right, ~first, last, total)
        halves = int(left), int(right)
        if not begin:
            self.known.append((row, halves))
        return (row, gain), (halves, float(total))


@pytest.fixture(params=range(1, 7))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    return Pair(tmp_path, 40 + request.param, request.param)


def test_gains_and_states_are_the_same(pair: Pair) -> None:
    numbers: dict[tuple[int, int], Halves] = {}
    for _ in range(400):
        (row, gain), (halves, total) = pair.build()
        assert total == pytest.approx(gain, rel=1e-6, abs=1e-5)
        assert numbers.setdefault(pair.scorer.key(row), halves) == halves
    assert len(set(numbers.values())) == len(numbers)
    assert not failed(pair.automaton)


def test_what_was_forgotten_is_learned_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path, 50, 3, transitions=2)
    for _ in range(300):
        (_, gain), (_, total) = pair.build()
        assert total == pytest.approx(gain, rel=1e-6, abs=1e-5)


def test_gains_are_added_in_float32_one_by_one(tmp_path: Path) -> None:
    pair = Pair(tmp_path, 51, 5)
    gain = np.empty(8, dtype=np.float32)
    for _ in range(200):
        pair.build()
        row, (first, last) = pair.draw.choice(pair.known)
        word = np.int64(pair.scorer.vocabulary.numbers([pair.draw.choice(pair.words)])[0])
        before = np.float32(pair.draw.gauss(0, 30))
        begin = np.int64(BEGIN)
        left, right, total = advance(pair.automaton, begin, begin, word, np.int64(EMPTY), before)
        i, once = pair.scorer.build([], begin=True)
        assert total == np.float32(before + automata.terminal(pair.scorer.lm, pair.scorer.states, i, word))
        gains = automata.nonterminal(pair.scorer.lm, pair.scorer.states, i, row, gain)
        expected = total
        for number in gain[:gains]:
            expected = np.float32(expected + number)
        assert advance(pair.automaton, left, right, ~np.int64(first), np.int64(last), total)[2] == expected


def test_halves_of_all_nodes_that_fit_are_told_apart() -> None:
    highest = 2**31 - 1
    work = new_states(3, 2)
    for keys in (
        [0, ~0, 1, ~1, highest, ~highest, highest - 1, ~(highest - 1)],
        [0, 1, 2 * highest, 2 * highest + 1, 2 * (highest - 1), 2 * (highest - 1) + 1],
    ):
        halves = automata._new_halves(3, 16)
        assert halves.slot.itemsize == 8
        for _ in range(2):
            numbers = [int(automata._number(halves, np.int64(key), work)) for key in keys]
            assert numbers == list(range(len(keys)))


def test_too_little_space_is_told(tmp_path: Path) -> None:
    pair = Pair(tmp_path, 52, 4, capacity=4)
    assert not failed(pair.automaton) and not is_half_full(pair.automaton)
    half_full = []
    while not failed(pair.automaton):
        pair.build()
        half_full.append(is_half_full(pair.automaton))
    assert half_full[-1]
