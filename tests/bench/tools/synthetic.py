"""Generate a translation task of any size: text, source sentences and their grammars.

The text is a random walk over words: every other word depends on the previous one, so that n-grams recur as in real
text. A source sentence is a word-for-word translation of a piece of the text with some neighbours swapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

VOCABULARY = 50_000
COMMON = 5_000
"""Number of words from which wrong translations are drawn."""
GAP = "[X]"
SPAN = 15
"""Largest number of source words that a rule covers, including those in its gaps."""
SENTENCE = 20
"""Words in a sentence of the text."""


def text(words: int, seed: int = 1) -> np.ndarray:
    """int64 [words]: word numbers; a shorter text is a prefix of a longer one."""
    random = np.random.default_rng(seed)
    steps = []
    # Draw in blocks, so that the beginning does not depend on the length.
    for _ in range(0, words, 1 << 14):
        free = np.minimum(random.zipf(1.3, 1 << 14), VOCABULARY) - 1
        steps.append((free, np.minimum(random.zipf(1.5, 1 << 14), VOCABULARY), random.random(1 << 14) < 0.5))
    free, near, hangs = (np.concatenate(part)[:words].tolist() for part in zip(*steps, strict=True))
    walk, word = [], 0
    for here, step, bound in zip(free, near, hangs, strict=True):
        word = (31 * word + step) % VOCABULARY if bound else here
        walk.append(word)
    return np.array(walk, dtype=np.int64)


def write_text(walk: np.ndarray, path: Path) -> None:
    """Write a text as sentences of `SENTENCE` words."""
    with open(path, "w", encoding="utf-8") as file:
        for begin in range(0, len(walk), SENTENCE):
            print(target(walk[begin : begin + SENTENCE]), file=file)


def source(walk: np.ndarray) -> list[str]:
    """Make the source sentence of a piece of the text: every third word is swapped with the next."""
    words = walk.tolist()
    for i in range(0, len(words) - 1, 3):
        words[i], words[i + 1] = words[i + 1], words[i]
    return [f"f{word}" for word in words]


def target(walk: np.ndarray) -> str:
    """Make the reference translation of `source`."""
    return " ".join(f"e{word}" for word in walk.tolist())


def write_grammar(sentences: Iterable[Sequence[str]], rules: int, path: Path, seed: int = 2) -> None:
    """Write about ``rules`` rules for ``sentences``: phrases and rules with one and two gaps.

    Some source sides have many translations, most have few. The first translation is word for word, the others have one
    word replaced; every other rule with two gaps swaps them.
    """
    random = np.random.default_rng(seed)
    sides = sorted({side for sentence in sentences for side in _source_sides(sentence)})
    share = 1 / np.sqrt(1 + random.permutation(len(sides)))
    counts = np.maximum(1, np.round(rules * share / share.sum()).astype(int)).tolist()
    with open(path, "w", encoding="utf-8") as file:
        for side, count in zip(sides, counts, strict=True):
            scores = random.exponential(1.0, (count, 2)).round(4).tolist()
            others = random.integers(0, COMMON, count).tolist()
            gaps = [i for i, symbol in enumerate(side) if symbol == GAP]
            words = [i for i, symbol in enumerate(side) if symbol != GAP]
            shown = list(side)
            for number, i in enumerate(gaps, start=1):
                shown[i] = f"[X,{number}]"
            for n in range(count):
                target = [
                    f"e{symbol[1:]}" if symbol != GAP else f"[{1 + gaps.index(i)}]" for i, symbol in enumerate(side)
                ]
                if n:
                    target[words[n % len(words)]] = f"e{others[n]}"
                if n % 2 and len(gaps) == 2:
                    target[gaps[0]], target[gaps[1]] = target[gaps[1]], target[gaps[0]]
                print(
                    f"[X] ||| {' '.join(shown)} ||| {' '.join(target)} ||| A={scores[n][0]} B={scores[n][1]}", file=file
                )


def _source_sides(sentence: Sequence[str]) -> Iterable[tuple[str, ...]]:
    for i, j in product(range(len(sentence)), range(1, SPAN)):
        words = tuple(sentence[i : i + j])
        if j <= 3 and i + j <= len(sentence):
            yield words
            if j <= 2:
                yield from ((*words, GAP), (GAP, *words), (GAP, *words, GAP))
        elif i + j <= len(sentence):
            yield words[0], GAP, words[-1]
