"""The dense start: weights of the dense features, learned before the epochs.

- Small shards would learn different weights from lists decoded with zero weights. So rank 0 first makes a pass over a
  few sentences (algorithm 1), and all shards start from the resulting weights and learner state.
- Sparse features are learned after dense ones, whose weights the epochs then leave as they are. Learned together, the
  sparse features soon explain the tuned sentences, and the dense ones, learned from such lists, are worse on others.

With zero weights all derivations are equal, and lists hold long, meaningless translations, from which a pass may learn
nothing; so it begins with a weight for the language models alone. Choices of this implementation.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from mpitune.decoder.base import TranslationModel
from mpitune.exchange.sparse_rows import look_up
from mpitune.learner.base import BatchLearner
from mpitune.lm.log_scale import log_scale
from mpitune.run_folder.checkpoint import ShardResult
from mpitune.runtime.progress import progress
from mpitune.training import factory
from mpitune.training.devtest import score_devtest
from mpitune.training.initial_size import fitted_factor
from mpitune.training.scheduler import check_stop, draw_shards, reordered
from mpitune.training.session import TrainingRun
from mpitune.training.shard_pass import learn_shard
from mpitune.training.state import State

LOG = logging.getLogger(__name__)

SHORT = 200
"""Sentences of a dense start, at most, if the epochs go on learning the dense features."""
PASSES = 10
"""A small set is passed over so many times at most."""
LM_WEIGHT = 0.1
"""Weight of a language model's log10 probability at the start. As it is the only weight, its value does not change the
first lists, only how soon those that follow depend on what is learned."""


def dense_start(run: TrainingRun, state: State) -> None:
    """Set the weights of ``state`` to dense weights learned from ``learner.dense_start`` sentences.

    Initial weights other than zero are scaled first (`initial_size`), unless some are frozen or the step size does not
    depend on their scale; the dense ones are learned from there only if the epochs do not learn them. Then the devtest
    set is scored with them, for comparison with the epochs, and they are written. A run that is killed before the first
    epoch ends repeats this and gets the same bits. Raises StopRequested on every rank if one was asked to stop.
    """
    wanted, size = run.job.learner.dense_start, run.corpus.size
    if wanted == 0 or isinstance(run.learner, BatchLearner):
        return
    given, few = bool(run.first.weights.any()), _sentences(run, min(wanted, SHORT, size))
    if given:
        _fit_size(run, state, few)
    if run.learns == "sparse":
        if not run.first.frozen[: run.first_sparse].all():
            result = _learned(run, state, _sentences(run, min(wanted, PASSES * size)))
            run.freeze_dense((result.index, result.value))
            state.shared_weights = run.sparse(run.dense(state.shared_weights))
            state.dense_start = score_devtest(run, state.shared_weights, "after the dense start").bleu
            if state.dense_start is not None:
                run.comm.on_root(_write, run, state)
                LOG.info("before sparse features are learned: devtest BLEU %.2f", state.dense_start)
    elif not given:
        result = _learned(run, state, few)
        state.shared_weights, state.learner = (result.index, result.value), result.learner


def _write(run: TrainingRun, state: State) -> None:
    run.folder.write_weights(run.folder.dense_start_weights, run.model(state.shared_weights).named)


def _learned(run: TrainingRun, state: State, sentences: np.ndarray) -> ShardResult:
    """The result of `_learn`, on all ranks; raises StopRequested."""
    LOG.info("dense start: learning the weights of dense features from %d sentences", len(sentences))
    result = run.comm.on_root(_learn, run, state, sentences)
    check_stop(run, "the dense start", result is None)
    assert result is not None  # a rank that was stopped has raised
    return result


def _sentences(run: TrainingRun, count: int) -> np.ndarray:
    """int64 [count]: numbers of sentences in random order, all of them before any is repeated."""
    size, seed = run.corpus.size, run.job.run.seed
    first = draw_shards(size, 1, seed, 0)
    passes = [first, *(reordered(first, seed, n) for n in range(1, -(-count // size)))]
    return np.concatenate([order for [order] in passes])[:count]


def _fit_size(run: TrainingRun, state: State, sentences: np.ndarray) -> None:
    wanted = run.job.learner
    if wanted.method != "perceptron" or wanted.rate != "normalized" or wanted.margin == 0 or run.first.frozen.any():
        return
    factor = run.comm.on_root(fitted_factor, run, sentences)
    check_stop(run, "the dense start", factor is None)
    if factor is not None:
        LOG.info("initial weights multiplied by %.3g, the scale that fits their margins best", factor)
        state.shared_weights = state.shared_weights[0], state.shared_weights[1] * factor


def _learn(run: TrainingRun, state: State, sentences: np.ndarray) -> ShardResult | None:
    """Result of a pass over ``sentences`` (int64) that learns the dense features; None if a stop was requested.

    It has the dense features alone; initial weights of sparse ones count in the pass, and stay as they are.
    """
    weights = run.dense(state.shared_weights)
    if not weights.any():
        _weight_language_models(run, weights)
    if not weights[run.first_sparse :].any():
        run = replace(run, decoder=factory.without_templates(run.job, run.store, run.decoder))
    features, scoring = run.features, run.store.scoring
    learner = factory.learner(run.job, run.metric, run.first.frozen, features, run.first_sparse, "dense", scoring)
    assert not isinstance(learner, BatchLearner)  # `dense_start` sees to it
    with progress("dense start", len(sentences), rank=run.comm.rank, quiet=run.quiet) as shown:
        result = learn_shard(run, learner, 0, 0, sentences, weights, (), lambda gold: shown.advance())
    if result is None:
        return None
    dense = np.sort(features.ids[: run.first_sparse])
    dense = dense[np.isin(dense, result.index)]
    value, *kept = (look_up(dense, result.index, array) for array in (result.value, *result.learner))
    return replace(result, index=dense, value=value, learner=tuple(kept), names=[])


def _weight_language_models(run: TrainingRun, weights: np.ndarray) -> None:
    """Give each language model a weight in ``weights`` (float64 [D]), unless it is frozen."""
    model = run.store.model
    if isinstance(model, TranslationModel):
        dense = model.dense_features()
        # An external decoder reads its models itself: they are taken to have log10 probabilities.
        scales = [log_scale(lm) for lm, _ in model.lms] or [1.0] * len(model.lm_names)
        for name, scale in zip(model.lm_names, scales, strict=True):
            slot = dense.index(name)
            if not run.first.frozen[slot]:
                weights[slot] = LM_WEIGHT * scale
