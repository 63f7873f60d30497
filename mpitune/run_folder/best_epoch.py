"""The epoch whose weights are the result, and early stopping by patience; both depend on devtest scores alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AVERAGING = ("sgd", "mix")
"""The algorithms that publish the average over the epochs so far (Simianer, Riezler and Dyer, ACL 2012, section 5)."""


def devtest_scores(history: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """The ``learner.metric`` of the devtest set after each epoch, from ``history``; None without a devtest set."""
    return [_tuned(metrics, "") for metrics in history]


def dense_start_score(history: Sequence[Mapping[str, Any]]) -> float | None:
    """The same after the dense start, on which the epochs learn sparse features; None if there is none."""
    return _tuned(history[0], "_dense") if history else None


def _tuned(metrics: Mapping[str, Any], when: str) -> float | None:
    """The score in ``metrics`` that weights are selected by; ``when``: the end of its key."""
    tuned = "bleu" if metrics["devtest_metric"] is None else "metric"
    score: float | None = metrics.get(f"devtest_{tuned}{when}")
    return score


def chosen_epoch(scores: Sequence[float | None]) -> int:
    """The epoch, from 1, whose weights are the result: the earliest of the best on devtest; 0 if there is no epoch yet.

    ``scores``: one per epoch. Without a devtest set they are None, and the last epoch is chosen.
    """
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return len(scores)
    return 1 + known.index(max(known))


def better_before(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Devtest BLEU before training if no epoch has as much; else, or if another metric is tuned, None."""
    before: float | None = history[0].get("devtest_bleu_before") if history else None
    tuned = [metrics["devtest_bleu"] for metrics in history if metrics["devtest_metric"] is None]
    return before if before is not None and None not in tuned and max(tuned, default=before) < before else None


def dense_start_is_best(history: Sequence[Mapping[str, Any]]) -> bool:
    """True if all epochs so far are worse on devtest than the dense start: its weights are the result then.

    ``history``: their metrics. Never true without sparse features or without a devtest set.
    """
    dense = dense_start_score(history)
    return dense is not None and all(score is None or score < dense for score in devtest_scores(history))


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
