"""Which epoch's weights are the result, and when there is no point in more of them; both follow from devtest BLEU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AVERAGING = ("sgd", "mix")
"""The algorithms that publish, after each epoch, their average over the epochs so far (SRD12, section 5)."""


def devtest_bleus(history: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Devtest BLEU of each epoch that ``history`` has the metrics of; None without a devtest set."""
    return [metrics["devtest_bleu"] for metrics in history]


def chosen_epoch(bleus: Sequence[float | None]) -> int:
    """The epoch, from 1, whose weights are the result: the first of the best on devtest; 0 where there is no epoch yet.

    Without a devtest set (``bleus``, one for each epoch, are None) it is the last.
    """
    known = [bleu for bleu in bleus if bleu is not None]
    if not known or len(known) < len(bleus):
        return len(bleus)
    return 1 + known.index(max(known))


def epochs_since_best(bleus: Sequence[float | None]) -> int:
    """How many epochs, up to the last one, have brought no better devtest BLEU; always 0 without a devtest set."""
    return len(bleus) - chosen_epoch(bleus)


def early_end_reason(bleus: Sequence[float | None], planned: int, patience: int) -> str:
    """Reason why training has ended before the ``planned`` epochs; empty if it has not."""
    if len(bleus) >= planned or not out_of_patience(bleus, patience):
        return ""
    count = epochs_since_best(bleus)
    return f"no better devtest BLEU in {count} epoch{'s' if count > 1 else ''}"


def out_of_patience(bleus: Sequence[float | None], patience: int) -> bool:
    """Whether training ends after these epochs, however many are asked for; ``patience`` 0: never."""
    return 0 < patience <= epochs_since_best(bleus)
