"""A pass of an online learner over a shard."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpitune.errors import DataError
from mpitune.learner.base import Composed
from mpitune.learner.weights import Weights
from mpitune.metrics.bleu import WIDTH
from mpitune.run_folder.checkpoint import ShardResult
from mpitune.run_folder.layout import checkpoint_path
from mpitune.training.epoch_statistics import Change, StatisticsAccumulator
from mpitune.training.sanity_checks import remedy
from mpitune.training.session import TrainingRun


def learn_shard(
    run: TrainingRun,
    learner: Composed,
    epoch: int,
    z: int,
    shard: np.ndarray,
    weights: Weights,
    advance: Callable[[float], None],
) -> ShardResult:
    """Inner loop of algorithm 1: decode each sentence with the current weights, then update them from its list.

    ``epoch``: from 1; 0: the dense start. ``z``: the shard's number; ``shard``: int64, its sentence numbers;
    ``weights``: changed in place, with the learner's state. Raises StopRequested if a stop was requested.

    The result has the features with a weight or with learner state. Where the exchange mixes state (algorithms 3 and
    4), all shards begin with that of the features seen by any: those without a weight whose state did not change are
    left out.
    """
    sums, best = StatisticsAccumulator(run.decoder, run.metric), np.zeros((len(shard), WIDTH), dtype=np.int32)
    learner.start_shard(weights, passes=max(epoch - 1, 0))
    for n, each in enumerate(run.lists(shard, weights, epoch)):
        check_finite(run, epoch, each.kbest.score)
        random = np.random.default_rng([run.job.run.seed, epoch, each.number])
        change = Change(each.kbest, weights.value, changes_all=learner.learner.changes_all)
        counts = learner.update(each.kbest, each.gold, weights, random)
        best[n] = each.statistics[0, :WIDTH]
        sums.add(each, counts, change.norm(weights.value))
        advance(each.best)
    learner.end_shard(weights)
    check_finite(run, epoch, weights.value)
    learned = weights.sparse(learner.state, changed=epoch > 0 and run.mixes_each_epoch)
    counts_of_shard = sums.statistics(z, learned.value)
    return ShardResult(
        shard=z,
        weights=learned,
        statistics=counts_of_shard.sums,
        best=best,
        bleu=counts_of_shard.bleu,
        choices=counts_of_shard.choices,
    )


def check_finite(run: TrainingRun, epoch: int, numbers: np.ndarray) -> None:
    """Raise DataError unless all ``numbers`` (float64 [n], weights or scores of ``epoch``) are finite."""
    if not np.isfinite(numbers).all():
        last = checkpoint_path(run.folder.checkpoints, epoch - 1)
        raise DataError(
            f"{f'epoch {epoch}' if epoch else 'dense start'}: found NaN or infinite weights, expected numbers: "
            f"{remedy(run.job.learner)}; "
            + (f"the last sound checkpoint is {last}" if epoch > 1 else "there is no checkpoint yet")
        )
