"""`ListDecoder`: a sentence's translations are the entries of its list, best first under the weights."""

from __future__ import annotations

import numpy as np

from mpitune.array_files.csr import select_rows
from mpitune.decoder.base import KBest, Sentence, empty_translation
from mpitune.decoder.lists.model import ListModel


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
        if len(weights) < len(self.features):
            weights = np.concatenate([weights, np.zeros(len(self.features) - len(weights))])
        word_ptr, feature_ptr = lists.word_ptr[first : last + 1], lists.feature_ptr[first : last + 1]
        row = np.repeat(np.arange(last - first), np.diff(feature_ptr))
        values = slice(feature_ptr[0], feature_ptr[-1])
        score = np.bincount(row, weights[lists.feature[values]] * lists.value[values], minlength=last - first)
        order = np.argsort(-score, kind="stable")[:k]
        new_word_ptr, word = select_rows(word_ptr, lists.word, order)
        new_feature_ptr, feature = select_rows(feature_ptr, lists.feature, order)
        value = select_rows(feature_ptr, lists.value, order)[1]
        metrics = lists.metric[first:last][order]
        return KBest(new_word_ptr, word, score[order], new_feature_ptr, feature, value, metrics)
