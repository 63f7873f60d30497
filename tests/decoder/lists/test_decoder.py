"""The decoder of lists: scores, order, length."""

from __future__ import annotations

import numpy as np

from mpitune.corpus.vocabulary import Names, Vocabulary, feature_id
from mpitune.decoder.base import Sentence
from mpitune.decoder.lists.decoder import ListDecoder, ListModel, Lists

NAMES = ["lm", "tm", "x"]
ROWS = [{0: 1.0, 1: 2.0}, {0: 1.0, 2: 1.0}, {}, {1: 2.0}, {0: -1.0}]
"""List 0 has the first four entries, list 1 none, list 2 the last. Entry j has the words j and 7."""
SOURCE = np.zeros(3, dtype=np.int32)


def decoder() -> ListDecoder:
    lists = Lists(
        entry_ptr=np.array([0, 4, 4, 5]),
        word_ptr=np.arange(0, 12, 2),
        word=np.array([[j, 7] for j in range(5)], dtype=np.int32).ravel(),
        feature_ptr=np.cumsum([0, *map(len, ROWS)]),
        feature=np.array([slot for row in ROWS for slot in row], dtype=np.int32),
        value=np.array([value for row in ROWS for value in row.values()]),
        metric=np.arange(5.0)[:, None] / 8,
    )
    ids = np.array([feature_id(name) for name in NAMES], dtype=np.uint64)
    return ListDecoder(ListModel(Vocabulary(), lists, Names.of(NAMES), ids, 2))


def order(list_: int, weights: list[float], k: int = 10) -> list[int]:
    """The entries of the result, whose rows and scores are checked."""
    kbest = decoder().decode(Sentence(5, SOURCE, list_), np.array(weights), k)
    entries = [int(kbest.translation(j)[0]) for j in range(kbest.size)]
    for j, entry in enumerate(entries):
        row = slice(kbest.feature_ptr[j], kbest.feature_ptr[j + 1])
        assert dict(zip(kbest.feature_index[row], kbest.feature_value[row], strict=True)) == ROWS[entry]
        assert kbest.score[j] == sum(([*weights, 0, 0, 0][slot]) * value for slot, value in ROWS[entry].items())
        assert kbest.translation(j).tolist() == [entry, 7]
        assert kbest.metrics[j].tolist() == [entry / 8]
    return entries


def test_the_best_entries_come_first_and_equal_ones_in_their_order() -> None:
    assert order(0, [0.0, 0.0, 0.0]) == [0, 1, 2, 3]
    assert order(0, [1.0, -1.0, 0.5]) == [1, 2, 0, 3]
    assert order(0, [1.0, -1.0, 0.5], k=2) == [1, 2]
    assert order(2, [1.0, 0.0, 0.0]) == [4]


def test_weights_of_a_shorter_vector_count_as_0() -> None:
    assert order(0, [-1.0]) == [2, 3, 0, 1]


def test_a_list_without_entries_gives_one_translation_of_no_words() -> None:
    kbest = decoder().decode(Sentence(5, SOURCE, 1), np.zeros(3), 10)
    assert (kbest.size, len(kbest.word), len(kbest.feature_index)) == (1, 0, 0)
    assert np.isnan(kbest.metrics).tolist() == [[True]]
