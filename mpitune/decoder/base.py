"""The decoder protocols, and the types of their inputs and results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.corpus.feature_table import FeatureTable
from mpitune.corpus.vocabulary import Names, Vocabulary, feature_id
from mpitune.errors import MachineError
from mpitune.grammar.firing_rules import names_fired
from mpitune.grammar.grammars import Grammars
from mpitune.grammar.score_transforms import Scoring
from mpitune.grammar.sparse import Gap, Rule
from mpitune.lm.leave_one_out import LeftOut
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary


def built_in_features(lm_names: Sequence[str]) -> list[str]:
    """Names of the features that the decoder computes, given those of the language models."""
    return ["Glue", "WordPenalty", "PassThrough", *(name + suffix for name in lm_names for suffix in ("", "_OOV"))]


class TranslationModel(NamedTuple):
    """Grammars and language models, with the names of their features."""

    words: Vocabulary
    categories: Sequence[str]
    grammars: Grammars
    score_names: Sequence[str]
    """Names of the scores of an opened grammar."""
    templates: Sequence[str]
    """Templates of the sparse features that the rules fire."""
    lms: Sequence[tuple[LanguageModel, LmVocabulary]]
    """Empty for an external decoder, which loads its language models itself."""
    lm_names: Sequence[str] = ()
    """Names of the features that hold the language models' log10 probabilities."""
    scoring: Scoring | None = None
    """The transforms and bins of opened grammars; None: unchanged."""

    @property
    def has_sparse(self) -> bool:
        """True if rules may fire sparse features."""
        return bool(self.templates)

    def dense_features(self) -> list[str]:
        """Names of all features that no template fires, as in cdec."""
        dense = built_in_features(self.lm_names)
        return dense + [name for name in self.score_names if name not in dense]

    def feature_table(self, sparse: Iterable[str] = ()) -> FeatureTable:
        """The dense features, then ``sparse``, distinct names. Raises DataError if two share an id."""
        names = [*self.dense_features(), *sparse]
        ids = np.array([feature_id(name) for name in names], dtype=np.uint64)
        return FeatureTable([(Names.of(names), ids)])

    def fired(self, names: Collection[str]) -> set[str]:
        """Those of ``names`` that are dense features or that a template fires on some rule."""
        dense = set(self.dense_features())
        sparse = [name for name in names if name not in dense]
        types, categories, words = self.grammars.types, self.categories, self.words.words
        # Rules are searched only if need be: there may be millions.
        found = names_fired(self.templates, types, categories, words, sparse) if sparse else set()
        return dense.intersection(names) | found

    def fires_any(self, names: Collection[str]) -> bool:
        """True if any of ``names`` is `fired`."""
        return not set(self.dense_features()).isdisjoint(names) or bool(self.fired(names))


class Sentence(NamedTuple):
    """One input sentence."""

    number: int
    """Index in its corpus, from 0."""
    words: np.ndarray
    """int32 [n]: source words."""
    grammar: int
    """Index of its grammar in the store; 0 if all sentences share one grammar."""
    left_out: Sequence[LeftOut] = ()
    """Changes of each language model without the sentence; empty: none."""


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
    metrics: np.ndarray = np.zeros((0, 0))
    """float64 [k, columns]: metrics that come with n-best lists, as far as the job asks for them; NaN: no value."""

    @property
    def size(self) -> int:
        """The number of translations, k."""
        return len(self.score)

    def translation(self, j: int) -> np.ndarray:
        """int32: the target words of entry j."""
        return self.word[self.word_ptr[j] : self.word_ptr[j + 1]]


def empty_translation(metrics: int = 0) -> KBest:
    """One translation of no words and no features, without values of so many ``metrics``."""
    none = np.zeros(0, dtype=np.int32)
    ptr = np.zeros(2, dtype=np.int64)
    return KBest(ptr, none, np.zeros(1), ptr, none, np.zeros(0), np.full((1, metrics), np.nan))


def check_failed(failed: int, sentences: int) -> None:
    """Raise MachineError if the decoder ``failed`` on more than 1 % of ``sentences``: then the decoder is at fault."""
    if 100 * failed > sentences:
        found = f"the decoder failed on {failed} of {sentences} sentences, more than 1 %"
        raise MachineError(f'{found}: its log tells how (jobs/migrating.md, "With cdec")')


def as_kbest(
    translations: Sequence[np.ndarray], score: np.ndarray | None = None, metrics: np.ndarray | None = None
) -> KBest:
    """The ``translations`` (int32 [words] each, one or more) in their order, without features.

    ``score``: float64 [k], by default 0; ``metrics``: as in `KBest`, by default none.
    """
    k = len(translations)
    return KBest(
        row_ends([len(words) for words in translations]),
        np.concatenate(translations),
        np.zeros(k) if score is None else score,
        np.zeros(k + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros(0),
        np.zeros((k, 0)) if metrics is None else metrics,
    )


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

    def sample(self, sentence: Sentence, weights: np.ndarray, k: int, random: np.random.Generator) -> KBest:
        """Translations of ``k`` derivations sampled from the forest of `decode`, with probability ~ exp(score).

        Best first; a translation that is drawn several times may be listed once.
        """
        ...

    def decode_all(self, sentence: Sentence, weights: np.ndarray, k: int) -> tuple[KBest, PackedForest]:
        """The result of `decode`, and the forest that it is extracted from."""
        ...
