"""Sampled occurrences, against a plain search."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from support.extraction import Corpus
from support.naive_extract import Pair, random_pairs

from mpitune.extraction import occurrences
from mpitune.extraction.bitext import Bitext
from mpitune.extraction.cores import MOST_WORDS, count_cores, find_cores, new_cores, new_search
from mpitune.extraction.occurrences import SAMPLES, sample_occurrences
from mpitune.extraction.phrase_pairs import SPAN

pytestmark = pytest.mark.kernel


def search_all(bitext: Bitext, symbols: list[tuple[int, bool]]) -> list[tuple[int, ...]]:
    """The places of the chunks of a core, in the order of the text; ``symbols``: words, and whether a gap precedes."""
    found: list[tuple[int, ...]] = []

    def grow(at: tuple[int, ...], place: int, end: int) -> None:
        """``place``: that of the last word."""
        if len(done) == len(symbols):
            found.append((*at, -1, -1)[:3])
            return
        word, gap = symbols[len(done)]
        done.append(word)
        for following in range(place + 2, end) if gap else range(place + 1, min(place + 2, end)):
            if bitext.source_words[following] == word:
                grow((*at, following) if gap else at, following, end)
        done.pop()

    for begin, after in pairwise(bitext.texts.source_ptr.tolist()):
        for first in range(begin, after - 1):
            if bitext.source_words[first] == symbols[0][0]:
                done = [symbols[0][0]]
                grow((first,), first, min(after - 1, first + SPAN))
    return found


@pytest.mark.parametrize("log", [1 << 16, 300])
def test_occurrences_are_the_first_in_the_text(log: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrences, "_FIRST_LOG", log)
    pairs: list[Pair] = [pair for seed in range(20) for pair in random_pairs(seed)] * 3
    corpus = Corpus(pairs)
    bitext = corpus.bitext
    # All cores of a sentence that begin with a word, which samples are taken for together.
    words = corpus.numbers(["a", "b", "c", "a", "a", "e", "d", "f"])
    for word in corpus.numbers(["a", "e"]).tolist():
        cores = new_cores(int(count_cores(np.arange(len(words) + 1)).sum()))
        search = new_search(cores, words, True)
        for place in np.flatnonzero(words == word).tolist():
            find_cores(search, place, min(len(words), place + MOST_WORDS))
        sampled = sample_occurrences(bitext, cores, word, word + 1)
        spelled: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        counts = []
        for node in range(1, int(cores.size[0])):
            symbol = int(cores.symbol[node])
            spelled[node] = [*spelled[int(cores.parent[node])], (symbol, False) if symbol >= 0 else (-2 - symbol, True)]
            expected = search_all(bitext, spelled[node])
            at = sampled.at[sampled.ptr[node] : sampled.ptr[node + 1]]
            assert list(map(tuple, at.tolist())) == expected[:SAMPLES]
            counts.append(len(expected))
        assert min(counts) < 20 and max(counts) > SAMPLES
        assert len(sampled.ptr) == int(cores.size[0]) + 1
