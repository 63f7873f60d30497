"""mpitune in this process: what it is given, sentences decoded, and learned from as `mpitune train` does it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpitune.corpus.text import lines
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import KBest
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.learner.base import Counts
from mpitune.learner.online.perceptron import Perceptron, PerceptronOptions
from mpitune.learner.pair_sampling import make_sampler
from mpitune.metrics import bleu
from mpitune.metrics.sentence_bleu import make_gold
from mpitune.runtime.progress import Progress
from mpitune.store.build import build_store
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import Corpus, Store, open_store
from support.measure import CpuTime

K = 100
GOLD = "nakov"
LEARNING_RATE = 1e-5
SHARE = 0.1
"""Pairs are made of the best and the worst tenth of a list and what lies between."""
LOOPS = 3
"""A run of ours is so short that it is done so many times to be timed once."""


@dataclass(frozen=True)
class Task:
    """Sentences of a corpus, and what they are translated with."""

    source: Path
    references: Path
    grammar: Path | None
    """None where each sentence names its own, relative to the folder of ``source``."""
    lm: Path
    weights: Path
    templates: tuple[str, ...] = ()
    sentences: tuple[int, int] = (0, 50)
    """The first, and one past the last."""

    def missing(self) -> list[Path]:
        """The files that are not there."""
        files = (self.source, self.references, self.grammar, self.lm, self.weights)
        return [file for file in files if file is not None and not file.exists()]

    def write(self, folder: Path) -> StoreInputs:
        """Write the chosen sentences to ``source`` and ``references`` in ``folder``; returns what our store is made of.

        Grammars that they name are named by absolute paths then.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in (("source", self.source), ("references", self.references)):
            chosen = [f"{line}\n" for _, line in lines(file)][slice(*self.sentences)]
            text = "".join(chosen).replace('<seg grammar="', f'<seg grammar="{file.parent.resolve()}/')
            (folder / name).write_text(text, encoding="utf-8")
        texts = Texts(folder / "source", (folder / "references",))
        return StoreInputs(train=texts, grammar=self.grammar, templates=self.templates, lms=(self.lm,))


def news_commentary(data: Path, golden: Path) -> Task:
    """One grammar for all sentences, 12 dense features."""
    files = (data / "nc" / name for name in ("nc.de.gz", "nc.en.gz", "grammar.gz", "lm.3.arpa.gz"))
    return Task(*files, golden / "nc.weights")


def multi30k(data: Path, golden: Path) -> Task:
    """A grammar for each sentence."""
    references, lm = (data / "multi30k" / name for name in ("val.en.gz", "lm.4.arpa.gz"))
    return Task(golden / "multi30k-val40.in", references, None, lm, golden / "multi30k.weights", sentences=(0, 40))


def stored(sources: StoreInputs, folder: Path) -> Store:
    """The store of ``sources``, made in ``folder`` where it is not there yet."""
    build_store(sources, folder, lambda text: None, lambda what, total: Progress())
    return open_store(sources, folder)


def training(store: Store) -> Corpus:
    """The sentences of a store that has some."""
    assert store.train is not None
    return store.train


class Ours:
    """A task's models, and decoders over them.

    The first sentence is never timed, and each time begins with a new decoder: what a process has to do once counts as
    little as with the reference, and nothing that was kept of an earlier time helps.
    """

    def __init__(self, task: Task, folder: Path, pop_limit: int = 200) -> None:
        """``folder`` is where the task is written, and our store of it."""
        store = stored(task.write(folder), folder / "store")
        self.model = store.model
        self.corpus = training(store)
        self.told = ""
        """What the last epoch was made of."""
        self._given = read_weights(task.weights)
        self._pop_limit = pop_limit

    def scores(self, k: int) -> list[np.ndarray]:
        """float64 [at most k]: the scores of the k-best list of each sentence."""
        decoder, weights = self._new()
        return [decoder.decode(self.corpus.sentence(i), weights, k).score for i in range(self.corpus.size)]

    def decoding(self, k: int) -> float:
        """CPU milliseconds a sentence of lists of the k best, with their features."""

        def begin() -> Callable[[int], KBest]:
            decoder, weights = self._new()
            return lambda i: decoder.decode(self.corpus.sentence(i), weights, k)

        return self._timed(begin)

    def learning(self) -> float:
        """CPU milliseconds a sentence of an epoch."""
        counts: list[Counts] = []

        def begin() -> Callable[[int], None]:
            learn = learning(*self._new(), self.corpus)
            counts.clear()
            return lambda i: counts.append(learn(i))

        taken = self._timed(begin)
        pairs, updates, *_ = np.mean(counts, axis=0)
        self.told = f"{updates:.0f} updates from {pairs:.0f} pairs a sentence"
        return taken

    def _new(self) -> tuple[EmbeddedDecoder, np.ndarray]:
        """A decoder, and the weights that the task starts from."""
        decoder = EmbeddedDecoder(self.model, pop_limit=self._pop_limit)
        slots = [decoder.features.slot(name) for name in self._given]
        weights = np.zeros(len(decoder.features))
        weights[slots] = list(self._given.values())
        return decoder, weights

    def _timed(self, begin: Callable[[], Callable[[int], object]]) -> float:
        """CPU milliseconds a sentence of what ``begin`` returns, the median of `LOOPS`."""
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
    """What learns from the sentence of a number, as `mpitune train` does; it changes ``weights``."""
    sampler, frozen = make_sampler("multipartite", SHARE, False), np.zeros(len(weights), dtype=np.bool_)
    learner, gold = Perceptron(sampler, PerceptronOptions(learning_rate=LEARNING_RATE), frozen), make_gold(GOLD)
    learner.start_shard(weights)
    gold.start_shard()

    def learn(i: int) -> Counts:
        sentence = corpus.sentence(i)
        kbest = decoder.decode(sentence, weights, K)
        counted = bleu.statistics(kbest, corpus.references(i))
        counts = learner.update(kbest, gold.score(counted, len(sentence.words)), weights, np.random.default_rng(i))
        gold.update_context(counted, len(sentence.words))
        return counts

    return learn
