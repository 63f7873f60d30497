"""What a decoder is to the rest of the project: sentences in, k-best lists out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from mpitune.corpus.symbols import FeatureTable, Vocabulary
from mpitune.grammar.features import RuleFeatures
from mpitune.grammar.lm import LanguageModel, LmVocabulary
from mpitune.grammar.rules import Rules


class TranslationModel(NamedTuple):
    """All that a translation model is made of."""

    words: Vocabulary
    categories: Sequence[str]
    rules: Rules
    score_names: Sequence[str]
    """Names of the grammars' own scores."""
    templates: Sequence[str]
    rule_features: RuleFeatures
    """What those templates fire on the rule types."""
    lms: Sequence[tuple[LanguageModel, LmVocabulary]]


class Sentence(NamedTuple):
    """One input."""

    number: int
    """Its place in its corpus, from 0."""
    words: np.ndarray
    """int32 [n]: source words."""
    grammar: int
    """Which of the store's grammars translates it; 0 where there is one for all."""


class KBest(NamedTuple):
    """The k best translations of one sentence, best first; ties in the decoder's order."""

    word_ptr: np.ndarray
    """int64 [k + 1]: translation j is ``word[word_ptr[j]:word_ptr[j + 1]]``."""
    word: np.ndarray
    """int32: target words."""
    score: np.ndarray
    """float64 [k]: model scores w.x."""
    feature_ptr: np.ndarray
    """int64 [k + 1]: rows of the feature vectors (CSR)."""
    feature_index: np.ndarray
    """int32: slots in the decoder's feature table, ascending inside a row."""
    feature_value: np.ndarray
    """float64: values of those features."""

    @property
    def size(self) -> int:
        """k: how many translations there are."""
        return len(self.score)

    def translation(self, j: int) -> np.ndarray:
        """int32: the target words of entry j."""
        return self.word[self.word_ptr[j] : self.word_ptr[j + 1]]


class Decoder(Protocol):
    """Translates; which search does it is nobody else's business."""

    features: FeatureTable

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """At most ``k`` translations of ``sentence`` under ``weights`` (float64, by slot of `features`).

        Slots past the end of ``weights`` count as weight 0.
        """
        ...
