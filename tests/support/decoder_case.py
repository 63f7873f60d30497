"""Small random decoding tasks, for the embedded decoder and its plain twin."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.naive_decoder import Features, Line, NaiveDecoder, Translation, random_grammar, write_grammar
from support.naive_lm import NaiveLm, random_arpa

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import KBest, Sentence, TranslationModel
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleReader
from mpitune.lm.arpa import read_arpa
from mpitune.lm.ngram_table import language_model

EVERYTHING = 3000
"""A pop limit and a k that no sentence here exhausts."""


SOURCES = ["a", "b"]


TARGETS = ["a", "b", "c", "d", "é", "unheard"]


class Case:
    """Grammars, language models and weights, and decoders for them: ours and the plain one."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        grammars: Sequence[Sequence[Line]] | None = None,
        *,
        orders: Sequence[int] = (2,),
        templates: Sequence[str] = (),
        span_limit: int = 15,
    ) -> None:
        self.draw = random.Random(seed)
        self.grammars = [random_grammar(self.draw, SOURCES, TARGETS, 24)] if grammars is None else grammars
        self.templates = templates
        self.span_limit = span_limit
        self.vocabulary = Vocabulary()
        reader = RuleReader(self.vocabulary)
        for n, grammar in enumerate(self.grammars):
            reader.read(write_grammar(folder / f"grammar.{n}", grammar))
        arpas = [folder / f"lm.{n}" for n in range(len(orders))]
        for n, (arpa, order) in enumerate(zip(arpas, orders, strict=True)):
            random_arpa(arpa, 10 * seed + n, order, pruned=0.3)
        self.naive_lms = [NaiveLm(arpa) for arpa in arpas]
        rules = reader.rules()
        self.model = TranslationModel(
            words=self.vocabulary,
            categories=reader.categories,
            grammars=ListedGrammars(rules, reader.grammar_ptr),
            score_names=reader.score_names,
            templates=templates,
            lms=[language_model(read_arpa(arpa)) for arpa in arpas],
            lm_names=["LanguageModel", "LanguageModel_1"][: len(arpas)],
        )

    def naive(self, grammar: int = 0) -> NaiveDecoder:
        return NaiveDecoder(self.grammars[grammar], self.naive_lms, self.templates, self.span_limit)

    def decoder(self, pop_limit: int = EVERYTHING, unique: bool = True, rule_margin: float = 0.0) -> EmbeddedDecoder:
        return EmbeddedDecoder(
            self.model, pop_limit=pop_limit, rule_margin=rule_margin, span_limit=self.span_limit, unique=unique
        )

    def sentence(self, words: Sequence[str], grammar: int = 0) -> Sentence:
        return Sentence(0, self.vocabulary.encode(words), grammar)

    def some_words(self, least: int, most: int, grammar: int = 0) -> list[str]:
        """A sentence of about ``least`` to at most ``most`` derivations."""
        words: list[str] = []
        best: list[str] = []
        for _ in range(12):
            words = [*words, self.draw.choice([*SOURCES, *SOURCES, *SOURCES, "other"])]
            ways = len(self.naive(grammar).derivations(words))
            if ways > most:
                words = words[1:-1]
                continue
            best = words
            if ways >= least:
                break
        return best

    def weights(self, decoder: EmbeddedDecoder, words: Sequence[str], grammar: int = 0) -> dict[str, float]:
        """Random weights for all features that a sentence can fire; the decoder gets to know them."""
        fired = {name for _, row in self.naive(grammar).derivations(words) for name in row}
        weights = {name: self.draw.gauss(0, 1) for name in sorted(fired)}
        for name in weights:
            decoder.features.slot(name)
        return weights


def by_slot(decoder: EmbeddedDecoder, weights: dict[str, float]) -> np.ndarray:
    names = [decoder.features.name(slot) for slot in range(len(decoder.features))]
    return np.array([weights.get(name, 0.0) for name in names])


def entries(case: Case, decoder: EmbeddedDecoder, kbest: KBest) -> list[tuple[Translation, float, Features]]:
    """The list in words; what must be true of any list is checked on the way."""
    assert (kbest.score[1:] <= kbest.score[:-1] + 1e-9).all()
    assert kbest.word_ptr[0] == kbest.feature_ptr[0] == 0
    assert (kbest.word_ptr[-1], kbest.feature_ptr[-1]) == (len(kbest.word), len(kbest.feature_index))
    assert len(kbest.feature_index) == len(kbest.feature_value)
    assert [array.dtype for array in kbest[:6]] == [np.int64, np.int32, np.float64, np.int64, np.int32, np.float64]
    assert kbest.metrics.size == 0
    listed = []
    for j in range(kbest.size):
        row = slice(kbest.feature_ptr[j], kbest.feature_ptr[j + 1])
        slots = kbest.feature_index[row].tolist()
        features = decoder.features
        assert slots == sorted(
            set(slots), key=lambda slot: (min(slot, features.first_dynamic_slot), features.ids[slot])
        )
        fired = dict(zip(map(decoder.features.name, slots), kbest.feature_value[row].tolist(), strict=True))
        listed.append((tuple(case.vocabulary.decode(kbest.translation(j))), float(kbest.score[j]), fired))
    return listed


def same_features(ours: Features, theirs: Features) -> bool:
    """Whether two vectors are equal, absent being 0; the LMs' probabilities were added up in float32."""
    names = ours.keys() | theirs.keys()
    return all(ours.get(name, 0.0) == pytest.approx(theirs.get(name, 0.0), rel=1e-6, abs=1e-5) for name in names)


def same(one: KBest, other: KBest) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
