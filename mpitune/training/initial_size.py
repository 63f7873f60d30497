"""The size of initial weights: the one at which their margins fit.

Weights of another program order translations well, but at a size of their own: beside margins of 0.3, large weights
count as certain, and steps that are made for small ones hardly move them. The order of translations does not depend on
the size. So the weights are multiplied by the number at which the hinge loss of a few lists is least *(ours)*.
"""

from __future__ import annotations

import logging

import numpy as np

from mpitune.metrics.bleu import statistics
from mpitune.runtime.progress import progress
from mpitune.training import factory
from mpitune.training.session import TrainingRun

LOG = logging.getLogger(__name__)


def best_factor(leads: np.ndarray, required: np.ndarray) -> float:
    """The c >= 0 of the smallest sum of max(0, required - c lead), exactly; the smallest one of several.

    ``leads``, ``required``: float64 [pairs], w.d and the margin of each pair.
    """
    ahead = leads > 0
    lead, until = leads[ahead], required[ahead] / leads[ahead]
    order = np.argsort(until, kind="stable")
    # The slope at c is that of the pairs in the wrong order less that of those which are not yet ahead by enough.
    slope = -leads[~ahead].sum() - lead.sum() + np.concatenate([[0.0], np.cumsum(lead[order])])
    if slope[0] >= 0:
        return 0.0
    return float(until[order][int(np.argmax(slope[1:] >= 0)) if (slope[1:] >= 0).any() else -1])


def fitted_factor(run: TrainingRun, sentences: np.ndarray) -> float | None:
    """What to multiply the initial weights by, from the lists of ``sentences`` (int64); None after a stop request.

    1 where the lists do not tell: no pairs, or more of them in the wrong order than in the right one.
    """
    job, weights = run.job, run.first.weights
    sampler = factory.sampler(job)
    leads, required = [np.zeros(0)], [np.zeros(0)]
    run.gold.start_shard()
    with progress("size of the initial weights", len(sentences), rank=run.comm.rank, quiet=run.quiet) as told:
        for i in sentences.tolist():
            if run.stop:
                return None
            sentence = run.corpus.sentence(i)
            kbest = run.decoder.decode(sentence, weights, run.kbest)
            counted = statistics(kbest, run.corpus.references(i))
            gold = run.gold.score(counted, len(sentence.words), i)
            pairs = sampler(gold, kbest.score, np.random.default_rng([job.run.seed, 0, i]))
            run.gold.update_context(counted, len(sentence.words))
            better, worse = pairs[:, 0], pairs[:, 1]
            leads.append(kbest.score[better] - kbest.score[worse])
            sizes = gold[better] - gold[worse] if job.learner.margin_by_gold else np.ones(len(pairs))
            required.append(job.learner.margin * sizes)
            told.advance()
    factor = best_factor(np.concatenate(leads), np.concatenate(required))
    return factor if factor > 0 else 1.0
