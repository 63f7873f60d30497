"""Scale of the initial weights: the factor that minimises the hinge loss.

Weights of another program rank translations well, but their scale is arbitrary: with large weights all margins are
satisfied and steps hardly change them. Ranking does not depend on the scale. So the weights are multiplied by the
factor with the least hinge loss on the lists of a few sentences. A choice of this implementation.
"""

from __future__ import annotations

import logging

import numpy as np

from mpitune.corpus.progress import Progress
from mpitune.runtime.signals import stop_flag
from mpitune.training import factory
from mpitune.training.session import TrainingRun

LOG = logging.getLogger(__name__)


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


def fitted_factor(run: TrainingRun, sentences: np.ndarray) -> float | None:
    """Factor for the initial weights from the lists of ``sentences`` (int64); None if a stop was requested.

    1 if there are no pairs, or if their leads are negative on the whole.
    """
    job, weights = run.job, run.first.weights
    sampler = factory.sampler(job)
    leads, required = [np.zeros(0)], [np.zeros(0)]
    run.gold.start_shard()
    with Progress("size of the initial weights", len(sentences)) as shown:
        for i in sentences.tolist():
            if stop_flag():
                return None
            sentence = run.corpus.sentence(i)
            kbest = run.decode(i, weights, 0)
            counted = run.metric.statistics(kbest, run.corpus.references(i))
            gold = run.gold.score(counted, len(sentence.words), i)
            pairs = sampler(gold, kbest.score, np.random.default_rng([job.run.seed, 0, i]))
            run.gold.update_context(counted, len(sentence.words))
            better, worse = pairs[:, 0], pairs[:, 1]
            leads.append(kbest.score[better] - kbest.score[worse])
            sizes = gold[better] - gold[worse] if job.learner.margin_by_gold else np.ones(len(pairs))
            required.append(job.learner.margin * sizes)
            shown.advance()
    factor = best_factor(np.concatenate(leads), np.concatenate(required))
    return factor if factor > 0 else 1.0
