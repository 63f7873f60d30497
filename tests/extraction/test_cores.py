"""Cores in the trie, against a plain enumeration."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.naive_extract import MAX_SPAN, Side, cores_with_places, random_pairs

from mpitune.extraction.cores import (
    MOST_CORES,
    MOST_WORDS,
    Cores,
    Search,
    count_cores,
    find_cores,
    new_cores,
    new_search,
)

pytestmark = pytest.mark.kernel

Found = Counter[tuple[Side, tuple[int, ...]]]
"""Cores and the places of their chunks."""


def side_of(cores: Cores, node: int) -> Side:
    """The symbols of a node; words are numbers of letters."""
    symbols: list[str | int] = []
    while node > 0:
        symbol = int(cores.symbol[node])
        symbols.append(chr(97 + (symbol if symbol >= 0 else -2 - symbol)))
        if symbol < 0:
            symbols.append(0)
        node = int(cores.parent[node])
    gaps = iter((1, 2))
    return tuple(symbol if isinstance(symbol, str) else next(gaps) for symbol in reversed(symbols))


def chunks(places: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(place for k, place in enumerate(places) if k == 0 or place > places[k - 1] + 1)


def expected(words: list[str], span: int) -> Found:
    return Counter((core, chunks(places)) for core, places in cores_with_places(words, span) if "z" not in core)


def found(search: Search, words: list[str], span: int) -> Found:
    counts: Found = Counter()
    for begin in range(len(words)):
        for n in range(find_cores(search, begin, min(len(words), begin + span))):
            node, second, third = (int(array[n]) for array in search.found[1:])
            counts[side_of(search.cores, node), tuple(place for place in (begin, second, third) if place >= 0)] += 1
    return counts


def text(words: list[str]) -> np.ndarray:
    return np.array([-1 if word == "z" else ord(word) - 97 for word in words], dtype=np.int32)


@pytest.mark.parametrize("seed", range(10))
def test_cores_are_added_and_found_again(seed: int) -> None:
    sentences = [pair[0] for pair in random_pairs(seed)] + [["a", "b", "z", "c", "a", "z", "z", "b", "b"], []]
    cores = new_cores(sum(int(count_cores(np.arange(len(words) + 1)).sum()) for words in sentences))
    sides: set[Side] = set()
    for words in sentences:
        added = found(new_search(cores, text(words), True), words, MOST_WORDS)
        assert added == expected(words, MOST_WORDS)
        sides |= {side for side, _ in added}
    # Each core has one node; the root is none.
    assert int(cores.size[0]) == 1 + len(sides)
    for words in (*sentences, list("fedcbafedcba")):
        again = found(new_search(cores, text(words), False), words, MAX_SPAN)
        assert again == Counter({key: n for key, n in expected(words, MAX_SPAN).items() if key[0] in sides})
    assert int(cores.size[0]) == 1 + len(sides)


def test_cores_are_counted() -> None:
    words = [chr(97 + n) for n in range(20)]
    at_first = [sum(1 for _, at in cores_with_places(words[:n], MOST_WORDS) if at[0] == 0) for n in range(21)]
    assert count_cores(np.arange(21)).tolist() == at_first
    assert max(at_first) == MOST_CORES
