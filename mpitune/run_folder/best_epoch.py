"""The epoch whose weights are the result, and early stopping by patience; both depend on devtest scores alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AVERAGING = ("sgd", "mix")
"""The algorithms that publish the average over the epochs so far (Simianer, Riezler and Dyer, ACL 2012, section 5)."""


def devtest_scores(history: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """The ``learner.metric`` of the devtest set after each epoch, from ``history``; None without a devtest set."""
    return [metrics["devtest_bleu"] if (s := metrics["devtest_metric"]) is None else s for metrics in history]


def chosen_epoch(scores: Sequence[float | None]) -> int:
    """The epoch, from 1, whose weights are the result: the earliest of the best on devtest; 0 if there is no epoch yet.

    ``scores``: one per epoch. Without a devtest set they are None, and the last epoch is chosen.
    """
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return len(scores)
    return 1 + known.index(max(known))


def dense_start_is_best(history: Sequence[Mapping[str, Any]]) -> bool:
    """True if all epochs so far are worse on devtest than the dense start: its weights are the result then.

    ``history``: their metrics. Never true if another metric than BLEU is tuned, or without sparse features.
    """
    dense = history[0].get("devtest_bleu_dense") if history else None
    if dense is None or history[0]["devtest_metric"] is not None:
        return False
    return bool(dense > max(metrics["devtest_bleu"] for metrics in history))


def epochs_since_best(scores: Sequence[float | None]) -> int:
    """Number of epochs since the best devtest score; always 0 without a devtest set."""
    return len(scores) - chosen_epoch(scores)


def early_end_reason(scores: Sequence[float | None], planned: int, patience: int) -> str:
    """Reason why training has ended before the ``planned`` epochs; empty if it has not."""
    if len(scores) >= planned or not out_of_patience(scores, patience):
        return ""
    count = epochs_since_best(scores)
    return f"no better devtest score in {count} epoch{'s' if count > 1 else ''}"


def out_of_patience(scores: Sequence[float | None], patience: int) -> bool:
    """True if `epochs_since_best` has reached ``patience``; ``patience`` 0: never."""
    return 0 < patience <= epochs_since_best(scores)
