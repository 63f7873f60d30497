"""The dense start: first weights for all shards, where training begins with none.

Lists that are decoded without weights tell little, each of many small shards would learn something else from them, and
sparse features nothing of use. So rank 0 first passes over a few sentences as algorithm 1 does, with dense features
alone, and all shards begin with the result, what the learner keeps beside the weights included *(ours)*.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from mpitune.exchange.sparse_rows import look_up
from mpitune.learner.base import BatchLearner
from mpitune.run_folder.checkpoint import ShardResult
from mpitune.runtime.progress import progress
from mpitune.training import factory
from mpitune.training.initial_size import fitted_factor
from mpitune.training.scheduler import check_stop, draw_shards
from mpitune.training.session import TrainingRun
from mpitune.training.shard_pass import learn_shard
from mpitune.training.state import State

LOG = logging.getLogger(__name__)


def dense_start(run: TrainingRun, state: State) -> None:
    """Give ``state`` dense weights learned from ``learner.dense_start`` sentences.

    Weights that it has already keep their proportions and get the size at which margins fit (`initial_size`), unless
    some are frozen, or steps do not depend on it. Nothing is kept of all this before the first epoch is done: a run
    that is killed before does it again, to the same bits. Raises StopRequested on every rank where one was asked to
    stop.
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
        state.start, state.learner = (result.index, result.value), result.learner


def _fit_size(run: TrainingRun, state: State, sentences: np.ndarray) -> None:
    wanted = run.job.learner
    if wanted.method != "perceptron" or wanted.rate != "normalized" or wanted.margin == 0 or run.first.frozen.any():
        return
    factor = run.comm.on_root(fitted_factor, run, sentences)
    check_stop(run, "the dense start", factor is None)
    if factor is not None:
        LOG.info("initial weights multiplied by %.3g: their margins fit best so", factor)
        state.start = state.start[0], state.start[1] * factor


def _learn(run: TrainingRun, sentences: np.ndarray) -> ShardResult | None:
    """What a pass over ``sentences`` (int64) makes of the dense features; None where a stop was asked for."""
    features, first_sparse = run.features, len(run.store.model.dense_features())
    frozen = run.first.frozen.copy()
    frozen[first_sparse:] = True
    learner = factory.learner(run.job, frozen, features, first_sparse, run.store.scoring)
    assert not isinstance(learner, BatchLearner)  # `dense_start` sees to it
    with progress("dense start", len(sentences), rank=run.comm.rank, quiet=run.quiet) as told:
        result = learn_shard(run, learner, 0, 0, sentences, run.first.weights.copy(), (), lambda gold: told.advance())
    if result is None:
        return None
    # An external decoder fires features that nobody knew before; these are not frozen.
    dense = np.sort(features.ids[:first_sparse])
    dense = dense[np.isin(dense, result.index)]
    value, *kept = (look_up(dense, result.index, array) for array in (result.value, *result.learner))
    return replace(result, index=dense, value=value, learner=tuple(kept), names=[])
