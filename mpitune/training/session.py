"""A run: its job, data, decoder and learner, opened once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.config.effective_keys import ignored_keys
from mpitune.config.spec import Job
from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import Decoder, ForestDecoder, KBest, TranslationModel
from mpitune.decoder.cdec.process import resolve_program
from mpitune.decoder.lists.model import ListModel
from mpitune.errors import DataError
from mpitune.exchange.comm import Comm
from mpitune.exchange.sparse_rows import look_up
from mpitune.grammar.score_transforms import Scoring
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.learner.choices import LearnedFeatures
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.metrics.tuning_metric import Metric
from mpitune.run_folder.best_epoch import AVERAGING
from mpitune.run_folder.checkpoint import Vector, digest
from mpitune.run_folder.layout import RunFolder
from mpitune.runtime.progress import progress
from mpitune.runtime.signals import StopFlag
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.made_inputs import known_decisions
from mpitune.store.store import Corpus, Store, open_store
from mpitune.training import factory, job_inputs
from mpitune.training.fit_bins import open_fitted
from mpitune.training.seen_references import log_seen_references, warn_of_tuned_devtest
from mpitune.training.unused_weights import unused_weights

LOG = logging.getLogger(__name__)

_AT_ONCE = 1 << 18
"""Features whose names are exchanged at a time: as strings they take much memory."""
_SAMPLING = 1
"""Tells the random numbers of sampling from those of the learner, which is seeded by seed, epoch and sentence."""


class NamedWeights(NamedTuple):
    """The weights other than 0 that an epoch publishes, with their names."""

    slots: np.ndarray
    """int64 [n]."""
    names: list[str]
    value: np.ndarray
    """float64 [n]."""

    @property
    def named(self) -> list[tuple[str, float]]:
        return list(zip(self.names, self.value.tolist(), strict=True))


@dataclass
class TrainingRun:
    """The parts of a run that stay the same from epoch to epoch."""

    job: Job
    comm: Comm
    folder: RunFolder
    stop: StopFlag
    quiet: bool
    store: Store
    corpus: Corpus
    decoder: Decoder
    first: factory.FirstWeights
    first_sparse: int
    """First slot of the sparse features."""
    learns: LearnedFeatures
    """The features that the epochs learn."""
    learner: OnlineLearner | BatchLearner
    gold: SentenceMetric
    metric: Metric
    """The metric that the learner optimises."""
    identity: dict[str, Any]
    """The keys and input digests that the result depends on."""
    first_dynamic_slot: int
    """First slot of features discovered while decoding; their order differs from rank to rank."""

    @cached_property
    def identity_digest(self) -> str:
        """The digest of `identity`, which the files of the run's shards carry."""
        return digest(self.identity)

    @property
    def features(self) -> FeatureTable:
        return self.decoder.features

    @property
    def kbest(self) -> int:
        """Length of the k-best lists that are learned from."""
        return factory.list_length(self.job)

    @property
    def mixes_each_epoch(self) -> bool:
        """True where all shards start an epoch from the same weights (algorithms 3 and 4)."""
        return self.job.learner.algorithm not in AVERAGING

    @property
    def averages_sentences(self) -> bool:
        """True where an epoch ends with the mean of its weights after each sentence, not with the last ones."""
        return self.job.learner.averaging == "sentence"

    def share_names(self, ids: np.ndarray) -> None:
        """Give the features ``ids`` (uint64, the same on all ranks) slots on all ranks; one of them must know each.

        Collective.
        """
        for first in range(0, len(ids), _AT_ONCE):
            part = ids[first : first + _AT_ONCE]
            slots = self.features.find(part)
            is_new = self.comm.sum((slots < 0).astype(np.int32)) > 0
            self.features.slots(self.comm.union(map(self.features.name, slots[is_new & (slots >= 0)].tolist())))

    def decode(self, i: int, weights: np.ndarray, epoch: int) -> KBest:
        """The list to learn from of training sentence ``i`` under ``weights``: the k best, or sampled from its forest.

        What is sampled depends on the run's seed, ``epoch`` and sentence only.
        """
        sentence = self.store.tuned_sentence(i)
        if self.job.decoder.sample == "none":
            return self.decoder.decode(sentence, weights, self.kbest)
        assert isinstance(self.decoder, ForestDecoder)  # checked by config.load
        random = np.random.default_rng([self.job.run.seed, epoch, i, _SAMPLING])
        return self.decoder.sample(sentence, weights, self.kbest, random)

    def grow_to_features(self, weights: np.ndarray) -> np.ndarray:
        """``weights`` (float64, by slot), padded with 0 for features that the decoder has discovered since."""
        return weights if len(self.features) <= len(weights) else grow_to(weights, self._slots)

    @property
    def _slots(self) -> int:
        """D: the number of slots rounded up by at most an eighth, lest each sentence copies all arrays by slot."""
        step = 1 << max(len(self.features).bit_length() - 4, 8)
        return -(-len(self.features) // step) * step

    def dense(self, vector: Vector) -> np.ndarray:
        """float64 [D]: the sparse vector ``vector`` by slot; frozen features have their initial weights."""
        weights = self.by_slot(vector)
        frozen = np.flatnonzero(self.first.frozen)
        weights[frozen] = self.first.weights[frozen]
        return weights

    def freeze_dense(self, vector: Vector) -> None:
        """Freeze the dense features at their weights in ``vector``; frozen ones keep theirs."""
        self._freeze(np.arange(self.first_sparse), vector)

    def freeze_sparse(self, vector: Vector) -> None:
        """The same of the sparse features."""
        self._freeze(np.arange(self.first_sparse, len(self.first.frozen)), vector)

    def _freeze(self, slots: np.ndarray, vector: Vector) -> None:
        weights, frozen = self.first.weights.copy(), self.first.frozen.copy()
        free = slots[~frozen[slots]]
        weights[free] = look_up(self.features.ids[free], *vector)
        frozen[free] = True
        self.first = factory.FirstWeights(weights, frozen)

    def by_slot(self, vector: Vector) -> np.ndarray:
        """float64 [D]: the sparse vector ``vector`` by slot."""
        values = np.zeros(self._slots)
        values[self.features.find(vector[0])] = vector[1]
        return values

    def model(self, vector: Vector) -> NamedWeights:
        """The weights ``vector`` and the frozen ones, with names."""
        dense = self.dense(vector)
        slots = self.in_order(np.flatnonzero(dense))
        return NamedWeights(slots, [self.features.name(slot) for slot in slots.tolist()], dense[slots])

    def sparse(self, weights: np.ndarray) -> Vector:
        """The weights other than 0 of features that are not frozen."""
        slots = self.learned(weights)
        return self.features.ids[slots], weights[slots]

    def new_names(self, slots: np.ndarray) -> list[str]:
        """Names of those of ``slots`` that were discovered while decoding."""
        return [self.features.name(slot) for slot in slots[slots >= self.first_dynamic_slot].tolist()]

    def discovered(self, *vectors: Vector) -> list[str]:
        """Names of the features of ``vectors`` that were discovered while decoding, sorted."""
        ids = np.unique(np.concatenate([ids for ids, _ in vectors]))
        return sorted(self.new_names(self.features.find(ids)))

    def learned(self, weights: np.ndarray, kept: Sequence[np.ndarray] = ()) -> np.ndarray:
        """int64 [n]: slots that are not frozen and have a weight other than 0 or learner state.

        ``kept``: the learner's state arrays, float64 [D].
        """
        learned = weights != 0.0
        for array in kept:
            learned |= array != 0.0
        learned[: len(self.first.frozen)] &= ~self.first.frozen
        return self.in_order(np.flatnonzero(learned))

    def in_order(self, slots: np.ndarray) -> np.ndarray:
        """``slots``, ascending, discovered features sorted by id: the same order of features on all ranks."""
        known = int(np.searchsorted(slots, self.first_dynamic_slot))
        late = slots[known:]
        return np.concatenate([slots[:known], late[np.argsort(self.features.ids[late])]])


class InitialModel(NamedTuple):
    """A trained model to begin with."""

    weights: Mapping[str, float]
    scoring: Scoring | None
    """Transforms and bins of the grammar's scores."""


def open_run(job: Job, comm: Comm, stop: StopFlag, quiet: bool, given: InitialModel | None = None) -> TrainingRun:
    """Make the store where it is missing and open all parts of a run.

    ``given`` replaces the job's initial weights and score transforms.
    """
    folder, sources = job.run.store, job_inputs.sources(job)
    for decision in comm.on_root(known_decisions, sources.made):
        LOG.info("%s", decision)
    extract_and_build(comm, sources, folder, folder, LOG.info, partial(progress, rank=comm.rank, quiet=quiet), stop)
    if given is None:
        store = open_fitted(comm, job, sources, folder, LOG.info, stop)
    else:
        store = open_store(sources, folder, given.scoring)
    comm.on_root(_check_store, job, store)
    assert store.train is not None  # checked by config.load.require_data
    grammars = comm.on_root(job_inputs.sentence_grammars, job, sources)
    own = RunFolder(job.run.dir).decoder_folder(f"rank-{comm.rank}")
    decoder = factory.decoder(job, store, own, factory.list_length(job), grammars)
    weights = comm.on_root(factory.initial_weights, job) if given is None else given.weights
    comm.on_root(_warn_of_unknown, job, weights, store.model)
    comm.on_root(log_seen_references, job, sources.lms, store)
    comm.on_root(warn_of_tuned_devtest, job, store)
    if idle := ignored_keys(job):
        LOG.info("keys ignored by this method: %s", ", ".join(idle))
    first = factory.first_weights(job, weights, decoder.features, store.scoring)
    metric, first_sparse = factory.metric(job, store.model.words.words), len(store.model.dense_features())
    learns = factory.learned_in_epochs(job, store.model)
    run = TrainingRun(
        job=job,
        comm=comm,
        folder=RunFolder(job.run.dir),
        stop=stop,
        quiet=quiet,
        store=store,
        corpus=store.train,
        decoder=decoder,
        first=first,
        first_sparse=first_sparse,
        learns=learns,
        learner=factory.learner(job, metric, first.frozen, decoder.features, first_sparse, learns, store.scoring),
        gold=factory.gold(job, metric, store.train.size),
        metric=metric,
        identity=comm.on_root(job_inputs.identity, job, folder) | _identity_of_scores(store),
        first_dynamic_slot=len(decoder.features),
    )
    _warm_up(run)
    return run


def _identity_of_scores(store: Store) -> dict[str, str]:
    """The digest of the bins: it depends on the version of mpitune too."""
    return {"bins of features.discretize": store.scoring.digest} if store.scoring else {}


def _check_store(job: Job, store: Store) -> None:
    for table, corpus in {"data": store.train, "data.devtest": store.devtest}.items():
        if corpus is not None and len(corpus.source) == 0:
            found = "empty lines alone" if corpus.size else "no sentences"
            raise DataError(f"{job.file}: found {found} in [{table}], expected at least one sentence")
        if corpus is not None and len(corpus.reference) == 0 and len(corpus.reference_ptr) > 1:
            raise DataError(f"{job.file}: found only empty references in [{table}], expected translations")


def _warn_of_unknown(job: Job, given: Mapping[str, float], model: TranslationModel | ListModel) -> None:
    """Warn of features that nothing in the job fires: they are harmless, but often misspelt."""
    known = model.fired(job.learner.frozen)
    unknown = [name for name in job.learner.frozen if name not in known]
    if unknown and job.decoder.backend != "cdec":  # which may have features that only it knows
        LOG.warning("learner.frozen: nothing in this job fires %s", ", ".join(unknown))
    where = job.learner.initial_weights or "the given weights"
    if job.learner.initial_weights and not given:
        LOG.warning("%s: found no weights: all are 0", where)
    elif told := unused_weights(given, job, model):
        LOG.warning("%s: %s", where, told)


def _warm_up(run: TrainingRun) -> None:
    """Start the external decoder on all ranks in parallel, and load the kernels on rank 0.

    Kernels are compiled unless an earlier run has cached them: to get them all, the shortest sentence is decoded and
    learned from; the result is discarded.
    """
    LOG.info("%d sentences, %d dense features", run.corpus.size, len(run.store.model.dense_features()))
    if (shards := run.job.parallel.shards) > run.corpus.size and run.comm.root:
        LOG.warning(
            "%d shards for %d sentences: empty shards learn nothing; lower parallel.shards",
            shards,
            run.corpus.size,
        )
    lengths = np.diff(run.corpus.source_ptr)
    i = int(np.argmin(np.where(lengths > 0, lengths, lengths.max() + 1)))
    sentence, weights = run.corpus.sentence(i), run.first.weights

    def learn() -> None:
        kbest = run.decode(i, weights, 0)
        counted = run.metric.statistics(kbest, run.corpus.references(i))
        if isinstance(run.learner, BatchLearner):
            return
        changed = run.grow_to_features(weights.copy())
        run.learner.start_shard(changed)
        run.learner.update(kbest, run.gold.score(counted, len(sentence.words)), changed, np.random.default_rng(0))

    if run.job.decoder.backend == "cdec":
        LOG.info("starting %s on all ranks", resolve_program(run.job.decoder.binary))
        run.decoder.decode(sentence, weights, 1)
    run.comm.on_root(learn)
