"""Translation of each sentence with its own weights, and an explanation of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpitune.corpus.retrieval import Neighbours
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.wording import counted
from mpitune.decoder.base import Decoder, Sentence
from mpitune.decoder.kbest_formats import text
from mpitune.learner.weights import Weights
from mpitune.run_folder.model_weights import largest
from mpitune.training.local.learning import Learn, Learned, TrainingData

MOST_NAMED = 20
"""Number of changed weights in an explanation."""


class SentenceTimings(NamedTuple):
    """Times and distances of one sentence."""

    learning: float
    """Seconds."""
    decoding: float
    """Seconds."""
    distance: float
    """||w - w_b||"""
    gap: float | None
    """Duality gap of MBUU; None for other methods."""


@dataclass(frozen=True)
class Translated:
    """A sentence translated with weights learned for it."""

    best: np.ndarray
    """int32: the translation's words."""
    learned: Learned
    learning: float
    """Seconds, as is `decoding`."""
    decoding: float

    def timings(self) -> SentenceTimings:
        """Times and distances, for the summary."""
        update = self.learned.update
        return SentenceTimings(self.learning, self.decoding, update.distance, update.gap)


class Translator:
    """Translation of each sentence with weights learned from its neighbours."""

    def __init__(self, training: TrainingData, learn: Learn, decoder: Decoder, weights: Mapping[str, float]) -> None:
        """``decoder``: of the sentences to translate; ``weights``: the global weights."""
        self._training, self._learn, self._decoder = training, learn, decoder
        decoder.features.slots(sorted({*training.names, *weights}))
        self._weights = Weights(decoder.features)
        self._weights.value[decoder.features.slots(list(weights))] = list(weights.values())

    def translate(self, sentence: Sentence, nearest: Neighbours) -> Translated:
        """Translate ``sentence`` with weights learned from the training sentences ``nearest`` to it."""
        began = time.perf_counter()
        learned = self._learn(nearest.number)
        then = time.perf_counter()
        best = self._decode(sentence, self._slots(learned.ids), learned.update.change)
        return Translated(best, learned, then - began, time.perf_counter() - then)

    def _slots(self, ids: np.ndarray) -> np.ndarray:
        """int64 [n]: the slots of the features ``ids`` (uint64 [n]) in the decoder; it gets those that it lacks."""
        features, learned = self._decoder.features, self._training.run.features
        slots = features.find(ids)
        if (slots < 0).any():
            features.slots([learned.name(slot) for slot in learned.find(ids[slots < 0]).tolist()])
            slots = features.find(ids)
        self._weights.grow()
        return slots

    def _decode(self, sentence: Sentence, slots: np.ndarray, change: np.ndarray) -> np.ndarray:
        """int32: the best translation under the global weights plus ``change`` in ``slots``."""
        weights = self._weights.value
        # In place: there may be millions of other weights.
        before = weights[slots]
        weights[slots] += change
        best = self._decoder.decode(sentence, weights, 1).translation(0)
        weights[slots] = before
        return best

    def explain(self, sentence: Sentence, nearest: Neighbours, words: Vocabulary) -> str:
        """Explain the local weights of ``sentence``: its neighbours, the changed weights, and both translations."""
        done, training, features = self.translate(sentence, nearest), self._training, self._decoder.features
        none = np.zeros(0, dtype=np.int64)
        plain = self._decode(sentence, none, np.zeros(0))
        ids, learned = done.learned
        gap = "" if learned.gap is None else f", duality gap {learned.gap:.3g}"
        moved = dict(zip(self._slots(ids).tolist(), learned.change.tolist(), strict=True))
        named = largest({features.name(slot): change for slot, change in moved.items() if change != 0.0}, MOST_NAMED)
        lines = [
            f"sentence {sentence.number}: {text(sentence.words, words.words)}",
            f"with the global weights: {text(plain, words.words)}",
            f"with its own weights: {text(done.best, words.words)}",
            f"||w - w_b||: {learned.distance:.6g} (objective {learned.objective:.6g} after {learned.steps} steps{gap})",
            "weights that have moved most:",
            *(f"{change:>+14.6g}  {name}" for name, change in named),
            "distance and number of the training sentences retrieved:",
        ]
        for number, distance in zip(nearest.number.tolist(), nearest.distance.tolist(), strict=True):
            source = training.corpus.sentence(number).words
            lines.append(f"{distance:14.6f}  {number}: {text(source, training.words.words)}")
        return "".join(f"{line}\n" for line in lines)


def summary(timings: Sequence[SentenceTimings], searching: float) -> str:
    """One line about all sentences; ``searching``: seconds that all ranks spent on retrieval."""
    count = max(len(timings), 1)
    parts = {
        "retrieval": searching,
        "learning": sum(each.learning for each in timings),
        "decoding": sum(each.decoding for each in timings),
    }
    times = ", ".join(f"{1000 * seconds / count:.3g} ms {name}" for name, seconds in parts.items())
    gaps = [each.gap for each in timings if each.gap is not None]
    gap = f", duality gap at most {max(gaps):.3g}" if gaps else ""
    distance = sum(each.distance for each in timings) / count
    return f"{counted(len(timings), 'sentence')}, each: {times}; ||w - w_b|| {distance:.3g} on average{gap}"
