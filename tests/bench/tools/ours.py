"""Run mpitune in this process on a task: decode sentences, and learn from them as `mpitune train` does."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpitune.corpus.lines import lines
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import KBest
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.learner.base import Counts
from mpitune.learner.online.perceptron import Perceptron, PerceptronOptions
from mpitune.learner.pair_sampling import make_sampler
from mpitune.learner.weights import Weights
from mpitune.metrics import bleu
from mpitune.metrics.sentence_bleu import make_sentence_metric
from mpitune.store.build import build_store
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import Corpus, Store, open_store
from tools.measure import CpuTime

K = 100
GOLD = "nakov"
LEARNING_RATE = 1e-5
SHARE = 0.1
"""Share of a list that counts as its best part, and as its worst part, for pair sampling."""
LOOPS = 3
"""Repetitions for one timing, because a run is short."""


@dataclass(frozen=True)
class Task:
    """Sentences of a corpus, with grammar, LM and weights."""

    source: Path
    references: Path
    grammar: Path | None
    """None if each sentence names its own grammar, relative to the folder of ``source``."""
    lm: Path
    weights: Path
    templates: tuple[str, ...] = ()
    sentences: tuple[int, int] = (0, 50)
    """First sentence and end (exclusive)."""

    def missing(self) -> list[Path]:
        """List the files that do not exist."""
        files = (self.source, self.references, self.grammar, self.lm, self.weights)
        return [file for file in files if file is not None and not file.exists()]

    def write(self, folder: Path) -> StoreInputs:
        """Write the sentences to ``source`` and ``references`` in ``folder``; returns the inputs of the store.

        Names of per-sentence grammars become absolute paths.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in (("source", self.source), ("references", self.references)):
            chosen = [f"{line}\n" for _, line in lines(file)][slice(*self.sentences)]
            text = "".join(chosen).replace('<seg grammar="', f'<seg grammar="{file.parent.resolve()}/')
            (folder / name).write_text(text, encoding="utf-8")
        texts = Texts(folder / "source", (folder / "references",))
        return StoreInputs(
            train=texts,
            grammar=self.grammar,
            grammar_folder=self.source.parent,
            templates=self.templates,
            lms=(self.lm,),
        )


def news_commentary(data: Path, golden: Path) -> Task:
    """Make the task with one grammar for all sentences and 12 dense features."""
    files = (data / "nc" / name for name in ("nc.de.gz", "nc.en.gz", "grammar.gz", "lm.3.arpa.gz"))
    return Task(*files, golden / "nc.weights")


def multi30k(data: Path, golden: Path) -> Task:
    """Make the task with a grammar for each sentence."""
    references, lm = (data / "multi30k" / name for name in ("val.en.gz", "lm.4.arpa.gz"))
    return Task(golden / "multi30k-val40.in", references, None, lm, golden / "multi30k.weights", sentences=(0, 40))


def stored(sources: StoreInputs, folder: Path) -> Store:
    """Open the store of ``sources`` in ``folder``; makes it if necessary."""
    build_store(sources, folder)
    return open_store(sources, folder)


def training(store: Store) -> Corpus:
    """Training sentences of a store."""
    assert store.train is not None
    return store.train


class Ours:
    """A task's models, and decoders over them.

    Each timing starts with a new decoder, whose caches are empty, and excludes the first sentence, so that start-up is
    excluded as for the reference.
    """

    def __init__(self, task: Task, folder: Path, pop_limit: int = 200) -> None:
        """``folder``: folder for the task's files and its store."""
        store = stored(task.write(folder), folder / "store")
        self.model = store.model
        self.corpus = training(store)
        self.epoch_summary = ""
        """Updates and pairs of the last epoch."""
        self._given = read_weights(task.weights)
        self._pop_limit = pop_limit

    def scores(self, k: int) -> list[np.ndarray]:
        """Model scores of the k-best list of each sentence (float64 [at most k] each)."""
        decoder, weights = self._new()
        return [decoder.decode(self.corpus.sentence(i), weights, k).score for i in range(self.corpus.size)]

    def decoding(self, k: int) -> float:
        """CPU milliseconds per sentence of k-best decoding with features."""

        def begin() -> Callable[[int], KBest]:
            decoder, weights = self._new()
            return lambda i: decoder.decode(self.corpus.sentence(i), weights, k)

        return self._timed(begin)

    def learning(self) -> float:
        """CPU milliseconds per sentence of an epoch."""
        counts: list[Counts] = []

        def begin() -> Callable[[int], None]:
            learn = learning(*self._new(), self.corpus)
            counts.clear()
            return lambda i: counts.append(learn(i))

        taken = self._timed(begin)
        pairs, updates, *_ = np.mean(counts, axis=0)
        self.epoch_summary = f"{updates:.0f} updates from {pairs:.0f} pairs a sentence"
        return taken

    def _new(self) -> tuple[EmbeddedDecoder, np.ndarray]:
        """Make a decoder and the task's initial weights."""
        decoder = EmbeddedDecoder(self.model, pop_limit=self._pop_limit)
        slots = [decoder.features.slot(name) for name in self._given]
        weights = np.zeros(len(decoder.features))
        weights[slots] = list(self._given.values())
        return decoder, weights

    def _timed(self, begin: Callable[[], Callable[[int], object]]) -> float:
        """Median over `LOOPS` of the CPU milliseconds per sentence of the function that ``begin`` returns."""
        taken = []
        for _ in range(LOOPS):
            do = begin()
            do(0)
            with CpuTime() as spent:
                for i in range(1, self.corpus.size):
                    do(i)
            taken.append(1000 * spent.seconds / (self.corpus.size - 1))
        return statistics.median(taken)


def learning(decoder: EmbeddedDecoder, weights: np.ndarray, corpus: Corpus) -> Callable[[int], Counts]:
    """Make a function that learns from the sentence of a given number as `mpitune train` does, from ``weights``."""
    sampler, loaded = make_sampler("multipartite", SHARE, False), Weights(decoder.features)
    loaded.value[: len(weights)] = weights
    options = PerceptronOptions(
        learning_rate=LEARNING_RATE,
        margin=0.0,
        margin_by_gold=False,
        order="sequential",
        rate="constant",
        l1=0.0,
        l2=0.0,
        scale_by_gold=False,
    )
    learner, gold = Perceptron(sampler, options), make_sentence_metric(GOLD)
    learner.start_shard(loaded)
    gold.start_shard()

    def learn(i: int) -> Counts:
        sentence = corpus.sentence(i)
        kbest = decoder.decode(sentence, loaded.value, K)
        loaded.grow()
        counted = bleu.statistics(kbest, corpus.references(i))
        counts = learner.update(kbest, gold.score(counted, len(sentence.words)), loaded, np.random.default_rng(i))
        gold.update_context(counted, len(sentence.words))
        return counts

    return learn
