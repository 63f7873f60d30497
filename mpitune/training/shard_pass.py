"""A pass of an online learner over a shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.errors import DataError
from mpitune.learner.base import OnlineLearner
from mpitune.metrics.bleu import WIDTH
from mpitune.run_folder.checkpoint import ShardResult
from mpitune.run_folder.layout import checkpoint_path
from mpitune.runtime.signals import stop_flag
from mpitune.training.epoch_statistics import Change, StatisticsAccumulator
from mpitune.training.session import TrainingRun


def learn_shard(
    run: TrainingRun,
    learner: OnlineLearner,
    epoch: int,
    z: int,
    shard: np.ndarray,
    weights: np.ndarray,
    kept: Sequence[np.ndarray],
    advance: Callable[[float], None],
) -> ShardResult | None:
    """Inner loop of algorithm 1: decode each sentence with the current weights, then update them from its list.

    ``epoch``: from 1; 0: the dense start. ``z``: the shard's number; ``shard``: int64, its sentence numbers;
    ``weights``: float64 [D], changed in place; ``kept``: float64 [D] each, the learner's state. Returns None if a stop
    was requested.

    The result has the features with a weight or with learner state. Where the exchange mixes state (algorithms 3 and
    4), all shards begin with that of the features seen by any: those without a weight whose state did not change are
    left out.
    """
    sums, best = StatisticsAccumulator(run.decoder, run.metric), np.zeros((len(shard), WIDTH), dtype=np.int32)
    learner.start_shard(weights, kept, passes=max(epoch - 1, 0))
    run.gold.start_shard()
    for n, i in enumerate(shard.tolist()):
        if stop_flag():
            return None
        sentence = run.corpus.sentence(i)
        kbest = run.decode(i, weights, epoch)
        weights = run.grow_to_features(weights)
        check_finite(run, epoch, kbest.score)
        counted = run.metric.statistics(kbest, run.corpus.references(i))
        gold = run.gold.score(counted, len(sentence.words), i)
        random = np.random.default_rng([run.job.run.seed, epoch, i])
        change = Change(kbest, weights, changes_all=run.job.learner.l2 > 0)
        counts = learner.update(kbest, gold, weights, random)
        run.gold.update_context(counted, len(sentence.words))
        best[n] = counted[0, :WIDTH]
        best_gold = run.gold.report(counted)
        sums.add(sentence.words, kbest, counted, best_gold, counts, change.norm(weights))
        advance(best_gold)
    begun, kept = kept, learner.end_shard(weights)
    check_finite(run, epoch, weights)
    slots = run.learned(weights, kept)
    if epoch and run.mixes_each_epoch:
        slots = slots[(weights[slots] != 0.0) | _changed(begun, kept, slots)]
    counts_of_shard = sums.statistics(z, weights[slots])
    return ShardResult(
        shard=z,
        index=run.features.ids[slots],
        value=weights[slots],
        statistics=counts_of_shard.sums,
        names=run.new_names(slots),
        best=best,
        bleu=counts_of_shard.bleu,
        choices=counts_of_shard.choices,
        learner=tuple(array[slots] for array in kept),
    )


def _changed(begun: Sequence[np.ndarray], kept: Sequence[np.ndarray], slots: np.ndarray) -> np.ndarray:
    """bool [slots]: True where ``kept`` (float64 [D] each) differs from ``begun``, which may be shorter, or nothing."""
    changed = np.full(len(slots), not begun and bool(kept))
    for before, after in zip(begun, kept, strict=False):
        changed |= grow_to(before, len(after))[slots] != after[slots]
    return changed


def check_finite(run: TrainingRun, epoch: int, numbers: np.ndarray) -> None:
    """Raise DataError unless all ``numbers`` (float64 [n], weights or scores of ``epoch``) are finite."""
    if not np.isfinite(numbers).all():
        last = checkpoint_path(run.folder.checkpoints, epoch - 1)
        raise DataError(
            f"{f'epoch {epoch}' if epoch else 'dense start'}: found NaN or infinite weights, expected numbers: "
            f"{run.job.learner.own.remedy()}; "
            + (f"the last sound checkpoint is {last}" if epoch > 1 else "there is no checkpoint yet")
        )
