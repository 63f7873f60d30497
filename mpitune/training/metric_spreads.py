"""Spreads of the metrics of ``learner.metric``, which make them comparable."""

from __future__ import annotations

import numpy as np

from mpitune.errors import DataError
from mpitune.runtime.signals import stop_flag
from mpitune.training.session import TrainingRun

SENTENCES = 500
"""Sentences whose lists are looked at."""


def fit_metric(run: TrainingRun) -> None:
    """Set the spreads of the run's metric, from lists under the initial weights. Collective.

    Raises DataError for a metric that is the same in all entries of each list, StopRequested after a signal.
    """
    if not run.metric.is_bleu:
        run.metric.set_spreads(run.comm.on_root(_spreads, run))


def _spreads(run: TrainingRun) -> np.ndarray:
    """float64 [metrics]: mean over lists of each metric's standard deviation in a list."""
    found = []
    for i in np.random.default_rng(run.job.run.seed).permutation(run.corpus.size)[:SENTENCES].tolist():
        if stop_flag():
            raise stop_flag().stop_error("the comparison of the metrics", resumable=False)
        kbest = run.decoder.decode(run.store.tuned_sentence(i), run.first.value, run.job.decoder.kbest)
        scores = run.metric.single_scores(run.metric.statistics(kbest, run.corpus.references(i)))
        # The standard deviation of equal numbers is not always 0: their mean is rounded.
        found.append(np.where(scores.max(axis=0) > scores.min(axis=0), scores.std(axis=0), 0.0))
    spreads: np.ndarray = np.mean(found, axis=0)
    for name, spread in zip(run.metric.names, spreads.tolist(), strict=True):
        if spread == 0:
            found_in = f"{run.job.file}: learner.metric: found the same {name} in all entries of each list"
            raise DataError(f"{found_in}, expected different values")
    return spreads
