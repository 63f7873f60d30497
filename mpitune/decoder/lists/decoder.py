"""`ListDecoder`: a sentence's translations are the entries of its list, best first under the weights."""

from __future__ import annotations

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.array_files.grow import grow_to
from mpitune.decoder.base import KBest, Sentence, empty_translation
from mpitune.decoder.lists.model import ListModel, Lists
from mpitune.jit import at, kernel


class ListDecoder:
    """Scores and sorts compiled lists; see `mpitune.decoder.base.Decoder`."""

    def __init__(self, model: ListModel) -> None:
        self._lists = model.lists
        self.features = model.feature_table()
        self.failed = 0

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """The ``k`` best entries of list ``sentence.grammar`` under ``weights`` (float64 by slot of `features`).

        Equal scores stay in the order of the list. A list without entries gives one translation of no words.
        """
        lists = self._lists
        first, last = lists.entry_ptr[sentence.grammar : sentence.grammar + 2].tolist()
        if first == last:
            return empty_translation(lists.metric.shape[1])
        weights = grow_to(weights, len(self.features))
        score = np.empty(last - first)
        row_scores(lists.feature_ptr[first : last + 1], lists.feature, lists.value, weights, score)
        order = np.argsort(-score, kind="stable")[:k]
        words = np.diff(lists.word_ptr[first : last + 1])[order].sum()
        values = np.diff(lists.feature_ptr[first : last + 1])[order].sum()
        best = KBest(
            np.zeros(len(order) + 1, dtype=np.int64),
            np.empty(words, dtype=np.int32),
            score[order],
            np.zeros(len(order) + 1, dtype=np.int64),
            np.empty(values, dtype=np.int32),
            np.empty(values),
            lists.metric[first:last][order],
        )
        _copy_entries(lists, first + order, best)
        return best


@kernel
def _copy_entries(lists: Lists, entries: np.ndarray, best: KBest) -> None:
    """Fill the rows of ``best`` with those of ``entries`` (int64 [k])."""
    words, values = 0, 0
    for j in range(len(entries)):
        entry = entries[j]
        for e in range(at(lists.word_ptr[entry]), at(lists.word_ptr[entry + 1])):
            best.word[words] = lists.word[e]
            words += 1
        for e in range(at(lists.feature_ptr[entry]), at(lists.feature_ptr[entry + 1])):
            best.feature_index[values] = lists.feature[e]
            best.feature_value[values] = lists.value[e]
            values += 1
        best.word_ptr[j + 1] = words
        best.feature_ptr[j + 1] = values
