"""Spreads of the metrics of ``learner.metric``, which make them comparable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mpitune.errors import DataError
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.tuning_metric import MetricGold
from mpitune.runtime.signals import stop_flag
from mpitune.training.session import TrainingRun

SENTENCES = 500
"""Sentences whose lists are looked at."""


class _Counted(NamedTuple):
    """A list."""

    statistics: np.ndarray
    """int64 [k, width]: those of the run's metric."""
    source_length: int


def fit_metric(run: TrainingRun) -> None:
    """Set the spreads of the run's metric and of its gold score, from lists under the initial weights. Collective.

    Raises DataError for a metric that is the same in all entries of each list, StopRequested after a signal.
    """
    if run.metric.is_bleu:
        return
    own, *of_gold = run.comm.on_root(_measured, run)
    run.metric.set_spreads(own)
    if isinstance(run.gold, MetricGold) and of_gold:
        run.gold.set_spreads(*of_gold)


def _measured(run: TrainingRun) -> list[np.ndarray]:
    """The spreads of `Metric.set_spreads`, and, of learners that ask for gold scores, of `MetricGold.set_spreads`."""
    lists, gold = _lists(run), run.gold
    measured = [_spreads(run, (run.metric.single_scores(each.statistics) for each in lists))]
    if isinstance(gold, MetricGold) and not run.job.learner.own.is_batch:
        # As if these lists, again and again, were the whole set.
        best = np.resize([each.statistics[0, :WIDTH] for each in lists], (run.corpus.size, WIDTH)).astype(np.int32)
        measured += [_spreads(run, _gold_scores(gold, lists, before)) for before in (best[:0], best)]
        gold.start_epoch(best[:0])
    return measured


def _lists(run: TrainingRun) -> list[_Counted]:
    found = []
    for i in np.random.default_rng(run.job.run.seed).permutation(run.corpus.size)[:SENTENCES].tolist():
        if stop_flag():
            raise stop_flag().stop_error("the comparison of the metrics", resumable=False)
        kbest = run.decoder.decode(run.store.tuned_sentence(i), run.first.value, run.job.decoder.kbest)
        counted = run.metric.statistics(kbest, run.corpus.references(i))
        found.append(_Counted(counted, len(run.corpus.sentence(i).words)))
    return found


def _gold_scores(gold: MetricGold, lists: list[_Counted], best: np.ndarray) -> Iterable[np.ndarray]:
    """By list: the scores, float64 [k, metrics], in an epoch after one with the 1-best statistics ``best``."""
    gold.start_epoch(best)
    gold.start_shard()
    for n, each in enumerate(lists):
        yield gold.single_scores(each.statistics, each.source_length, n)
        gold.update_context(each.statistics, each.source_length)


def _spreads(run: TrainingRun, scores: Iterable[np.ndarray]) -> np.ndarray:
    """float64 [metrics]: mean over lists of each metric's standard deviation in a list; ``scores``: by list."""
    # The standard deviation of equal numbers is not always 0: their mean is rounded.
    found = [np.where(each.max(axis=0) > each.min(axis=0), each.std(axis=0), 0.0) for each in scores]
    spreads: np.ndarray = np.mean(found, axis=0)
    for name, spread in zip(run.metric.names, spreads.tolist(), strict=True):
        if spread == 0:
            found_in = f"{run.job.file}: learner.metric: found the same {name} in all entries of each list"
            raise DataError(f"{found_in}, expected different values")
    return spreads
