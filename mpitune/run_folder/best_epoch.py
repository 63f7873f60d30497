"""The epoch whose weights are the result, and early stopping by patience; both depend on devtest BLEU alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AVERAGING = ("sgd", "mix")
"""The algorithms that publish the average over the epochs so far (Simianer, Riezler and Dyer, ACL 2012, section 5)."""


def devtest_bleus(history: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Devtest BLEU of each epoch, from its metrics in ``history``; None without a devtest set."""
    return [metrics["devtest_bleu"] for metrics in history]


def chosen_epoch(bleus: Sequence[float | None]) -> int:
    """The epoch, from 1, whose weights are the result: the earliest of the best on devtest; 0 if there is no epoch yet.

    ``bleus``: one per epoch. Without a devtest set they are None, and the last epoch is chosen.
    """
    known = [bleu for bleu in bleus if bleu is not None]
    if not known or len(known) < len(bleus):
        return len(bleus)
    return 1 + known.index(max(known))


def epochs_since_best(bleus: Sequence[float | None]) -> int:
    """Number of epochs since the best devtest BLEU; always 0 without a devtest set."""
    return len(bleus) - chosen_epoch(bleus)


def early_end_reason(bleus: Sequence[float | None], planned: int, patience: int) -> str:
    """Reason why training has ended before the ``planned`` epochs; empty if it has not."""
    if len(bleus) >= planned or not out_of_patience(bleus, patience):
        return ""
    count = epochs_since_best(bleus)
    return f"no better devtest BLEU in {count} epoch{'s' if count > 1 else ''}"


def out_of_patience(bleus: Sequence[float | None], patience: int) -> bool:
    """True if `epochs_since_best` has reached ``patience``; ``patience`` 0: never."""
    return 0 < patience <= epochs_since_best(bleus)
