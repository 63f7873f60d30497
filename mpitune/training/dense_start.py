"""The dense start: weights of the dense features, learned before the epochs.

- Small shards would learn different weights from lists decoded with zero weights. So rank 0 first makes a pass over a
  few sentences, and all shards start from the resulting weights and learner state; from given weights, with the state
  alone: in the unit of its first lists, which may hardly differ in a feature, a shard's first steps would destroy them.
- Sparse features are learned after dense ones, whose weights the epochs then leave as they are. Learned together, the
  sparse features soon explain the tuned sentences, and the dense ones, learned from such lists, are worse on others.
  Rank 0 learns the dense ones by algorithm 1, with one shard: passes over the tuned sentences, whose means are scored
  on the devtest set, as epochs are. The best one is kept, the last one without a devtest set.

With zero weights all derivations are equal, and lists hold long, meaningless translations, from which a pass may learn
nothing; so it begins with a weight for the language models alone. Choices of this implementation.

Before it, given initial weights are scaled. Weights of another program rank translations well, but their scale is
arbitrary: with large weights all margins are satisfied and steps hardly change them. Ranking does not depend on the
scale. So the weights are multiplied by the factor with the least hinge loss on the lists of a few sentences *(ours)*.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from mpitune.corpus.progress import Progress
from mpitune.decoder.base import TranslationModel, check_failed
from mpitune.exchange.mixing import RunningMean
from mpitune.learner.base import BatchLearner, EvidenceLearner
from mpitune.learner.weights import SparseWeights, Weights
from mpitune.lm.log_scale import log_scale
from mpitune.run_folder.checkpoint import ShardResult
from mpitune.run_folder.run_state import chosen_epoch
from mpitune.training import factory
from mpitune.training.devtest import score_devtest
from mpitune.training.epoch_statistics import Scores
from mpitune.training.online_epoch import keep_shard, kept_shard, learn_shard
from mpitune.training.scheduler import draw_shards, reordered
from mpitune.training.session import TrainingRun
from mpitune.training.state import State

LOG = logging.getLogger(__name__)

LEARNING = "dense start: learning the weights of dense features from %d sentences%s"
SHORT = 200
"""Sentences of a dense start, at most, if the epochs go on learning the dense features."""
DENSE_START = 0
"""Number of the dense start where epochs, from 1, are numbered."""
PASSES = 10
"""Passes over a small set, at most."""
LM_WEIGHT = 0.1
"""Weight of a language model's log10 probability at the start. As it is the only weight, its value does not change the
first lists, only how soon those that follow depend on what is learned."""


def dense_start(run: TrainingRun, state: State) -> None:
    """Set the weights of ``state`` to dense weights learned from about ``learner.dense_start`` sentences.

    Initial weights other than zero are scaled first (`initial_size`): those of the perceptron with a margin and the
    normalized rate, unless some are frozen. The dense ones are learned from there only if the epochs do not learn
    them, and are then written, with their devtest score for comparison with the epochs. Else the sentences, no more
    than `SHORT`, give the learner's state alone. A run that was killed before the first epoch ended goes on after the
    finished passes, and gets the same bits.

    Raises StopRequested on every rank if one was asked to stop, MachineError if the decoder has failed on too many
    sentences.
    """
    wanted = run.job.learner.dense_start
    if wanted == 0 or isinstance(run.learner, BatchLearner):
        return
    given, [few] = bool(run.first.value.any()), _passes(run, min(wanted, SHORT), 1)
    if given:
        _fit_size(run, state, few)
    if run.learns == "sparse":
        if not run.first.frozen[: run.first.first_sparse].all():
            _learn_all_dense(run, state, _passes(run, wanted, PASSES))
    elif not given:
        LOG.info(LEARNING, len(few), "")
        state.shared_weights = _learned(run, 0, state.shared_weights, few).weights
    elif run.online.state:
        LOG.info("dense start: learning the steps of dense features from %d sentences", len(few))
        result = _learned(run, 0, state.shared_weights, few).weights
        ids = np.union1d(state.shared_weights.ids, result.ids)
        state.shared_weights = result.at(ids)._replace(value=state.shared_weights.at(ids).value)


def keep_sparse(run: TrainingRun, state: State) -> None:
    """Freeze the sparse features at their weights in ``state``, if the epochs learn the dense ones alone.

    So they are not exchanged, and no selection drops them.
    """
    if run.learns == "dense":
        run.first.freeze_sparse(state.shared_weights)
        state.shared_weights = state.shared_weights.only(_is_dense(run, state.shared_weights))


def _is_dense(run: TrainingRun, weights: SparseWeights) -> np.ndarray:
    """bool [n]: which of ``weights`` are those of dense features."""
    return np.isin(weights.ids, run.first.dense_ids)


def _passes(run: TrainingRun, wanted: int, most: int) -> list[np.ndarray]:
    """int64 [sentences] each: the sentences of passes over all, in random orders, whose sum is nearest to ``wanted``.

    At least one pass, of no more than ``wanted`` sentences, and no more than ``most``.
    """
    size, seed = run.corpus.size, run.job.run.seed
    first = draw_shards(size, 1, seed, 0)
    count = min(most, max(1, round(wanted / size)))
    return [order[:wanted] for n in range(count) for order in (reordered(first, seed, n) if n else first)]


def _learn_all_dense(run: TrainingRun, state: State, passes: list[np.ndarray]) -> None:
    """Learn the dense weights in ``passes``, and freeze those of the best mean over passes on devtest."""
    LOG.info(LEARNING, len(passes[0]), f" in {len(passes)} passes" if len(passes) > 1 else "")
    sparse = state.shared_weights.only(~_is_dense(run, state.shared_weights))
    weights, mean = state.shared_weights, RunningMean(rising=run.averages_sentences)
    means, scores = list[SparseWeights](), list[Scores]()
    for n, sentences in enumerate(passes):
        weights = _learned(run, n, weights, sentences).weights
        mean.add(weights)
        weights = _joined(sparse, weights)
        means.append(mean.mean)
        scores.append(score_devtest(run, _joined(sparse, means[-1]), "after the dense start"))
        if len(passes) > 1 and (score := scores[-1].tuned) is not None:
            LOG.info("dense start: after pass %d of %d, devtest score %.6g", n + 1, len(passes), score)
    best = chosen_epoch([score.tuned for score in scores]) - 1
    run.first.freeze_dense(means[best])
    state.shared_weights = sparse
    state.dense_start = scores[best]
    if scores[best].tuned is not None:
        run.comm.on_root(_write, run, state)
        LOG.info("before sparse features are learned: %s", scores[best].text)


def _joined(sparse: SparseWeights, dense: SparseWeights) -> SparseWeights:
    """Both, which have no feature in common; there is no state of sparse features."""
    state = (np.concatenate([np.zeros(len(sparse.ids)), array]) for array in dense.state)
    ids, value = (np.concatenate(arrays) for arrays in zip(sparse[:2], dense[:2], strict=True))
    return SparseWeights(ids, value, tuple(state))


def _write(run: TrainingRun, state: State) -> None:
    run.folder.write_weights(run.folder.dense_start_weights, run.first.publish(state.shared_weights).named)


def _learned(run: TrainingRun, n: int, start: SparseWeights, sentences: np.ndarray) -> ShardResult:
    """The result of `_learn`, or what an interrupted run has kept of it, on all ranks; raises as `dense_start`.

    It is kept as the results of shards are, and removed with them, after an epoch.
    """
    result = run.comm.on_root(kept_shard, run, DENSE_START, n)
    if result is not None and not result.statistics["failed"]:
        LOG.info("dense start: pass %d was learned before the interruption", n + 1)
        return result
    result = run.comm.on_root(_learn, run, n, start, sentences)
    run.comm.on_root(keep_shard, run, DENSE_START, result)
    run.comm.on_root(check_failed, int(result.statistics["failed"]), len(sentences))
    return result


def _fit_size(run: TrainingRun, state: State, sentences: np.ndarray) -> None:
    wanted = run.job.learner
    if not isinstance(run.online.learner, EvidenceLearner) or wanted.margin == 0 or run.first.frozen.any():
        return
    factor = run.comm.on_root(fitted_factor, run, sentences)
    LOG.info("initial weights multiplied by %.3g, the scale that fits their margins best", factor)
    state.shared_weights = state.shared_weights._replace(value=state.shared_weights.value * factor)


def _learn(run: TrainingRun, n: int, start: SparseWeights, sentences: np.ndarray) -> ShardResult:
    """Result of pass ``n`` over ``sentences`` (int64) that learns the dense features.

    ``n``: from 0; ``start``: weights and the learner's state where it begins. The result has the dense features alone;
    weights of sparse ones count in the pass, and stay as they are.
    """
    weights = run.first.load(start, run.online.state)
    weights.freeze_sparse(start)
    if not weights.value.any():
        _weight_language_models(run, weights)
    if not weights.value[weights.first_sparse :].any():
        run = replace(run, decoder=factory.without_templates(run.job, run.store, run.decoder))
    with Progress("dense start", len(sentences)) as shown:
        return learn_shard(run, DENSE_START, n, sentences, weights, lambda _, sentences=1: shown.advance(sentences))


def _weight_language_models(run: TrainingRun, weights: Weights) -> None:
    """Give each language model a weight in ``weights``, unless it is frozen."""
    model = run.store.model
    if isinstance(model, TranslationModel):
        dense = model.dense_features()
        # An external decoder reads its models itself: they are taken to have log10 probabilities.
        scales = [log_scale(lm) for lm, _ in model.lms] or [1.0] * len(model.lm_names)
        for name, scale in zip(model.lm_names, scales, strict=True):
            slot = dense.index(name)
            if not weights.frozen[slot]:
                weights.value[slot] = LM_WEIGHT * scale


def best_factor(leads: np.ndarray, required: np.ndarray) -> float:
    """The smallest c >= 0 that minimises the sum of max(0, required - c lead), exactly.

    ``leads``, ``required``: float64 [pairs], w.d and the margin of each pair.
    """
    ahead = leads > 0
    lead, until = leads[ahead], required[ahead] / leads[ahead]
    order = np.argsort(until, kind="stable")
    # Slope at c: of the pairs in the wrong order, less that of the pairs whose margin is not yet satisfied.
    slope = -leads[~ahead].sum() - lead.sum() + np.concatenate([[0.0], np.cumsum(lead[order])])
    if slope[0] >= 0:
        return 0.0
    return float(until[order][int(np.argmax(slope[1:] >= 0)) if (slope[1:] >= 0).any() else -1])


def fitted_factor(run: TrainingRun, sentences: np.ndarray) -> float:
    """Factor for the initial weights from the lists of ``sentences`` (int64).

    1 if there are no pairs, or if their leads are negative on the whole.
    """
    job, sampler = run.job, run.job.learner.sampler()
    leads, required = [np.zeros(0)], [np.zeros(0)]
    with Progress("size of the initial weights", len(sentences)) as shown:
        for number, _, kbest, _, gold, *_ in run.lists(sentences, run.first.copy(), 0, resumable=False):
            pairs = sampler(gold, kbest.score, np.random.default_rng([job.run.seed, 0, number]))
            better, worse = pairs[:, 0], pairs[:, 1]
            leads.append(kbest.score[better] - kbest.score[worse])
            sizes = gold[better] - gold[worse] if job.learner.margin_by_gold else np.ones(len(pairs))
            required.append(job.learner.margin * sizes)
            shown.advance()
    factor = best_factor(np.concatenate(leads), np.concatenate(required))
    return factor if factor > 0 else 1.0
