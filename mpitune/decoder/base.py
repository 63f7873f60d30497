"""The decoder protocols, and the types of their inputs and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mpitune.corpus.vocabulary import FeatureTable, Names, Vocabulary, feature_id
from mpitune.grammar.rules import Rules
from mpitune.grammar.templates import Gap, Rule, RuleFeatures
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary


def built_in_features(lm_names: Sequence[str]) -> list[str]:
    """Names of the features that the decoder computes, given those of the language models."""
    return ["Glue", "WordPenalty", "PassThrough", *(name + suffix for name in lm_names for suffix in ("", "_OOV"))]


class TranslationModel(NamedTuple):
    """A grammar and language models, with the names of their features."""

    words: Vocabulary
    categories: Sequence[str]
    rules: Rules
    score_names: Sequence[str]
    """Names of the scores that grammar files contain."""
    templates: Sequence[str]
    rule_features: RuleFeatures
    """The features that those templates fire on each rule type."""
    lms: Sequence[tuple[LanguageModel, LmVocabulary]]
    """Empty for an external decoder, which loads its language models itself."""
    lm_names: Sequence[str] = ()
    """Names of the features that hold the language models' log10 probabilities."""

    def dense_features(self) -> list[str]:
        """Names of all features that no template fires, as in cdec."""
        dense = built_in_features(self.lm_names)
        return dense + [name for name in self.score_names if name not in dense]

    def feature_table(self) -> FeatureTable:
        """All features known before decoding, the dense ones first. Raises DataError if two share an id."""
        dense = self.dense_features()
        ids = np.array([feature_id(name) for name in dense], dtype=np.uint64)
        return FeatureTable([(Names.of(dense), ids), (self.rule_features.names, self.rule_features.ids)])


class Sentence(NamedTuple):
    """One input sentence."""

    number: int
    """Index in its corpus, from 0."""
    words: np.ndarray
    """int32 [n]: source words."""
    grammar: int
    """Index of its grammar in the store; 0 if all sentences share one grammar."""


class KBest(NamedTuple):
    """The k best translations of one sentence, best first; equal scores in the decoder's order."""

    word_ptr: np.ndarray
    """int64 [k + 1]: translation j is ``word[word_ptr[j]:word_ptr[j + 1]]``."""
    word: np.ndarray
    """int32: target words."""
    score: np.ndarray
    """float64 [k]: model scores w.x."""
    feature_ptr: np.ndarray
    """int64 [k + 1]: rows of the feature vectors (CSR)."""
    feature_index: np.ndarray
    """int32: slots in the decoder's feature table. Ascending in each row, but slots of features discovered while
    decoding stand last, ordered by feature id."""
    feature_value: np.ndarray
    """float64: values of those features."""

    @property
    def size(self) -> int:
        """The number of translations, k."""
        return len(self.score)

    def translation(self, j: int) -> np.ndarray:
        """int32: the target words of entry j."""
        return self.word[self.word_ptr[j] : self.word_ptr[j + 1]]


def empty_translation() -> KBest:
    """One translation of no words and no features."""
    none = np.zeros(0, dtype=np.int32)
    ptr = np.zeros(2, dtype=np.int64)
    return KBest(ptr, none, np.zeros(1), ptr, none, np.zeros(0))


@dataclass(frozen=True, eq=False)
class Derivation:
    """A derivation of a hypergraph node: an edge, and a derivation of each of its tails."""

    edge: int
    parts: tuple[Derivation, ...]
    """Derivations of the tails, in the order of the source side."""
    score: float
    """Score of the edge plus the scores of the parts."""

    def edges(self) -> list[int]:
        """Its edges in preorder: the top edge, those of the first part, those of the second part."""
        found: list[int] = []
        # A list and not recursion: glued phrases nest as deep as the sentence is long.
        waiting = [self]
        while waiting:
            derivation = waiting.pop()
            found.append(derivation.edge)
            waiting += reversed(derivation.parts)
        return found


class Hypergraph(NamedTuple):
    """All derivations of one sentence that the search kept.

    A node holds the translations of one span with the same category and the same language model states. Nodes are
    numbered bottom-up, the goal last; edges are sorted by head, those of a node best first. The features of an edge are
    those of its rule, and its increments of the language models' log10 probabilities.
    """

    source: Sequence[str]
    """The source words."""
    node_span: np.ndarray
    """int32 [nodes, 2]: first source word and one past the last."""
    node_category: Sequence[str]
    node_score: np.ndarray
    """float64 [nodes]: score of the best derivation."""
    edge_head: np.ndarray
    """int32 [edges]"""
    edge_tail: np.ndarray
    """int32 [edges, 2]: the nodes that fill the gaps, in the order of the source side, or -1."""
    edge_rule: np.ndarray
    """int32 [edges]: indices in `rules`."""
    edge_lm: np.ndarray
    """float64 [edges, LMs]: increment of each LM's log10 probability."""
    edge_score: np.ndarray
    """float64 [edges]: weights times the edge's own features."""
    lm_slot: np.ndarray
    """int32 [LMs]: slots of the LMs' features."""
    rules: Sequence[Rule]
    origin: Sequence[str]
    """Origin of each rule: ``grammar``, ``glue``, ``pass-through``, or ``goal`` for the goal's rule (number 0)."""
    feature_ptr: np.ndarray
    """int64 [rules + 1]: rows of the rules' features (CSR)."""
    feature_index: np.ndarray
    """int32: slots in the decoder's feature table."""
    feature_value: np.ndarray
    """float64: values of those features."""
    best: Sequence[Derivation]
    """The requested number of best derivations, best first."""

    def rule_of(self, derivation: Derivation) -> int:
        """The number of the rule at the top of ``derivation``."""
        return int(self.edge_rule[derivation.edge])

    def translation(self, derivation: Derivation) -> list[str]:
        """The target words of ``derivation``."""
        words: list[str] = []
        waiting: list[str | Derivation] = [derivation]
        while waiting:
            next_ = waiting.pop()
            if isinstance(next_, str):
                words.append(next_)
                continue
            target = self.rules[self.rule_of(next_)].target
            waiting += [next_.parts[s.number - 1] if isinstance(s, Gap) else s for s in reversed(target)]
        return words


class PackedForest(NamedTuple):
    """A `Hypergraph` reduced to arrays, for learners: small enough to keep those of many sentences.

    Nodes are numbered bottom-up, the goal last. The features of an edge are those of its rule, and its increments of
    the language models' log10 probabilities.
    """

    edge_ptr: np.ndarray
    """int64 [nodes + 1]: the edges of a node, best first."""
    edge_tail: np.ndarray
    """int32 [edges, 2]: the nodes that fill the gaps, in the order of the source side, or -1."""
    edge_rule: np.ndarray
    """int32 [edges]"""
    edge_lm: np.ndarray
    """float32 [edges, LMs]: increment of each LM's log10 probability; the search computes it as float32."""
    lm_slot: np.ndarray
    """int32 [LMs]: slots of the LMs' features."""
    target_ptr: np.ndarray
    """int64 [rules + 1]: target sides."""
    target: np.ndarray
    """int32: word >= 0, first gap -1, second gap -2."""
    feature_ptr: np.ndarray
    """int64 [rules + 1]: rows of the rules' features (CSR)."""
    feature_index: np.ndarray
    """int32: slots in the decoder's feature table."""
    feature_value: np.ndarray
    """float64: values of those features."""


class Decoder(Protocol):
    """Translates sentences under given weights."""

    features: FeatureTable
    failed: int
    """Number of sentences that failed so far; each of them gets one translation of no words."""

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """At most ``k`` translations of ``sentence`` under ``weights`` (float64, by slot of `features`).

        Slots past the end of ``weights`` count as weight 0. New features of the translations are added to `features`.
        """
        ...


@runtime_checkable
class ForestDecoder(Decoder, Protocol):
    """A decoder that also returns forests; an external decoder may return k-best lists only."""

    def forest(self, sentence: Sentence, weights: np.ndarray, k: int = 0) -> Hypergraph:
        """The hypergraph that `decode` extracts its list from, with the derivations of the ``k`` best entries."""
        ...

    def decode_all(self, sentence: Sentence, weights: np.ndarray, k: int) -> tuple[KBest, PackedForest]:
        """The result of `decode`, and the forest that it is extracted from."""
        ...
