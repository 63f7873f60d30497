"""Learning of a sentence's own weights from the training sentences retrieved for it.

Liu, Cao, Watanabe, Zhao, Yu and Zhu (EMNLP-CoNLL 2012; the paper). Algorithm 2 updates the global weights by stored
lists; the paper names several rounds of decoding as possible. Algorithm 1 trains from the development set and the
retrieved sentences together, which are decoded in every epoch: the paper calls it impractical and does not run it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from mpitune.config.spec import Job
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import Sentence
from mpitune.learner.base import BatchLearner, Reply, ShardObjective
from mpitune.learner.local.examples import Examples, TrainingLists, Update
from mpitune.learner.pool import NBestPool, empty, merged, pool_of
from mpitune.learner.weights import Weights
from mpitune.metrics.tuning_metric import Metric
from mpitune.store.store import Corpus
from mpitune.training import factory
from mpitune.training.batch_epoch import feature_space, objective
from mpitune.training.scheduler import draw_shards
from mpitune.training.session import TrainingRun

Source = tuple[Sentence, list[np.ndarray]]
"""A sentence with its references."""


class Learned(NamedTuple):
    """The weights learned for a sentence."""

    ids: np.ndarray
    """uint64 [n]: ids of the features whose weights may have changed."""
    update: Update
    """The changes of their weights (float64 [n])."""


Learn = Callable[[np.ndarray], Learned]
"""Learns from the training sentences of these numbers (int64 [k]), the nearest first."""


@dataclass(frozen=True)
class TrainingData:
    """Training data with their lists."""

    run: TrainingRun
    """Its initial weights are the global ones."""
    pools: Sequence[NBestPool]
    """The lists under the global weights, in order; none if they are not needed."""
    lists_of: Callable[[Sequence[NBestPool]], TrainingLists]
    """Examples of other lists, with the same global weights."""
    names: list[str]
    """Names of the features in the lists that were discovered while decoding."""
    lists: TrainingLists
    """Examples of `pools`."""

    @property
    def corpus(self) -> Corpus:
        return self.run.corpus

    @property
    def words(self) -> Vocabulary:
        return self.run.store.model.words


def learner(job: Job, training: TrainingData) -> Learn:
    """The local training that ``[local]`` of ``job`` asks for."""
    if job.local.method == "retrain":
        return partial(retrained, training.run, job)
    return partial(updated, training, factory.local_update(job), job.local.rounds)


def updated(
    training: TrainingData, update: Callable[[Examples], Update], rounds: int, sentences: np.ndarray
) -> Learned:
    """The ``update`` of the global weights by the lists of ``sentences`` (int64 [k]).

    In each of ``rounds`` but the first, the sentences are decoded with the weights of the round before; the update
    starts again from the global weights, and learns from the lists of all rounds.
    """

    def learned(lists: TrainingLists, chosen: np.ndarray) -> Learned:
        examples = lists.examples(chosen)
        return Learned(lists.feature_id[examples.feature], update(examples))

    found = learned(training.lists, sentences)
    if rounds == 1:
        return found
    run, pool = training.run, training.lists.pool(sentences)
    occurring, feature = np.unique(pool.feature, return_inverse=True)
    pool = pool._replace(feature=feature.astype(np.int32), feature_id=pool.feature_id[occurring])
    sources = _tuned(run, sentences)
    for _ in range(rounds - 1):
        weights = run.first.copy()
        weights.value[run.features.find(found.ids)] += found.update.change
        pool = merged(pool, _decoded(run, run.metric, sources, weights))
        found = learned(training.lists_of([pool]), np.arange(len(sources)))
    return found


def retrained(run: TrainingRun, job: Job, sentences: np.ndarray) -> Learned:
    """Algorithm 1: weights trained by the batch learner of ``job`` on its devtest set and ``sentences`` (int64 [k]).

    Training takes ``learner.epochs`` epochs and starts from the global weights *(ours)*. The reported objective and
    steps are those of the last epoch. The weights are to the bit those of the command `train` on these sentences in
    one shard: their order and all random numbers are the same.
    """
    development, words = run.store.devtest, run.store.model.words.words
    assert development is not None  # checked by config.checks.check_retraining
    both = [(development.sentence(i), development.references(i)) for i in range(development.size)]
    both += _tuned(run, sentences)
    [order] = draw_shards(len(both), 1, job.run.seed, 0)
    sources = [both[i] for i in order.tolist()]
    metric = factory.metric(job, words)
    tuner = factory.learner(job, metric, run.store.scoring)
    assert isinstance(tuner, BatchLearner)  # checked by config.checks.check_retraining
    pool, weights = empty(len(sources), metric.width), run.first.copy()
    for epoch in range(1, job.learner.epochs + 1):
        pool = merged(pool, _decoded(run, metric, sources, weights))
        weights.grow()
        space = feature_space(tuner, weights, pool.feature_id)
        part = objective(tuner, space, pool, None, [job.run.seed, epoch], order)
        random = np.random.default_rng([job.run.seed, epoch])
        tuned = tuner.optimise(space.weights, space.free, partial(_evaluate, part), random)
        weights.value[run.features.find(space.ids)] = tuned.weights
    change = weights.value.copy()
    change[: len(run.first.value)] -= run.first.value
    moved = np.flatnonzero(change)
    return Learned(run.features.ids[moved], Update(change[moved], tuned.objective, tuned.steps, None))


def _evaluate(part: ShardObjective, point: np.ndarray) -> Iterator[Reply]:
    return iter([part.evaluate(point)])


def _tuned(run: TrainingRun, sentences: np.ndarray) -> list[Source]:
    return [(run.store.tuned_sentence(i), run.corpus.references(i)) for i in sentences.tolist()]


def _decoded(run: TrainingRun, metric: Metric, sources: Sequence[Source], weights: Weights) -> NBestPool:
    """The lists of ``sources`` under ``weights``."""
    lists = []
    for sentence, references in sources:
        kbest = run.decoder.decode(sentence, weights.value, run.kbest)
        lists.append((kbest, metric.statistics(kbest, references)))
    return pool_of(lists, run.features.ids, metric.width)
