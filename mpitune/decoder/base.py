"""What a decoder is to the rest of the project: sentences in, k-best lists and hypergraphs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mpitune.corpus.vocabulary import FeatureTable, Names, Vocabulary, feature_id
from mpitune.grammar.rules import Rules
from mpitune.grammar.templates import Gap, Rule, RuleFeatures
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary


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
    """None for an external decoder, which reads its own."""
    lm_names: Sequence[str] = ()
    """The features that hold the language models' probabilities."""

    def dense_features(self) -> list[str]:
        """The names of all features that no template fires, as cdec calls them."""
        dense = ["Glue", "WordPenalty", "PassThrough"]
        for name in self.lm_names:
            dense += [name, f"{name}_OOV"]
        return dense + [name for name in self.score_names if name not in dense]

    def feature_table(self) -> FeatureTable:
        """All features known beforehand, the dense ones first. Raises DataError where two share an id."""
        dense = self.dense_features()
        ids = np.array([feature_id(name) for name in dense], dtype=np.uint64)
        return FeatureTable([(Names.of(dense), ids), (self.rule_features.names, self.rule_features.ids)])


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
    """int32: slots in the decoder's feature table; inside a row ascending, those of features met late by their ids."""
    feature_value: np.ndarray
    """float64: values of those features."""

    @property
    def size(self) -> int:
        """k: how many translations there are."""
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
    """One way to build a node of a hypergraph: an edge over a derivation of each of its tails."""

    edge: int
    parts: tuple[Derivation, ...]
    """In the order of the source side."""
    score: float
    """Of the edge and all that is below it."""

    def edges(self) -> list[int]:
        """Its edges from the top down: each before those of its first part, then those of its second."""
        found: list[int] = []
        # A list and not recursion: glued phrases nest as deep as the sentence is long.
        waiting = [self]
        while waiting:
            derivation = waiting.pop()
            found.append(derivation.edge)
            waiting += reversed(derivation.parts)
        return found


class Hypergraph(NamedTuple):
    """All derivations of one sentence that a search has kept.

    A node stands for what translates one span alike as far as the search can tell (same category, same language model
    states). Nodes are numbered bottom-up, the goal last; edges lie in the order of their heads, those of a node best
    first. The features of an edge are those of its rule, and what it adds to the language models.
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
    """int32 [edges]: places in `rules`."""
    edge_lm: np.ndarray
    """float64 [edges, LMs]: what the edge adds to each LM's log10 probability."""
    edge_score: np.ndarray
    """float64 [edges]: weights times the edge's own features."""
    lm_slot: np.ndarray
    """int32 [LMs]: slots of the LMs' features."""
    rules: Sequence[Rule]
    origin: Sequence[str]
    """Where each rule comes from: ``grammar``, ``glue``, ``pass-through``, or ``goal`` for the goal's (number 0)."""
    feature_ptr: np.ndarray
    """int64 [rules + 1]: rows of the rules' features (CSR)."""
    feature_index: np.ndarray
    """int32: slots in the decoder's feature table."""
    feature_value: np.ndarray
    """float64: values of those features."""
    best: Sequence[Derivation]
    """The best derivations, as many as were asked for, best first."""

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
    """A `Hypergraph` as numbers alone, for programs: small enough to keep those of many sentences.

    Nodes are numbered bottom-up, the goal last; the features of an edge are those of its rule, and what it adds to the
    language models.
    """

    edge_ptr: np.ndarray
    """int64 [nodes + 1]: the edges of a node, best first."""
    edge_tail: np.ndarray
    """int32 [edges, 2]: the nodes that fill the gaps, in the order of the source side, or -1."""
    edge_rule: np.ndarray
    """int32 [edges]"""
    edge_lm: np.ndarray
    """float32 [edges, LMs]: what the edge adds to each LM's log10 probability, which is a float32 in the search too."""
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
    """Translates; which search does it is nobody else's business."""

    features: FeatureTable
    failed: int
    """How many sentences it has given up so far; it says that they have one translation, of no words."""

    def decode(self, sentence: Sentence, weights: np.ndarray, k: int) -> KBest:
        """At most ``k`` translations of ``sentence`` under ``weights`` (float64, by slot of `features`).

        Slots past the end of ``weights`` count as weight 0; the translations may fire features that `features` gains
        now.
        """
        ...


@runtime_checkable
class ForestDecoder(Decoder, Protocol):
    """A decoder that lets others look into its search; one that runs in another process may give lists only."""

    def forest(self, sentence: Sentence, weights: np.ndarray, k: int = 0) -> Hypergraph:
        """The hypergraph that `decode` takes its list from, with the derivations of the ``k`` best entries."""
        ...

    def decode_all(self, sentence: Sentence, weights: np.ndarray, k: int) -> tuple[KBest, PackedForest]:
        """What `decode` returns, and all derivations that it is taken from."""
        ...
