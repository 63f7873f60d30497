"""The lists of a store as the model of a decoder, `ListDecoder`.

A sentence's translations are the entries of its list, best first under the weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.array_files.grow import grow_to
from mpitune.corpus.feature_table import FeatureTable
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.decoder.base import KBest, Sentence, empty_translation
from mpitune.jit import at, kernel


class Lists(NamedTuple):
    """The entries of all lists, list by list in the order of the files."""

    entry_ptr: np.ndarray
    """int64 [lists + 1]: list i has the entries ``entry_ptr[i]`` to ``entry_ptr[i + 1]``."""
    word_ptr: np.ndarray
    """int64 [entries + 1]: the words of entry j are ``word[word_ptr[j]:word_ptr[j + 1]]``."""
    word: np.ndarray
    """int32"""
    feature_ptr: np.ndarray
    """int64 [entries + 1]: rows of the feature vectors (CSR)."""
    feature: np.ndarray
    """int32: slots, ascending in each row."""
    value: np.ndarray
    """float64: values of these features."""
    metric: np.ndarray
    """float64 [entries, metrics]: the metrics that the job asks for."""


class ListModel(NamedTuple):
    """The lists of a store, with the names of their words and features."""

    words: Vocabulary
    lists: Lists
    names: Names
    """The features by slot, the dense ones first."""
    ids: np.ndarray
    """uint64 [features]"""
    dense: int
    """Number of dense features: those that a tenth of all entries or more have."""

    @property
    def has_sparse(self) -> bool:
        """True if there are sparse features beside dense ones."""
        return 0 < self.dense < len(self.names)

    def dense_features(self) -> list[str]:
        """Names of the dense features."""
        return [self.names[slot] for slot in range(self.dense)]

    def feature_table(self) -> FeatureTable:
        """All features, the dense ones first. Raises DataError if two share an id."""
        return FeatureTable([(self.names, self.ids)])

    def fired(self, names: Collection[str]) -> set[str]:
        """Those of ``names`` that occur in some list."""
        known = self.feature_table()
        return {name for name in names if name in known}

    def fires_any(self, names: Collection[str]) -> bool:
        """True if any of ``names`` is `fired`."""
        return bool(self.fired(names))


def open_model(arrays: Mapping[str, np.ndarray], words: Vocabulary) -> ListModel:
    """The model of the ``arrays`` made by `mpitune.decoder.lists.compiler.ListCompiler.compile`."""
    lists = Lists(*(arrays[field] for field in Lists._fields))
    return ListModel(words, lists, Names.stored(arrays, "names"), arrays["ids"], int(arrays["dense"][0]))


class ListDecoder:
    """Scores and sorts compiled lists; see `mpitune.decoder.base.Decoder`."""

    def __init__(self, model: ListModel) -> None:
        self.lists = model.lists
        self.features = model.feature_table()
        self.failed = 0

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """The ``k`` best entries of list ``sentence.grammar`` under ``weights`` (float64 by slot of `features`).

        Equal scores stay in the order of the list. A list without entries gives one translation of no words.
        """
        lists = self.lists
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

    def entries(self, sentence: Sentence) -> KBest:
        """All entries of list ``sentence.grammar`` in the order of the list, with scores of 0.

        The arrays are views. A list without entries gives one translation of no words.
        """
        lists = self.lists
        first, last = lists.entry_ptr[sentence.grammar : sentence.grammar + 2].tolist()
        if first == last:
            return empty_translation(lists.metric.shape[1])
        word_ptr, feature_ptr = lists.word_ptr[first : last + 1], lists.feature_ptr[first : last + 1]
        words, features = slice(word_ptr[0], word_ptr[-1]), slice(feature_ptr[0], feature_ptr[-1])
        return KBest(
            word_ptr - word_ptr[0],
            lists.word[words],
            np.zeros(last - first),
            feature_ptr - feature_ptr[0],
            lists.feature[features],
            lists.value[features],
            lists.metric[first:last],
        )


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
