"""The dense start: initial weights for all shards if training begins with zero weights.

Lists decoded with zero weights say little: small shards would learn different weights from them, and sparse features
nothing useful. So rank 0 first makes a pass over a few sentences with the dense features alone (algorithm 1), and all
shards start from the resulting weights and learner state. From such lists a pass may learn nothing at all; then it is
followed by another one. A choice of this implementation.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mpitune.exchange.sparse_rows import look_up
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.run_folder.checkpoint import ShardResult
from mpitune.runtime.progress import progress
from mpitune.training import factory
from mpitune.training.initial_size import fitted_factor
from mpitune.training.scheduler import check_stop, draw_shards
from mpitune.training.session import TrainingRun
from mpitune.training.shard_pass import learn_shard
from mpitune.training.state import State

LOG = logging.getLogger(__name__)

MOST_PASSES = 3
LEAST_SENTENCES = 100
"""Fewer sentences are too few to tell if a pass has learned something."""


def dense_start(run: TrainingRun, state: State) -> None:
    """Set the weights of ``state`` to dense weights learned from ``learner.dense_start`` sentences.

    Initial weights other than zero are only scaled (`initial_size`), unless some are frozen or the step size does not
    depend on their scale. Nothing is written before the first epoch ends: a run that is killed earlier repeats this
    and gets the same bits. Raises StopRequested on every rank if one was asked to stop.
    """
    count = min(run.job.learner.dense_start, run.corpus.size)
    if count == 0 or isinstance(run.learner, BatchLearner):
        return
    sentences = draw_shards(run.corpus.size, 1, run.job.run.seed, 0)[0][:count]
    if run.first.weights.any():
        _fit_size(run, state, sentences)
        return
    LOG.info("dense start: learning first weights from %d sentences", count)
    result = run.comm.on_root(_learn, run, sentences)
    check_stop(run, "the dense start", result is None)
    if result is not None:
        state.shared_weights, state.learner = (result.index, result.value), result.learner


def _fit_size(run: TrainingRun, state: State, sentences: np.ndarray) -> None:
    wanted = run.job.learner
    if wanted.method != "perceptron" or wanted.rate != "normalized" or wanted.margin == 0 or run.first.frozen.any():
        return
    factor = run.comm.on_root(fitted_factor, run, sentences)
    check_stop(run, "the dense start", factor is None)
    if factor is not None:
        LOG.info("initial weights multiplied by %.3g, the scale that fits their margins best", factor)
        state.shared_weights = state.shared_weights[0], state.shared_weights[1] * factor


def _learn(run: TrainingRun, sentences: np.ndarray) -> ShardResult | None:
    """Result of a pass over ``sentences`` (int64) with dense features alone; None if a stop was requested."""
    features, first_sparse = run.features, len(run.store.model.dense_features())
    run = replace(run, decoder=factory.without_templates(run.job, run.store, run.decoder))
    frozen = run.first.frozen.copy()
    frozen[first_sparse:] = True
    learner = factory.learner(run.job, run.metric, frozen, features, first_sparse, run.store.scoring)
    assert not isinstance(learner, BatchLearner)  # `dense_start` sees to it
    result, gold = _pass(run, learner, sentences, run.first.weights.copy(), ())
    for _ in range(MOST_PASSES - 1):
        if result is None or _has_learned(run, sentences, gold):
            break
        LOG.info("dense start: translations are no better than with weights of 0, so there is another pass")
        weights = run.dense((result.index, result.value))
        state = [run.by_slot((result.index, array)) for array in result.learner]
        result, gold = _pass(run, learner, sentences, weights, state)
    if result is None:
        return None
    # An external decoder fires features that are discovered while decoding; these are not frozen.
    dense = np.sort(features.ids[:first_sparse])
    dense = dense[np.isin(dense, result.index)]
    value, *kept = (look_up(dense, result.index, array) for array in (result.value, *result.learner))
    return replace(result, index=dense, value=value, learner=tuple(kept), names=[])


def _pass(
    run: TrainingRun, learner: OnlineLearner, sentences: np.ndarray, weights: np.ndarray, state: Sequence[np.ndarray]
) -> tuple[ShardResult | None, list[float]]:
    """As `learn_shard`, and the gold score of each sentence's best translation."""
    gold = list[float]()
    with progress("dense start", len(sentences), rank=run.comm.rank, quiet=run.quiet) as shown:

        def advance(score: float) -> None:
            gold.append(score)
            shown.advance()

        return learn_shard(run, learner, 0, 0, sentences, weights, state, advance), gold


def _has_learned(run: TrainingRun, sentences: np.ndarray, gold: Sequence[float]) -> bool:
    """Test if the last quarter of the scores ``gold`` is better than those with the initial weights."""
    if len(sentences) < LEAST_SENTENCES:
        return True
    some = len(sentences) // 4
    weights, before = run.grow_to_features(run.first.weights), list[float]()
    for i in sentences[-some:].tolist():
        best = run.decoder.decode(run.corpus.sentence(i), weights, 1)
        before.append(run.gold.report(run.metric.statistics(best, run.corpus.references(i))))
    return is_better(np.array(gold[-some:]), np.array(before))


def is_better(gold: np.ndarray, before: np.ndarray) -> bool:
    """Test if ``gold`` (float64 [n]) is above ``before`` by more than twice the standard error of the difference."""
    gain = gold - before
    return bool(gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain)))
