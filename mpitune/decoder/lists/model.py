"""The compiled lists of a store, and their features: the model of `mpitune.decoder.lists.decoder.ListDecoder`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from mpitune.corpus.feature_table import FeatureTable
from mpitune.corpus.vocabulary import Names, Vocabulary


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
