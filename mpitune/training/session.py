"""A run: its job, data, decoder and learner, opened once by `mpitune.training.open_run`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.config.spec import Job
from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import Decoder, ForestDecoder, KBest
from mpitune.exchange.comm import Comm
from mpitune.exchange.sparse_rows import look_up
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.learner.methods import LearnedFeatures
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.metrics.tuning_metric import Metric
from mpitune.run_folder.checkpoint import Vector, digest
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.run_state import AVERAGING
from mpitune.store.store import Corpus, Store
from mpitune.training import factory

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
    """The parts of a run that all epochs use. Only `first` changes: the start of the epochs may freeze features."""

    job: Job
    comm: Comm
    folder: RunFolder
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
    first_unshared_slot: int
    """First slot of features discovered while decoding sentences; their order differs from rank to rank."""

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
        assert isinstance(self.decoder, ForestDecoder)  # checked by config.checks
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
        """float64 [D]: the sparse vector ``vector``, of features that this rank knows, by slot."""
        values, slots = np.zeros(self._slots), self.features.find(vector[0])
        if (slots < 0).any():
            raise KeyError(f"{np.count_nonzero(slots < 0)} features of a vector are unknown")
        values[slots] = vector[1]
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
        return [self.features.name(slot) for slot in slots[slots >= self.first_unshared_slot].tolist()]

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
        known = int(np.searchsorted(slots, self.first_unshared_slot))
        late = slots[known:]
        return np.concatenate([slots[:known], late[np.argsort(self.features.ids[late])]])
