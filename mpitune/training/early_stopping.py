"""End of training: after the last epoch, or early if the devtest score no longer improves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpitune.config.spec import Job
from mpitune.run_folder.run_state import chosen_epoch, dense_start_is_best, devtest_scores

History = Sequence[Mapping[str, Any]]
"""Metrics of the epochs so far: the same on all ranks and after a resume, so all ranks decide alike."""


def goes_on(job: Job, history: History) -> bool:
    """True if there is another epoch to do."""
    scores = devtest_scores(history)
    return len(history) < job.learner.epochs and not out_of_patience(scores, job.learner.patience)


def ending(job: Job, history: History) -> str:
    """The epoch, or the dense start, whose weights are the result, and the reason for the end, for the log."""
    scores = devtest_scores(history)
    of = f"epoch {chosen_epoch(scores)}" + ("" if None in scores else ", the best on devtest")
    if (before := better_before(history)) is not None:
        of += f" but for the initial weights (BLEU {before:.2f})"
    if dense_start_is_best(history):
        of = "the dense start, better on devtest than all epochs"
    if len(history) > job.learner.epochs:
        return f"{of}; {len(history)} epochs were done before, more than learner.epochs = {job.learner.epochs}"
    if len(history) == job.learner.epochs:
        return f"{of}; all {len(history)} epochs are done"
    why = early_end_reason(scores, job.learner.epochs, job.learner.patience)
    return f"{of}; ended after epoch {len(history)} of {job.learner.epochs}: {why} (raise learner.patience to go on)"


def early_end_reason(scores: Sequence[float | None], planned: int, patience: int) -> str:
    """Reason why training has ended before the ``planned`` epochs; empty if it has not."""
    if len(scores) >= planned or not out_of_patience(scores, patience):
        return ""
    count = epochs_since_best(scores)
    return f"no better devtest score in {count} epoch{'s' if count > 1 else ''}"


def out_of_patience(scores: Sequence[float | None], patience: int) -> bool:
    """True if `epochs_since_best` has reached ``patience``; ``patience`` 0: never."""
    return 0 < patience <= epochs_since_best(scores)


def epochs_since_best(scores: Sequence[float | None]) -> int:
    """Number of epochs since the best devtest score; always 0 without a devtest set."""
    return len(scores) - chosen_epoch(scores)


def better_before(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Devtest BLEU before training if no epoch has as much; else, or if another metric is tuned, None."""
    before: float | None = history[0].get("devtest_bleu_before") if history else None
    tuned = [metrics["devtest_bleu"] for metrics in history if metrics["devtest_metric"] is None]
    return before if before is not None and None not in tuned and max(tuned, default=before) < before else None
