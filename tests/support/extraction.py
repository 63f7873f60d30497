"""A bitext to extract rules from, and extracted grammars as those of `support.naive_extract`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from support.naive_extract import Extracted, Grammar, Pair, Side

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.extraction.bitext import compile_bitext
from mpitune.extraction.extractor import extract_item
from mpitune.extraction.rule_arrays import TablePart, merged, part_of
from mpitune.extraction.sentences import Sentences, index_sentences, items_of_work
from mpitune.grammar.extracted import FEATURES, ExtractedGrammars
from mpitune.grammar.rules import Rules
from mpitune.grammar.score_transforms import TransformPlan

Wanted = tuple[Sequence[str], int | None]
"""A sentence, and the number of the pair that is left out for it."""


class Corpus:
    """A compiled bitext; ``others``: the same pairs with further alignments."""

    def __init__(self, pairs: Sequence[Pair], *others: Sequence[Pair]) -> None:
        self.words = Vocabulary()
        aligned = ((*same[0][:2], [links for _, _, links in same]) for same in zip(pairs, *others, strict=True))
        self.bitext = compile_bitext(aligned, self.words)
        self._number = {word: number for number, word in enumerate(self.words.words)}

    def numbers(self, words: Sequence[str]) -> np.ndarray:
        return np.array([self._number.get(word, -1) for word in words], dtype=np.int32)

    def index(self, wanted: Sequence[Wanted]) -> Sentences:
        without = np.array([-1 if pair is None else pair for _, pair in wanted], dtype=np.int32)
        return index_sentences(self.bitext, [self.numbers(words) for words, _ in wanted], without)

    def parts(self, wanted: Sequence[Wanted]) -> list[TablePart]:
        sentences = self.index(wanted)
        return [part_of(extract_item(self.bitext, sentences, item)) for item in items_of_work(sentences)]

    def opened(self, wanted: Sequence[Wanted], plan: TransformPlan | None = None) -> list[Rules]:
        grammars = stored(self.parts(wanted), len(wanted), plan)
        assert len(grammars) == len(wanted)
        return [grammars.open(number) for number in range(len(grammars))]

    def grammars(self, wanted: Sequence[Wanted]) -> list[Grammar]:
        return [self._grammar(rules) for rules in self.opened(wanted)]

    def grammar(self, words: Sequence[str], without: int | None = None) -> Grammar:
        return self.grammars([(words, without)])[0]

    def _grammar(self, rules: Rules) -> Grammar:
        types, grammar = rules.types, Grammar()
        for type_, row in zip(rules.type.tolist(), rules.score_row.tolist(), strict=True):
            side, target, links = types.side[type_], types.target_side[type_], types.alignment[type_]
            key = (
                self._source(types.source[types.source_ptr[side] : types.source_ptr[side + 1]]),
                self._target(types.target[types.target_ptr[target] : types.target_ptr[target + 1]]),
            )
            assert key not in grammar
            scores = slice(rules.score_ptr[row], rules.score_ptr[row + 1])
            features = dict.fromkeys(FEATURES, 0.0)
            for index, value in zip(rules.score_index[scores], rules.score_value[scores], strict=True):
                features[FEATURES[index]] = float(value)
            alignment = types.align[types.align_ptr[links] : types.align_ptr[links + 1]].tolist()
            grammar[key] = Extracted(features, tuple((i, j) for i, j in alignment))
        return grammar

    def _source(self, symbols: np.ndarray) -> Side:
        gaps = np.cumsum(symbols < 0).tolist()
        return tuple(self.words.words[s] if s >= 0 else gap for s, gap in zip(symbols.tolist(), gaps, strict=True))

    def _target(self, symbols: np.ndarray) -> Side:
        return tuple(self.words.words[s] if s >= 0 else -s for s in symbols.tolist())


def stored(parts: Sequence[TablePart], sentences: int, plan: TransformPlan | None = None) -> ExtractedGrammars:
    """The grammars of ``parts``, from a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "grammars.npz"
        write_arrays(file, merged(parts, sentences, Path(folder)), {})
        return ExtractedGrammars.stored(open_arrays(file), plan)
