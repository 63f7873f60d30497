"""Items of work: all words, each once."""

from __future__ import annotations

import numpy as np
import pytest
from support.extraction import Corpus
from support.naive_extract import random_pairs

from mpitune.extraction import sentences
from mpitune.extraction.cores import count_cores
from mpitune.extraction.sentences import items_of_work


@pytest.mark.parametrize(("smallest", "largest"), [(1, 1), (1, 500), (300, 10000), (10**6, 10**6)])
def test_items_have_all_words_and_about_the_wanted_number_of_cores(
    smallest: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences, "SMALLEST_ITEM", smallest)
    monkeypatch.setattr(sentences, "LARGEST_ITEM", largest)
    monkeypatch.setattr(sentences, "ITEMS", 4)
    # Words x and y of the bitext are in no sentence, and nor is "never" in the bitext.
    corpus = Corpus([(["x", *"abcdefg", "y"], [], []), *random_pairs(3)])
    words = [[*"abc", "never", *"aaaa"], [], [*"gab"], [*"deffff" * 2]]
    index = corpus.index([(sentence, None) for sentence in words])
    cores = np.zeros(len(corpus.words), dtype=int)
    for sentence in words:
        for place, word in enumerate(corpus.numbers(sentence).tolist()):
            if word >= 0:
                cores[word] += count_cores(np.array([len(sentence) - place]))[0]
    items = items_of_work(index)
    covered = [word for item in items for word in item]
    assert covered == sorted(set(covered)) and set(np.flatnonzero(cores).tolist()) <= set(covered)
    size = min(max(int(cores.sum()) // 4, smallest), largest)
    found = [int(cores[item].sum()) for item in items]
    assert all(0 < of_item <= size or len(item) == 1 for item, of_item in zip(items, found, strict=True))
    # No two neighbours would fit into one.
    assert all(one + other > size for one, other in zip(found[:-1], found[1:], strict=True))
    assert items_of_work(corpus.index([])) == []
