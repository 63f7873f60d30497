"""A run: its job, data, decoder and learner, opened once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mpitune.config.effective_keys import without_effect
from mpitune.config.spec import Job
from mpitune.corpus.vocabulary import FeatureTable
from mpitune.decoder.base import Decoder
from mpitune.errors import DataError
from mpitune.exchange.comm import Comm
from mpitune.grammar.score_transforms import Scoring
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.metrics.tuning_metric import Metric
from mpitune.run_folder.best_epoch import AVERAGING
from mpitune.run_folder.checkpoint import Vector
from mpitune.run_folder.layout import RunFolder
from mpitune.runtime.progress import progress
from mpitune.runtime.signals import StopFlag
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.store import Corpus, Store
from mpitune.training import factory
from mpitune.training.fit_bins import open_fitted, open_scored

LOG = logging.getLogger(__name__)


class NamedWeights(NamedTuple):
    """What an epoch publishes, by name: weights other than 0."""

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
    """What stays the same from epoch to epoch."""

    job: Job
    comm: Comm
    folder: RunFolder
    stop: StopFlag
    quiet: bool
    store: Store
    corpus: Corpus
    decoder: Decoder
    first: factory.FirstWeights
    learner: OnlineLearner | BatchLearner
    gold: SentenceMetric
    metric: Metric
    """What batch methods keep the statistics of."""
    identity: dict[str, Any]
    """What the result depends on."""
    known: int
    """Slots from here on are those of features that nobody knew before; each rank has met some, in its own order."""
    met: set[str] = field(default_factory=set)
    """The names of those that all ranks know by now: of all that an epoch's weights have named."""

    @property
    def features(self) -> FeatureTable:
        return self.decoder.features

    @property
    def kbest(self) -> int:
        """How many translations of each sentence are learned from."""
        return factory.list_length(self.job)

    @property
    def mixes_each_epoch(self) -> bool:
        """Whether all shards start an epoch from common weights."""
        return self.job.learner.algorithm not in AVERAGING

    @property
    def averages_sentences(self) -> bool:
        """Whether an epoch ends with mean weights over its sentences, and not with those of its last moment."""
        return self.job.learner.averaging == "sentence"

    def meet(self, names: Iterable[str]) -> None:
        """All ranks get to know these features; each gives them slots."""
        for name in sorted(set(names) - self.met):
            self.features.slot(name)
            self.met.add(name)

    def grow_to_features(self, weights: np.ndarray) -> np.ndarray:
        """``weights`` (float64, by slot), longer where the decoder has met features since: they begin with weight 0."""
        new = len(self.features) - len(weights)
        return np.concatenate([weights, np.zeros(new)]) if new else weights

    def dense(self, vector: Vector) -> np.ndarray:
        """float64 [D]: a sparse vector by slot; frozen features have their initial weights."""
        weights = self.by_slot(vector)
        frozen = np.flatnonzero(self.first.frozen)
        weights[frozen] = self.first.weights[frozen]
        return weights

    def by_slot(self, vector: Vector) -> np.ndarray:
        """float64 [D]: a sparse vector of anything by slot."""
        values = np.zeros(len(self.features))
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
        """The names of the features of ``slots`` that nobody knew before."""
        return [self.features.name(slot) for slot in slots[slots >= self.known].tolist()]

    def learned(self, weights: np.ndarray, kept: Sequence[np.ndarray] = ()) -> np.ndarray:
        """int64 [n]: the slots that are not frozen and have a weight other than 0, or have moved.

        ``kept``: what the learner keeps beside the weights; a feature has moved that has squared gradients.
        """
        learned = weights != 0.0
        if kept:
            learned |= kept[0] != 0.0
        learned[: len(self.first.frozen)] &= ~self.first.frozen
        return self.in_order(np.flatnonzero(learned))

    def in_order(self, slots: np.ndarray) -> np.ndarray:
        """Ascending ``slots``, those of features that nobody knew before by their ids: in one order on all ranks."""
        known = int(np.searchsorted(slots, self.known))
        late = slots[known:]
        return np.concatenate([slots[:known], late[np.argsort(self.features.ids[late])]])


class InitialModel(NamedTuple):
    """A model that is there already."""

    weights: Mapping[str, float]
    scoring: Scoring | None
    """What has become of the grammar's scores."""


def open_run(job: Job, comm: Comm, stop: StopFlag, quiet: bool, given: InitialModel | None = None) -> TrainingRun:
    """Prepare the store where need be and open everything, to begin with ``given``, if not with what the job says."""
    folder, sources = job.run.store, factory.sources(job)
    extract_and_build(comm, sources, folder, folder, LOG.info, partial(progress, rank=comm.rank, quiet=quiet), stop)
    if given is None:
        store = open_fitted(comm, job, sources, folder, LOG.info)
    else:
        store = open_scored(comm, sources, folder, given.scoring, LOG.info)
    comm.on_root(_check_store, job, store)
    assert store.train is not None  # config.require_data sees to it
    grammars = comm.on_root(factory.sentence_grammars, job, sources)
    own = RunFolder(job.run.dir).of_decoder(f"rank-{comm.rank}")
    decoder = factory.decoder(job, store, own, factory.list_length(job), grammars)
    weights = comm.on_root(factory.initial_weights, job) if given is None else given.weights
    comm.on_root(_warn_of_unknown, job, weights, decoder.features)
    if idle := without_effect(job):
        LOG.info("nothing in this job looks at %s", ", ".join(idle))
    first = factory.first_weights(job, weights, decoder.features, store.scoring)
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
        learner=factory.learner(job, first.frozen, decoder.features, len(store.model.dense_features()), store.scoring),
        gold=factory.gold(job, store.train.size),
        metric=factory.metric(job, store.model.words.words),
        identity=comm.on_root(factory.identity, job, folder) | _identity_of_scores(store),
        known=len(decoder.features),
    )
    _warm_up(run)
    return run


def _identity_of_scores(store: Store) -> dict[str, str]:
    """What the bins are depends on this mpitune, too."""
    return {"bins of features.discretize": store.scoring.digest} if store.scoring else {}


def _check_store(job: Job, store: Store) -> None:
    for table, corpus in {"data": store.train, "data.devtest": store.devtest}.items():
        if corpus is not None and len(corpus.source) == 0:
            raise DataError(f"{job.file}: found no sentences in [{table}], expected at least one")
        if corpus is not None and len(corpus.reference) == 0:
            raise DataError(f"{job.file}: found only empty references in [{table}], expected translations")


def _warn_of_unknown(job: Job, given: Mapping[str, float], features: FeatureTable) -> None:
    """Features that nothing fires do no harm, but are often misspelt, or those of other data."""
    if job.decoder.backend != "embedded":
        return  # It may have features of its own.
    if unknown := [name for name in job.learner.frozen if name not in features]:
        LOG.warning("learner.frozen: nothing in this job fires %s", ", ".join(unknown))
    if given and not any(name in features for name in given):
        where = job.learner.initial_weights or "the given weights"
        LOG.warning("%s: nothing in this job fires any of its features", where)


def _warm_up(run: TrainingRun) -> None:
    """Start what takes long to start: the external decoder, on all ranks side by side; kernels, on one.

    These are compiled, or loaded from where an earlier run left them. The shortest sentence is learned from, and
    forgotten.
    """
    LOG.info("%d sentences, %d features", run.corpus.size, len(run.features))
    if (shards := run.job.parallel.shards) > run.corpus.size and run.comm.root:
        LOG.warning("%d shards for %d sentences: those that are empty count in every mean", shards, run.corpus.size)
    lengths = np.diff(run.corpus.source_ptr)
    i = int(np.argmin(np.where(lengths > 0, lengths, lengths.max() + 1)))
    sentence, weights = run.corpus.sentence(i), run.first.weights

    def learn() -> None:
        LOG.info("loading kernels (compiled once, which takes about a minute)")
        kbest = run.decoder.decode(sentence, weights, run.kbest)
        counted = run.metric.statistics(kbest, run.corpus.references(i))
        if isinstance(run.learner, BatchLearner):
            return
        changed = run.grow_to_features(weights.copy())
        run.learner.start_shard(changed)
        run.learner.update(kbest, run.gold.score(counted, len(sentence.words)), changed, np.random.default_rng(0))

    if run.job.decoder.backend != "embedded":
        run.decoder.decode(sentence, weights, 1)
    run.comm.on_root(learn)
