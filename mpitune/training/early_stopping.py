"""End of training: after the last epoch, or early if the devtest score no longer improves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpitune.config.spec import Job
from mpitune.run_folder.best_epoch import (
    better_before,
    chosen_epoch,
    dense_start_is_best,
    devtest_scores,
    early_end_reason,
    out_of_patience,
)

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
