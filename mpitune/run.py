"""What a run is made of, and how its state gets to disk and back."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mpitune import assemble
from mpitune.corpus.symbols import FeatureTable
from mpitune.decoder.base import Decoder
from mpitune.discretize import open_fitted, open_scored
from mpitune.errors import DataError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.exchange.mixing import RunningMean
from mpitune.extraction import make_store
from mpitune.grammar.scores import Scoring
from mpitune.identity import changes, without_effect
from mpitune.job import Job
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.pairs.bleu import WIDTH
from mpitune.pairs.gold import Gold
from mpitune.pairs.metrics import Metric
from mpitune.results.checkpoint import Checkpoint, Vector, newest_sound, read_checkpoint, write_checkpoint
from mpitune.results.checkpoint import checkpoint_path as path_of
from mpitune.results.choice import AVERAGING, chosen_epoch, devtest_bleus
from mpitune.results.folder import RunFolder
from mpitune.runtime import StopFlag, progress
from mpitune.store import Corpus, Store

LOG = logging.getLogger(__name__)


class Model(NamedTuple):
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
class Run:
    """What stays the same from epoch to epoch."""

    job: Job
    comm: Comm
    folder: RunFolder
    stop: StopFlag
    quiet: bool
    store: Store
    corpus: Corpus
    decoder: Decoder
    first: assemble.FirstWeights
    learner: OnlineLearner | BatchLearner
    gold: Gold
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
        return assemble.list_length(self.job)

    @property
    def shards_meet(self) -> bool:
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

    def with_room(self, weights: np.ndarray) -> np.ndarray:
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

    def model(self, vector: Vector) -> Model:
        """The weights ``vector`` and the frozen ones, with names."""
        dense = self.dense(vector)
        slots = self.in_order(np.flatnonzero(dense))
        return Model(slots, [self.features.name(slot) for slot in slots.tolist()], dense[slots])

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


@dataclass
class State:
    """What changes from epoch to epoch: all that a resumed run needs to go on as if never interrupted.

    But for what each shard goes on from where shards do not talk (algorithms 1 and 2): that stays where the shard's
    result was written to, for whoever has the shard next.
    """

    start: Vector
    """What every shard starts the next epoch from (algorithms 3 and 4)."""
    learner: tuple[np.ndarray, ...] = ()
    """float64 [n] each: what the learner keeps of the features of `start` beside their weights; none at first."""
    epoch: int = 0
    mean: RunningMean = field(default_factory=RunningMean)
    """The mean over the epochs (algorithms 1 and 2); rank 0 keeps it."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """The metrics of the epochs so far."""
    before: float | None = None
    """Devtest BLEU before training, up to the first epoch, whose metrics keep it."""
    best: np.ndarray = field(default_factory=lambda: np.zeros((0, WIDTH), dtype=np.int32))
    """int32 [sentences, 11]: statistics of the latest epoch's 1-best translations, where gold scores look back."""


class Given(NamedTuple):
    """A model that is there already."""

    weights: Mapping[str, float]
    scoring: Scoring | None
    """What has become of the grammar's scores."""


def open_run(job: Job, comm: Comm, stop: StopFlag, quiet: bool, given: Given | None = None) -> Run:
    """Prepare the store where need be and open everything, to begin with ``given``, if not with what the job says."""
    folder, sources = job.run.store, assemble.sources(job)
    make_store(comm, sources, folder, folder, LOG.info, partial(progress, rank=comm.rank, quiet=quiet), stop)
    if given is None:
        store = open_fitted(comm, job, sources, folder, LOG.info)
    else:
        store = open_scored(comm, sources, folder, given.scoring, LOG.info)
    comm.at_root(lambda: _check_store(job, store))
    assert store.train is not None  # config.require_data sees to it
    grammars = comm.at_root(lambda: assemble.sentence_grammars(job, sources))
    own = RunFolder(job.run.dir).of_decoder(f"rank-{comm.rank}")
    decoder = assemble.decoder(job, store, own, assemble.list_length(job), grammars)
    weights = comm.at_root(lambda: assemble.initial_weights(job)) if given is None else given.weights
    comm.at_root(lambda: _warn_of_unknown(job, weights, decoder.features))
    if idle := without_effect(job):
        LOG.info("nothing in this job looks at %s", ", ".join(idle))
    first = assemble.first_weights(job, weights, decoder.features, store.scoring)
    run = Run(
        job=job,
        comm=comm,
        folder=RunFolder(job.run.dir),
        stop=stop,
        quiet=quiet,
        store=store,
        corpus=store.train,
        decoder=decoder,
        first=first,
        learner=assemble.learner(job, first.frozen, decoder.features, len(store.model.dense_features()), store.scoring),
        gold=assemble.gold(job, store.train.size),
        metric=assemble.metric(job, store.model.words.words),
        identity=comm.at_root(lambda: assemble.identity(job, folder) | _identity_of_scores(store)),
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


def _warm_up(run: Run) -> None:
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
        changed = run.with_room(weights.copy())
        run.learner.start_shard(changed)
        run.learner.update(kbest, run.gold.score(counted, len(sentence.words)), changed, np.random.default_rng(0))

    if run.job.decoder.backend != "embedded":
        run.decoder.decode(sentence, weights, 1)
    run.comm.at_root(learn)


def begin(run: Run, resume: str) -> State:
    """The state to go on from: the newest sound checkpoint, or the start. ``resume``: ``auto``, ``never`` or ``must``.

    Raises UsageError where the checkpoints are of another job, or where there must be one and is none; DataError where
    there are checkpoints and none is sound.
    """
    folder = run.folder.checkpoints
    epoch = run.comm.at_root(lambda: _epoch_to_resume(run, resume))
    if epoch == 0:
        return State(start=run.sparse(run.first.weights), mean=RunningMean(rising=run.averages_sentences))
    checkpoint = read_checkpoint(path_of(folder, epoch))
    run.meet(checkpoint.met)
    LOG.info("going on after epoch %d", epoch)
    return State(
        start=checkpoint.start,
        learner=checkpoint.learner,
        epoch=epoch,
        mean=RunningMean(epoch, *checkpoint.total, rising=run.averages_sentences),
        history=list(checkpoint.metrics["epochs"]),
        best=checkpoint.best,
    )


def _epoch_to_resume(run: Run, resume: str) -> int:
    folder = run.folder.checkpoints
    if resume == "never":
        run.folder.clear()
        return 0
    checkpoint, unsound = newest_sound(folder)
    for error in unsound:
        LOG.warning("%s; left out", error)
    if checkpoint is None:
        if unsound:
            raise DataError(f"{folder}: found no sound checkpoint, expected one; to start over: --resume never")
        if resume == "must":
            raise UsageError(f"{folder}: found no checkpoint, but --resume must asks for one")
        return 0
    if changed := changes(checkpoint.job, json.loads(json.dumps(run.identity))):
        what = ", ".join(changed)
        raise UsageError(f"{run.folder.path}: the job has changed since its last checkpoint: {what}")
    return checkpoint.epoch


def write_epoch(run: Run, state: State, model: Model) -> None:
    """Write the epoch that ``state`` has come to: weights, metrics, last of all the checkpoint. Rank 0 does this."""
    named = model.named
    run.folder.write_weights(run.folder.epoch_weights(state.epoch), named)
    if chosen_epoch(devtest_bleus(state.history)) == state.epoch:
        run.folder.write_weights(run.folder.result, named)
    run.folder.write_metrics(state.history)
    checkpoint = Checkpoint(
        epoch=state.epoch,
        seed=run.job.run.seed,
        job=run.identity,
        metrics={"epochs": state.history},
        weights=(run.features.ids[model.slots], model.value),
        names=model.names,
        start=state.start,
        learner=state.learner,
        shards=0 if run.shards_meet else run.job.parallel.shards,
        total=(state.mean.index, state.mean.total),
        met=sorted(run.met),
        best=state.best,
        scoring=run.store.scoring.as_json() if run.store.scoring else None,
    )
    write_checkpoint(run.folder.checkpoints, checkpoint)
