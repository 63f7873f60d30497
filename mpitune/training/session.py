"""A run: its job, data, decoder and learner, opened once by `mpitune.training.open_run`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mpitune.config.spec import Job
from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import Decoder, ForestDecoder, KBest, PackedForest
from mpitune.exchange.comm import Comm
from mpitune.learner.base import BatchLearner
from mpitune.learner.methods import LearnedFeatures
from mpitune.learner.online.after_updates import Composed
from mpitune.learner.weights import Weights
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.metrics.tuning_metric import Metric
from mpitune.run_folder.checkpoint import digest
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.run_state import AVERAGING
from mpitune.runtime.signals import stop_flag
from mpitune.store.store import Corpus, Store
from mpitune.training import factory
from mpitune.training.list_pass import ListPass, list_pass

LOG = logging.getLogger(__name__)

_AT_ONCE = 1 << 18
"""Features whose names are exchanged at a time: as strings they take much memory."""
_SAMPLING = 1
"""Tells the random numbers of sampling from those of the learner, which is seeded by seed, epoch and sentence."""


class ScoredList(NamedTuple):
    """A list to learn from."""

    number: int
    """The sentence's number."""
    source: np.ndarray
    """int32: its words."""
    kbest: KBest
    statistics: np.ndarray
    """int64 [k, width]: counts of the metric."""
    gold: np.ndarray
    """float64 [k]: gold scores."""
    best: float
    """Gold score of the 1-best, as it is reported."""
    forest: PackedForest | None = None


@dataclass
class TrainingRun:
    """The parts of a run that all epochs use. Only `first` changes: the start of the epochs may freeze features."""

    job: Job
    comm: Comm
    folder: RunFolder
    store: Store
    corpus: Corpus
    decoder: Decoder
    first: Weights
    """Initial weights and frozen features."""
    learns: LearnedFeatures
    """The features that the epochs learn."""
    learner: Composed | BatchLearner
    gold: SentenceMetric
    metric: Metric
    """The metric that the learner optimises."""
    identity: dict[str, Any]
    """The keys and input digests that the result depends on."""

    @cached_property
    def identity_digest(self) -> str:
        """The digest of `identity`, which the files of the run's shards carry."""
        return digest(self.identity)

    @cached_property
    def list_pass(self) -> ListPass | None:
        """Learns from many lists at a time, where that is possible; to be asked for once the metric is scaled."""
        return list_pass(self.learner, self.decoder, self.corpus, self.metric, self.gold)

    @property
    def online(self) -> Composed:
        """The learner of a run that updates the weights after each list."""
        assert isinstance(self.learner, Composed)
        return self.learner

    @property
    def features(self) -> FeatureTable:
        return self.first.features

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

    def lists(
        self, sentences: np.ndarray, weights: Weights, epoch: int, *, forests: bool = False, resumable: bool = True
    ) -> Iterator[ScoredList]:
        """The lists to learn from of training ``sentences`` (int64) under ``weights``, which may change between them.

        ``epoch``: 0 before the first; ``forests``: with forests. Raises StopRequested if a stop was requested, which
        tells whether it is ``resumable``.
        """
        self.gold.start_shard()
        for i in sentences.tolist():
            self.check_stop(epoch, resumable=resumable)
            sentence, forest = self.corpus.sentence(i), None
            if forests:
                assert isinstance(self.decoder, ForestDecoder)  # checked by config.checks
                kbest, forest = self.decoder.decode_all(self.store.tuned_sentence(i), weights.value, self.kbest)
            else:
                kbest = self.decode(i, weights, epoch)
            counted = self.metric.statistics(kbest, self.corpus.references(i))
            gold = self.gold.score(counted, len(sentence.words), i)
            self.gold.update_context(counted, len(sentence.words))
            yield ScoredList(i, sentence.words, kbest, counted, gold, self.gold.report(counted), forest)

    def check_stop(self, epoch: int, *, resumable: bool = True) -> None:
        """Raise StopRequested if a stop was requested, in ``epoch``, 0 before the first; it tells if ``resumable``."""
        if stop_flag():
            task = f"epoch {epoch}" if epoch else "the dense start"
            raise stop_flag().stop_error(task, resumable=resumable)

    def decode(self, i: int, weights: Weights, epoch: int) -> KBest:
        """The list to learn from of training sentence ``i`` under ``weights``: the k best, or sampled from its forest.

        What is sampled depends on the run's seed, ``epoch`` and sentence only. ``weights`` get room for the features
        that are discovered.
        """
        sentence = self.store.tuned_sentence(i)
        if self.job.decoder.sample == "none":
            kbest = self.decoder.decode(sentence, weights.value, self.kbest)
        else:
            assert isinstance(self.decoder, ForestDecoder)  # checked by config.checks
            random = np.random.default_rng([self.job.run.seed, epoch, i, _SAMPLING])
            kbest = self.decoder.sample(sentence, weights.value, self.kbest, random)
        weights.grow()
        return kbest
