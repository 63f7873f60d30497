"""The dense start: initial weights for all shards if training begins with zero weights.

Small shards would learn different weights from lists decoded with zero weights, and sparse features nothing useful. So
rank 0 first makes a pass over a few sentences with the dense features alone (algorithm 1), and all shards start from
the resulting weights and learner state. With zero weights all derivations are equal, and lists hold long, meaningless
translations, from which a pass may learn nothing; so it begins with a weight for the language models alone. A choice of
this implementation.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import numpy as np

from mpitune.decoder.base import TranslationModel
from mpitune.exchange.sparse_rows import look_up
from mpitune.learner.base import BatchLearner
from mpitune.lm.ngram_table import mean_unigram
from mpitune.run_folder.checkpoint import ShardResult
from mpitune.runtime.progress import progress
from mpitune.training import factory
from mpitune.training.initial_size import fitted_factor
from mpitune.training.scheduler import check_stop, draw_shards
from mpitune.training.session import TrainingRun
from mpitune.training.shard_pass import learn_shard
from mpitune.training.state import State

LOG = logging.getLogger(__name__)

LM_WEIGHT = 0.1
"""Weight of a language model's log10 probability at the start, if the model is of usual `UNIGRAM` size. As it is the
only weight, its value does not change the first lists, only how soon those that follow depend on what is learned."""
UNIGRAM = 4.0
"""Usual size of a model's mean log10 probability of a unigram, which grows with the vocabulary: 3 to 6."""


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
    with progress("dense start", len(sentences), rank=run.comm.rank, quiet=run.quiet) as shown:
        result = learn_shard(run, learner, 0, 0, sentences, _first_weights(run), (), lambda gold: shown.advance())
    if result is None:
        return None
    # An external decoder fires features that are discovered while decoding; these are not frozen.
    dense = np.sort(features.ids[:first_sparse])
    dense = dense[np.isin(dense, result.index)]
    value, *kept = (look_up(dense, result.index, array) for array in (result.value, *result.learner))
    return replace(result, index=dense, value=value, learner=tuple(kept), names=[])


def _first_weights(run: TrainingRun) -> np.ndarray:
    """float64 [D]: a weight for each language model, unless it is frozen, and else 0."""
    weights, model = run.first.weights.copy(), run.store.model
    if isinstance(model, TranslationModel):
        dense = model.dense_features()
        # An external decoder reads its models itself: these are taken to be of usual size.
        sizes = [-mean_unigram(lm) for lm, _ in model.lms] or [UNIGRAM] * len(model.lm_names)
        for name, size in zip(model.lm_names, sizes, strict=True):
            slot = dense.index(name)
            if not run.first.frozen[slot]:
                weights[slot] = lm_weight(size)
    return weights


def lm_weight(size: float) -> float:
    """`LM_WEIGHT`, times the power of 10 that fits a model whose mean log10 probability of a unigram is -``size``.

    Scores may come in any unit, such as natural logarithms or hundredths. Within a power of 10 it hardly matters.
    """
    return LM_WEIGHT * 10.0 ** round(math.log10(UNIGRAM / size)) if size > 0 else LM_WEIGHT
