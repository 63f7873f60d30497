"""Local training (Liu, Cao, Watanabe, Zhao, Yu and Zhu, EMNLP-CoNLL 2012): weights for each sentence to translate.

Phase 1 decodes the training data once with the global weights and keeps the lists. Phase 2 retrieves the nearest
training sentences of each sentence, learns weights from their lists, and translates the sentence with these weights.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.arrays import write_lock
from mpitune.array_files.atomic import write_text
from mpitune.array_files.csr import row_ends
from mpitune.array_files.grow import grow_to
from mpitune.config.spec import Job, LearnerKeys, ParallelKeys
from mpitune.corpus.retrieval import IndexedPart, Neighbours, sentences_with
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.wording import counted
from mpitune.decoder.base import Decoder, Sentence
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.learner.local.examples import TrainingLists
from mpitune.run_folder.checkpoint import digest
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import largest
from mpitune.run_folder.nbest_store import ShardLists, open_lists, read_lists, write_lists
from mpitune.runtime.progress import progress
from mpitune.runtime.signals import StopFlag
from mpitune.training.batch_epoch import decode_shard
from mpitune.training.kbest_formats import text
from mpitune.training.local_learning import Learn, Learned, TrainingData
from mpitune.training.open_run import InitialModel, open_run
from mpitune.training.scheduler import check_stop, process_shards
from mpitune.training.session import TrainingRun

BLOCK = 200
"""Sentences whose lists are kept in one file: a killed run loses at most one file per rank."""
AT_ONCE = 500
"""Sentences that are searched for between two exchanges of the results."""
MOST_NAMED = 20
"""Number of changed weights in an explanation."""
_EPOCH = 0
"""Epoch number of lists that belong to no epoch, in `mpitune.run_folder.nbest_store`."""
_WHAT = "decoding the training data"
_NOT_OF_LISTS = ("run.seed", "learner.", "parallel.", "select.")
"""Prefixes of keys that lists under given weights do not depend on."""


def training_data(job: Job, comm: Comm, given: InitialModel) -> TrainingData:
    """The job's training data with their lists under the weights ``given``; missing lists are decoded.

    Method ``retrain`` needs no lists.

    Raises UsageError if existing lists are of another job or other weights, StopRequested after a signal.
    """
    # Of the learner's keys, lists depend on what is left out of language models alone: the default one will do.
    learner = LearnerKeys(frozen=job.learner.frozen, lm_leave_one_out=job.learner.lm_leave_one_out)
    parallel = ParallelKeys(shards=1)
    wanted, decoder = job.local, replace(job.decoder, sample="none")
    job = replace(job, learner=learner, parallel=parallel, decoder=decoder)
    folder = RunFolder(job.run.dir).local
    with ExitStack() as held:
        # Other processes wait for the lock until the lists are complete.
        comm.on_root(held.enter_context, write_lock(folder))
        with StopFlag() as stop:
            run = open_run(job, comm, stop, quiet=False, given=given)
            made_from = _made_from(run, given.weights)
            comm.on_root(_check_same, folder, made_from)
            size = 0 if wanted.method == "retrain" else run.corpus.size
            shards = [np.arange(n, min(n + BLOCK, size)) for n in range(0, size, BLOCK)]
            names = _decode(run, folder, digest(made_from), shards)
            # Of lists that other ranks decoded, or an earlier run, too.
            run.features.slots(names)
        pools = [open_lists(folder, _EPOCH, z) for z in range(len(shards))]
    ids, first = run.features.ids, run.first
    lists_of = partial(
        TrainingLists,
        index=ids[: len(first.weights)],
        value=first.weights,
        frozen=ids[np.flatnonzero(first.frozen)],
        hope=wanted.method == "mbuu" and wanted.oracle == "M-C",
    )
    return TrainingData(run, pools, lists_of, names, lists_of(pools))


def _made_from(run: TrainingRun, weights: Mapping[str, float]) -> dict[str, Any]:
    """Keys and digests that the lists depend on (JSON types)."""
    kept = {key: value for key, value in run.identity.items() if not key.startswith(_NOT_OF_LISTS)}
    return {**kept, "weights": digest(weights)}


def _check_same(folder: Path, made_from: dict[str, Any]) -> None:
    """Raise UsageError if the lists in ``folder`` have other inputs; write ``made_from`` if there are none."""
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


def _check_finite(scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        raise DataError(f"{_WHAT}: found NaN or infinite scores, expected numbers: weights are too large")


def _decode(run: TrainingRun, folder: Path, job_digest: str, shards: Sequence[np.ndarray]) -> list[str]:
    """Complete the lists in ``folder``; returns names of the features discovered while decoding."""

    def kept(z: int) -> ShardLists | None:
        return read_lists(folder, _EPOCH, job_digest, z, forests=False)

    def make(z: int, advance: Callable[[float], None]) -> ShardLists | None:
        decoded = decode_shard(run, _EPOCH, z, shards[z], run.first.weights, advance, _check_finite, forests=False)
        if decoded is None:
            return None
        pool, _, statistics, names = decoded
        lists = ShardLists(z, pool, statistics.sums, names, statistics.bleu, statistics.choices)
        write_lists(folder, _EPOCH, job_digest, lists)
        # Mapped from its file, where it takes no memory of ours.
        return replace(lists, pool=open_lists(folder, _EPOCH, z))

    done = process_shards(run, _WHAT, shards, kept, make)
    check_stop(run, _WHAT, bool(run.stop))
    return run.comm.union(name for lists in done for name in lists.names)


class Retrieval:
    """Search for the nearest training sentences; each rank searches its part of the corpus."""

    def __init__(self, comm: Comm, training: TrainingData, k: int, theta: float) -> None:
        """``k``, ``theta``: as in ``[local]``. Collective."""
        corpus = training.corpus
        cuts = [corpus.size * rank // comm.size for rank in range(comm.size + 1)]
        first, last = cuts[comm.rank : comm.rank + 2]
        ptr = corpus.source_ptr[first : last + 1]
        frequency = comm.sum(sentences_with(ptr - ptr[0], corpus.source[ptr[0] : ptr[-1]], len(training.words)))
        self._part = IndexedPart(ptr, corpus.source, first, frequency, corpus.size, theta)
        self._comm, self._words, self._k = comm, training.words, k
        self._of_rank = np.minimum(np.diff(cuts), k)
        """int64 [ranks]: number of sentences that each rank finds."""
        self.seconds = 0.0
        """Seconds that this rank has spent on search."""

    def nearest(self, sentences: Sequence[Sequence[str]], *, quiet: bool) -> list[Neighbours]:
        """The k training sentences nearest to each of ``sentences`` (words), on every rank. Collective."""
        result: list[Neighbours] = []
        with progress("retrieve", len(sentences), rank=self._comm.rank, quiet=quiet) as shown:
            for first in range(0, len(sentences), AT_ONCE):
                found = []
                for words in sentences[first : first + AT_ONCE]:
                    began = time.perf_counter()
                    found.append(self._part.search(self._words.encode(words), self._k))
                    self.seconds += time.perf_counter() - began
                    shown.advance()
                result += self._merged(found)
        return result

    def _merged(self, found: Sequence[Neighbours]) -> list[Neighbours]:
        """Merge the neighbours found by all ranks; each rank merges those of some sentences, then all are exchanged."""
        comm, count = self._comm, len(found)
        found_by_all, starts = self._of_all_ranks(found), row_ends(count * self._of_rank)[:-1]
        mine = []
        for s in range(comm.rank, count, comm.size):
            parts = [np.arange(n) + start + s * n for start, n in zip(starts, self._of_rank, strict=True)]
            places = np.concatenate(parts)
            mine.append(Neighbours(found_by_all.number[places], found_by_all.distance[places]).nearest(self._k))
        merged = self._of_all_ranks(mine)
        rows = (array.reshape(count, -1) for array in merged)
        order = [s for rank in range(comm.size) for s in range(rank, count, comm.size)]
        return [row for _, row in sorted(zip(order, map(Neighbours, *rows), strict=True), key=lambda pair: pair[0])]

    def _of_all_ranks(self, found: Sequence[Neighbours]) -> Neighbours:
        """Neighbours found by all ranks, concatenated in rank order."""
        number = np.concatenate([np.zeros(0, dtype=np.int64), *(each.number for each in found)])
        distance = np.concatenate([np.zeros(0), *(each.distance for each in found)])
        number, distance = self._comm.concatenate(number.astype(np.uint64), distance)
        return Neighbours(number.astype(np.int64), distance)


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
        slots = decoder.features.slots(list(weights))
        self._weights = np.zeros(len(decoder.features))
        self._weights[slots] = list(weights.values())

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
        self._weights = grow_to(self._weights, len(features))
        return slots

    def _decode(self, sentence: Sentence, slots: np.ndarray, change: np.ndarray) -> np.ndarray:
        """int32: the best translation under the global weights plus ``change`` in ``slots``."""
        weights = self._weights
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
