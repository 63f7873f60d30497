"""The metrics of an epoch: its line in ``metrics.jsonl``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from mpitune.decoder.base import check_failed
from mpitune.learner.weights import NamedWeights
from mpitune.run_folder.model_weights import largest_by_template
from mpitune.training.epoch_clock import RankUsage
from mpitune.training.epoch_statistics import EpochResult, Scores, ShardStatistics, norm, summary
from mpitune.training.session import TrainingRun
from mpitune.training.state import State

LARGEST = 15
"""Number of features of each template whose column norm is in the metrics."""


def metrics_of_epoch(
    run: TrainingRun,
    state: State,
    result: EpochResult,
    scores: Scores,
    model: NamedWeights,
    shards: list[ShardStatistics],
    usage: Sequence[RankUsage],
) -> dict[str, Any]:
    """The epoch's line in metrics.jsonl; ``shards``: of all ranks; ``usage``: by rank."""
    shards.sort(key=attrgetter("shard"))
    summed = summary(shards, run.metric)
    check_failed(summed["failed_sentences"], summed["sentences"])
    return {
        "epoch": state.epoch,
        "seconds": usage[0].busy + usage[0].waited,
        **summed,
        "devtest_bleu": scores.bleu,
        "devtest_length_ratio": scores.length_ratio,
        "devtest_metric": scores.metric,
        **(_before(state) if state.epoch == 1 else {}),
        **result.metrics,
        "cancelled_features": _cancelled(result),
        "weight_norm": norm(result.weights.value),
        "largest_norms": largest_by_template(model.names, result.norms.at(model.ids).value, LARGEST),
        "busy_seconds": [rank.busy for rank in usage],
        "wait_seconds": [rank.waited for rank in usage],
        "timeline": [rank.timeline for rank in usage],
        "shard_seconds": [shard.sums["seconds"] for shard in shards],
        "peak_memory_bytes": [rank.peak_memory for rank in usage],
    }


def _before(state: State) -> dict[str, Any]:
    """Scores of the devtest set before the first epoch, which that epoch's metrics keep."""
    dense = state.dense_start
    return {
        "devtest_bleu_before": state.before,
        "devtest_bleu_dense": dense.bleu,
        "devtest_metric_dense": dense.metric,
    }


def _cancelled(result: EpochResult) -> int:
    """Number of selected features, or of all where none are selected, that have no weight in the result.

    Weights of the shards may cancel out, and those that follow from the sum of the shards may be 0.
    """
    norms, weights = result.norms, result.weights
    if not len(norms.ids):
        return max(int(result.metrics["selected_features"]) - int(np.count_nonzero(weights.value)), 0)
    return int(np.count_nonzero(weights.at(norms.ids[norms.value > 0.0]).value == 0.0))
