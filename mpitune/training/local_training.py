"""Local training: what `mpitune local` decodes, keeps, retrieves and learns from (L12; README, "Local training").

Phase 1 decodes the training data once, with the global weights, and keeps the lists. Phase 2 retrieves for each
sentence the training sentences nearest to it, learns weights from their lists, and translates it with these.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.arrays import write_lock
from mpitune.array_files.atomic import write_text
from mpitune.array_files.csr import row_ends
from mpitune.config.spec import Job, LearnerKeys, ParallelKeys
from mpitune.corpus.retrieval import IndexedPart, Neighbours, sentences_with
from mpitune.corpus.text import counted
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import Decoder, Sentence
from mpitune.errors import MachineError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.learner.local.examples import Examples, KeptLists
from mpitune.learner.local.update import Update
from mpitune.run_folder.checkpoint import digest
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import largest
from mpitune.run_folder.nbest_store import ShardLists, open_lists, read_lists, write_lists
from mpitune.runtime.progress import progress
from mpitune.runtime.signals import StopFlag
from mpitune.store.store import Corpus
from mpitune.training.batch_epoch import decode_shard
from mpitune.training.parallel_map import text
from mpitune.training.scheduler import process_shards
from mpitune.training.session import InitialModel, TrainingRun, open_run
from mpitune.training.state import State

BLOCK = 200
"""How many sentences' lists are kept in a file: what is lost of them when a run is killed is soon made again."""
AT_ONCE = 500
"""How many sentences are searched for before the ranks tell each other what they have found."""
MOST_NAMED = 20
"""How many weights are named that have moved."""
_EPOCH = 0
"""What `mpitune.run_folder.nbest_store` calls lists that belong to no epoch."""
_WHAT = "decoding the training data"
_NOT_OF_LISTS = ("run.seed", "learner.", "parallel.", "select.")
"""What a job's results depend on, but not its lists under given weights."""


@dataclass(frozen=True)
class TrainingData:
    """What there is to learn from."""

    corpus: Corpus
    words: Vocabulary
    lists: KeptLists
    names: list[str]
    """The names of those features in the lists that are not known before decoding."""


def training_data(job: Job, comm: Comm, given: InitialModel) -> TrainingData:
    """The job's training data with their lists under ``given``, decoded as far as they are not yet kept.

    Raises UsageError where the lists that are there are of another job or another model, StopRequested after a signal.
    """
    # Lists are the same whichever way weights are learned: no learner has to be made.
    learner, parallel = LearnerKeys(frozen=job.learner.frozen), ParallelKeys(shards=1)
    job = replace(job, learner=learner, parallel=parallel)
    folder = RunFolder(job.run.dir).local
    with ExitStack() as held:
        # Whoever else wants them waits until they are made.
        comm.on_root(held.enter_context, write_lock(folder))
        with StopFlag() as stop:
            run = open_run(job, comm, stop, quiet=False, given=given)
            made_from = _made_from(run, given.weights)
            comm.on_root(_check_same, folder, made_from)
            shards = [np.arange(n, min(n + BLOCK, run.corpus.size)) for n in range(0, run.corpus.size, BLOCK)]
            names = _decode(run, folder, digest(made_from), shards)
        pools = [open_lists(folder, _EPOCH, z) for z in range(len(shards))]
    ids, first = run.features.ids, run.first
    lists = KeptLists(pools, ids[: len(first.weights)], first.weights, ids[np.flatnonzero(first.frozen)])
    return TrainingData(run.corpus, run.store.model.words, lists, names)


def _made_from(run: TrainingRun, weights: Mapping[str, float]) -> dict[str, Any]:
    """What the lists depend on (JSON's types)."""
    kept = {key: value for key, value in run.identity.items() if not key.startswith(_NOT_OF_LISTS)}
    return {**kept, "the weights": digest(weights)}


def _check_same(folder: Path, made_from: dict[str, Any]) -> None:
    """Raise UsageError where the lists in ``folder`` are made from something else; note it where there are none."""
    file = folder / "made-from.json"
    if file.exists():
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            before = {}
        changed = sorted(key for key in made_from.keys() | before.keys() if made_from.get(key) != before.get(key))
        if changed:
            way = "remove the folder to have them made anew, or name another run.dir"
            raise UsageError(f"{folder}: found lists made with other {', '.join(changed)}: {way}")
        return
    try:
        write_text(file, json.dumps(made_from, indent=1) + "\n")
    except OSError as error:
        raise MachineError(f"{file}: cannot be written: {error.strerror}") from error


def _decode(run: TrainingRun, folder: Path, job_digest: str, shards: Sequence[np.ndarray]) -> list[str]:
    """Have all lists in ``folder``, sound; returns the names of features in them that nobody knew before."""

    def kept(z: int) -> ShardLists | None:
        return read_lists(folder, _EPOCH, job_digest, z, forests=False)

    def make(z: int, advance: Callable[[float], None]) -> ShardLists | None:
        decoded = decode_shard(run, _WHAT, z, shards[z], run.first.weights, advance, forests=False)
        if decoded is None:
            return None
        pool, _, told, names = decoded
        write_lists(folder, _EPOCH, job_digest, ShardLists(z, pool, told.sums, names, told.bleu))
        # Mapped from its file, where it takes no memory of ours.
        return ShardLists(z, open_lists(folder, _EPOCH, z), told.sums, names, told.bleu)

    done = process_shards(run, State(start=run.sparse(run.first.weights)), _WHAT, shards, kept, make)
    return run.comm.union(name for lists in done for name in lists.names)


class Retrieval:
    """Finds the training sentences nearest to others; each rank searches its part of them."""

    def __init__(self, comm: Comm, training: TrainingData, k: int, theta: float) -> None:
        """``k``, ``theta``: as in a job's ``[local]``. All ranks make one together."""
        corpus = training.corpus
        cuts = [corpus.size * rank // comm.size for rank in range(comm.size + 1)]
        first, last = cuts[comm.rank : comm.rank + 2]
        ptr = corpus.source_ptr[first : last + 1]
        frequency = comm.sum(sentences_with(ptr - ptr[0], corpus.source[ptr[0] : ptr[-1]], len(training.words)))
        self._part = IndexedPart(ptr, corpus.source, first, frequency, corpus.size, theta)
        self._comm, self._words, self._k = comm, training.words, k
        self._of_rank = np.minimum(np.diff(cuts), k)
        """int64 [ranks]: how many sentences each rank finds."""
        self.seconds = 0.0
        """What this rank has spent searching."""

    def nearest(self, sentences: Sequence[Sequence[str]], *, quiet: bool) -> list[Neighbours]:
        """The k training sentences nearest to each of ``sentences`` (words), on every rank; all ranks ask together."""
        result: list[Neighbours] = []
        with progress("retrieve", len(sentences), rank=self._comm.rank, quiet=quiet) as told:
            for first in range(0, len(sentences), AT_ONCE):
                found = []
                for words in sentences[first : first + AT_ONCE]:
                    began = time.perf_counter()
                    found.append(self._part.search(self._words.encode(words), self._k))
                    self.seconds += time.perf_counter() - began
                    told.advance()
                result += self._merged(found)
        return result

    def _merged(self, found: Sequence[Neighbours]) -> list[Neighbours]:
        """What all ranks together have found; each merges what is found for some sentences, and tells the others."""
        comm, count = self._comm, len(found)
        everyones, starts = self._everyones(found), row_ends(count * self._of_rank)[:-1]
        mine = []
        for s in range(comm.rank, count, comm.size):
            parts = [np.arange(n) + start + s * n for start, n in zip(starts, self._of_rank, strict=True)]
            places = np.concatenate(parts)
            mine.append(Neighbours(everyones.number[places], everyones.distance[places]).nearest(self._k))
        merged = self._everyones(mine)
        rows = (array.reshape(count, -1) for array in merged)
        order = [s for rank in range(comm.size) for s in range(rank, count, comm.size)]
        return [row for _, row in sorted(zip(order, map(Neighbours, *rows), strict=True), key=lambda pair: pair[0])]

    def _everyones(self, found: Sequence[Neighbours]) -> Neighbours:
        """All ranks' findings, end to end."""
        number = np.concatenate([np.zeros(0, dtype=np.int64), *(each.number for each in found)])
        distance = np.concatenate([np.zeros(0), *(each.distance for each in found)])
        number, distance = self._comm.concatenate(number.astype(np.uint64), distance)
        return Neighbours(number.astype(np.int64), distance)


class SentenceTimings(NamedTuple):
    """What is told of one sentence."""

    learning: float
    """Seconds."""
    decoding: float
    """Seconds."""
    distance: float
    """||w - w_b||"""
    gap: float | None
    """The duality gap, of MBUU."""


@dataclass(frozen=True)
class Translated:
    """A sentence, translated with weights of its own."""

    best: np.ndarray
    """int32: the translation's words."""
    examples: Examples
    learned: Update
    learning: float
    """Seconds, as is `decoding`."""
    decoding: float

    def told(self) -> SentenceTimings:
        """For the summary."""
        return SentenceTimings(self.learning, self.decoding, self.learned.distance, self.learned.gap)


class Translator:
    """Translates each sentence with weights that it learns from the lists of others."""

    def __init__(
        self,
        training: TrainingData,
        update: Callable[[Examples], Update],
        decoder: Decoder,
        weights: Mapping[str, float],
    ) -> None:
        """``decoder``: of the sentences to come; ``weights``: the global ones."""
        self._training, self._update, self._decoder = training, update, decoder
        slots = {name: decoder.features.slot(name) for name in sorted({*training.names, *weights})}
        self._weights = np.zeros(len(decoder.features))
        self._weights[[slots[name] for name in weights]] = list(weights.values())
        self._slot = decoder.features.find(training.lists.feature_id)
        """int64 [features of the lists]: -1 where nothing in the sentences to come fires them."""

    def translate(self, sentence: Sentence, nearest: Neighbours) -> Translated:
        """``sentence``, with what is learned from the training sentences ``nearest`` to it."""
        began = time.perf_counter()
        examples = self._training.lists.examples(nearest.number)
        learned = self._update(examples)
        then = time.perf_counter()
        slots = self._slot[examples.feature]
        known = slots >= 0
        best = self._decode(sentence, slots[known], learned.change[known])
        return Translated(best, examples, learned, then - began, time.perf_counter() - then)

    def _decode(self, sentence: Sentence, slots: np.ndarray, change: np.ndarray) -> np.ndarray:
        """int32: the best translation by the global weights with a ``change`` in some ``slots``."""
        if new := len(self._decoder.features) - len(self._weights):
            self._weights = np.concatenate([self._weights, np.zeros(new)])
        weights = self._weights
        # The rest of what may be millions of weights is not touched.
        before = weights[slots]
        weights[slots] += change
        best = self._decoder.decode(sentence, weights, 1).translation(0)
        weights[slots] = before
        return best

    def explain(self, sentence: Sentence, nearest: Neighbours, words: Vocabulary) -> str:
        """What ``sentence``, in these ``words``, has learned from which training sentences, and what comes of it."""
        done, training, features = self.translate(sentence, nearest), self._training, self._decoder.features
        none = np.zeros(0, dtype=np.int64)
        plain = self._decode(sentence, none, np.zeros(0))
        learned = done.learned
        gap = "" if learned.gap is None else f", duality gap {learned.gap:.3g}"
        slots = self._slot[done.examples.feature].tolist()
        moved = {slot: change for slot, change in zip(slots, learned.change.tolist(), strict=True) if slot >= 0}
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


def summary(told: Sequence[SentenceTimings], searching: float) -> str:
    """What is told of all sentences, in a line; ``searching``: the seconds that all ranks have spent on retrieval."""
    count = max(len(told), 1)
    parts = {
        "retrieval": searching,
        "learning": sum(each.learning for each in told),
        "decoding": sum(each.decoding for each in told),
    }
    times = ", ".join(f"{1000 * seconds / count:.3g} ms {name}" for name, seconds in parts.items())
    gaps = [each.gap for each in told if each.gap is not None]
    gap = f", duality gap at most {max(gaps):.3g}" if gaps else ""
    distance = sum(each.distance for each in told) / count
    return f"{counted(len(told), 'sentence')}, each: {times}; ||w - w_b|| {distance:.3g} on average{gap}"
