"""Growth of decoding and learning: CPU time and memory as functions of each input size.

    python tests/bench/growth.py [--write FOLDER] [--passes N] [--small]

All data are synthetic (`tools.synthetic`). Defaults: sentences of 25 words, a grammar of 100 rules per word, a 3-gram
LM of a million n-grams, pop limit 200, the 1-best translation. Times are CPU milliseconds per sentence on one core,
medians over passes; memory is the peak that a decoder and its work allocate through numpy. ``--write`` writes the
tables to growth.md and their plot to growth.svg in a folder. ``--small`` tests the script; its figures are meaningless.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tools import synthetic
from tools.curves import Curve, Point, Work, draw, measured, table
from tools.ours import learning, stored, training

from mpitune.decoder.base import TranslationModel
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.exchange.selection import select
from mpitune.exchange.sparse_rows import SparseVectors
from mpitune.lm.kneser_ney import estimate
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary
from mpitune.store.compile_lists import compile_lists
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import Corpus, Store

SENTENCES, LENGTH = 3, 25
"""Number of sentences of each length, and the default length."""
RULES = 100
"""Rules per word of the longest sentences."""
WEIGHTS = {"LanguageModel": 1.0, "WordPenalty": -0.3, "Glue": -0.2, "PassThrough": -5.0, "A": -0.3, "B": -0.2}
SHARDS = 2
SELECTED = 100_000
AT_ONCE = 100_000
"""Names of features that are added at a time."""


class Lm(NamedTuple):
    """A language model as part of a translation model, and the number of n-grams in its file."""

    opened: tuple[LanguageModel, LmVocabulary]
    ngrams: int


class Sizes(NamedTuple):
    """The sizes that are measured."""

    words: Sequence[int] = (10, 15, 25, 40, 60, 80)
    rules: Sequence[int] = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    pop_limits: Sequence[int] = (50, 100, 200, 500, 1000, 2000)
    ks: Sequence[int] = (1, 10, 100, 300, 1000, 10_000, 32_000)
    orders: Sequence[int] = (2, 3, 4, 5)
    texts: Sequence[int] = (12_000, 120_000, 1_000_000, 7_000_000)
    """Words of the texts from which language models are estimated."""
    text: int = 1_000_000
    """Words of the default text."""
    features: Sequence[int] = (10, 1_000, 100_000, 1_000_000, 5_000_000)
    names: Sequence[int] = (1_000, 10_000, 100_000, 300_000)
    chains: Sequence[int] = (100, 300, 1000, 3000)


SMALL = Sizes((10, LENGTH), (500, 1000), (5, 10), (1, 10), (2, 3), (2000, 4000), 4000, (10, 1000), (10, 1000), (5, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description="Growth of time and memory.")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="folder for growth.md and growth.svg")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="test the script with tiny sizes")
    options = parser.parse_args()
    curves, text = [], ""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), SMALL if options.small else Sizes(), options.passes)
        for curve in world.curves():
            lines = "\n".join([*table(curve), "\n"])
            print(lines, end="", flush=True)
            curves.append(curve)
            text += lines
    if options.write:
        (options.write / "growth.md").write_text(f"![growth](growth.svg)\n\n{text.rstrip()}\n", encoding="utf-8")
        draw(curves, options.write / "growth.svg")


class World:
    """The synthetic task at all sizes."""

    def __init__(self, folder: Path, sizes: Sizes, passes: int) -> None:
        self._folder = folder
        self._sizes = sizes
        self._passes = passes
        self._walk = synthetic.text(max(sizes.texts))
        longest = max(sizes.words)
        pieces = [self._walk[begin : begin + longest] for begin in range(0, SENTENCES * longest, longest)]
        grammar = folder / "grammar"
        synthetic.write_grammar(map(synthetic.source, pieces), RULES * SENTENCES * longest, grammar)
        cut = [piece[:length] for length in sizes.words for piece in pieces]
        source = [" ".join(synthetic.source(piece)) for piece in cut]
        self._store = self._stored("task", source, [synthetic.target(piece) for piece in cut], grammar)
        self._lm = self._language_model(3, sizes.text)

    def curves(self) -> Iterator[Curve]:
        """Yield all curves."""
        sizes = self._sizes
        for title, point, values in (
            ("words", lambda words: self._decoding(words, words=words), sizes.words),
            ("rules for one sentence", self._with_rules, sizes.rules),
            ("categories in a chain of unary rules", self._with_chain, sizes.chains),
            ("pop limit", lambda limit: self._decoding(limit, pop_limit=limit), sizes.pop_limits),
            ("k", lambda k: self._decoding(k, k=k), sizes.ks),
            ("LM order", lambda order: self._decoding(order, lm=self._language_model(order, sizes.text)), sizes.orders),
            ("n-grams of the LM", self._with_text, sizes.texts),
            ("active features, learning", self._learning, sizes.features),
            (f"active features, selecting ({SHARDS} shards)", self._selecting, sizes.features),
            ("features of an n-best entry, preparing", self._reading, sizes.names),
        ):
            yield Curve(title, [point(value) for value in values])

    def _decoding(
        self, x: float, *, words: int = LENGTH, lm: Lm | None = None, pop_limit: int = 200, k: int = 1
    ) -> Point:
        model = self._store.model._replace(lms=[(lm or self._lm).opened], lm_names=["LanguageModel"])

        def begin() -> Work:
            return _decode(EmbeddedDecoder(model, pop_limit=pop_limit), training(self._store), self._of(words), k)

        return measured(x, begin, _mapped(model), self._passes)

    def _with_rules(self, rules: int) -> Point:
        """Decode with per-sentence grammars: a second sentence with another grammar forces the trie to be rebuilt."""
        sentence = synthetic.source(self._walk[:LENGTH])
        large, small = self._folder / f"grammar.{rules}", self._folder / "grammar.small"
        synthetic.write_grammar([sentence], rules, large)
        synthetic.write_grammar([sentence[:1]], 1, small)
        source = [f'<seg grammar="{large}">{" ".join(sentence)}</seg>', f'<seg grammar="{small}">{sentence[0]}</seg>']
        store = self._stored(large.name, source, [""] * 2, None)
        model = store.model._replace(lms=[self._lm.opened], lm_names=["LanguageModel"])

        def begin() -> Work:
            return _decode(EmbeddedDecoder(model), training(store), range(2), 1)._replace(sentences=1)

        return measured(rules, begin, _mapped(model), self._passes)

    def _with_chain(self, categories: int) -> Point:
        """Open a decoder for a grammar in which each category derives the one before, and decode a word."""
        word, name = synthetic.source(self._walk[:1])[0], f"chain.{categories}"
        chain = [f"[C{n}] ||| [C{n - 1},1] ||| [1] ||| A=1 B=1" for n in range(1, categories)]
        ends = [f"[C0] ||| {word} ||| e ||| A=1 B=1", f"[X] ||| [C{categories - 1},1] ||| [1] ||| A=1 B=1"]
        (self._folder / name).write_text("\n".join([*chain, *ends, ""]), encoding="utf-8")
        store = self._stored(f"{name}.task", [word], ["e"], self._folder / name)
        model = store.model._replace(lms=[self._lm.opened], lm_names=["LanguageModel"])

        def begin() -> Work:
            return Work(lambda: _decode(EmbeddedDecoder(model), training(store), range(1), 1).do())

        return measured(categories, begin, _mapped(model), self._passes)

    def _with_text(self, words: int) -> Point:
        lm = self._language_model(3, words)
        return self._decoding(lm.ngrams, lm=lm)

    def _learning(self, features: int) -> Point:
        """Learn with weights for all ``features`` features."""

        def begin() -> Work:
            decoder = self._decoder_with(features)
            learn = learning(decoder, _weights(decoder), training(self._store))
            return Work(lambda: [learn(i) for i in self._of(LENGTH)], SENTENCES)

        return measured(features, begin, _mapped(self._store.model), self._passes)

    def _selecting(self, features: int) -> Point:
        """Do the end of an epoch: gather ``features`` weights of each shard, select, and scatter the result."""
        decoder = self._decoder_with(features)
        weights = _weights(decoder)

        def select_once() -> None:
            slots = np.flatnonzero(weights)
            vectors = SparseVectors(
                np.arange(SHARDS),
                len(slots) * np.arange(SHARDS + 1),
                np.tile(decoder.features.ids[slots], SHARDS),
                np.tile(weights[slots], SHARDS),
            )
            chosen = select(vectors, norm="l2", k=SELECTED)
            np.zeros(len(weights))[decoder.features.find(chosen.index)] = chosen.value

        return measured(features, lambda: Work(select_once), 0, self._passes)

    def _reading(self, features: int) -> Point:
        """Compile a list of two entries in Moses' format whose first line has ``features`` new names."""
        files = [self._folder / name for name in ("nbest", "nbest.references")]
        row = " ".join(f"f{n}= 0.{n}" for n in range(features))
        files[0].write_text(f"0 ||| a ||| {row}\n0 ||| b ||| {row}\n", encoding="utf-8")
        files[1].write_text("a\n", encoding="utf-8")
        sources = StoreInputs(train=Texts(None, (files[1],), lists=(files[0],)))

        def compile_once() -> None:
            compile_lists(sources, self._folder)

        return measured(features, lambda: Work(compile_once), 0, self._passes)

    def _of(self, words: int) -> range:
        """Range of the sentences of that length."""
        first = SENTENCES * list(self._sizes.words).index(words)
        return range(first, first + SENTENCES)

    def _decoder_with(self, features: int) -> EmbeddedDecoder:
        """A decoder with sparse features: those of its rules, and ``features`` others."""
        model = self._store.model
        decoder = EmbeddedDecoder(
            model._replace(
                lms=[self._lm.opened], lm_names=["LanguageModel"], templates=["id", "source-bigram", "shape"]
            )
        )
        for first in range(0, features, AT_ONCE):
            decoder.features.slots([f"R:X:{n}:{n}" for n in range(first, min(first + AT_ONCE, features))])
        return decoder

    def _language_model(self, order: int, words: int) -> Lm:
        text, arpa = self._folder / f"text.{words}", self._folder / f"lm.{order}.{words}"
        synthetic.write_text(self._walk[:words], text)
        estimate(text, order, arpa)
        with open(arpa, encoding="utf-8") as file:
            head = "".join(next(file) for _ in range(order + 1))
        opened = stored(StoreInputs(lms=(arpa,)), arpa.with_name(f"{arpa.name}.store")).model.lms[0]
        return Lm(opened, sum(map(int, re.findall(r"ngram \d+=(\d+)", head))))

    def _stored(self, name: str, source: Sequence[str], references: Sequence[str], grammar: Path | None) -> Store:
        files = [self._folder / f"{name}.{side}" for side in ("source", "references")]
        for file, lines in zip(files, (source, references), strict=True):
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return stored(StoreInputs(train=Texts(files[0], (files[1],)), grammar=grammar), self._folder / f"{name}.store")


def _decode(decoder: EmbeddedDecoder, corpus: Corpus, numbers: range, k: int) -> Work:
    weights = _weights(decoder)
    sentences = [corpus.sentence(i) for i in numbers]
    return Work(lambda: [decoder.decode(sentence, weights, k) for sentence in sentences], len(sentences))


def _weights(decoder: EmbeddedDecoder) -> np.ndarray:
    """float64 by slot: `WEIGHTS`, and small random ones for all other features."""
    weights = np.random.default_rng(4).normal(0.0, 0.01, len(decoder.features))
    for name, value in WEIGHTS.items():
        weights[decoder.features.slot(name)] = value
    return weights


def _mapped(model: TranslationModel) -> int:
    """Bytes of rules and language models."""
    rules = model.grammars.open(0)
    parts = [*rules.types, *rules, *(part for lm, _ in model.lms for part in lm)]
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


if __name__ == "__main__":
    main()
