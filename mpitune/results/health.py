"""Signs that a model is going wrong, told while there is time to stop it."""

from __future__ import annotations

from collections.abc import Sequence

HUGE = 1e4
"""No weight of a sound model comes near: dense features are of the order of 1."""
LENGTH_RATIO = (0.5, 2.0)
"""Within these, translations are about as long as their references."""


def warnings(
    weights: Sequence[tuple[str, float]], length_ratio: float, empty_outputs: int, sentences: int
) -> list[str]:
    """What is wrong with an epoch, a line each.

    ``weights``: names and weights of the model; ``length_ratio``: words of the 1-best translations to words of their
    closest references; ``empty_outputs``: of ``sentences``, those with words that were translated to nothing.
    """
    found = []
    huge = sorted((pair for pair in weights if abs(pair[1]) > HUGE), key=lambda pair: -abs(pair[1]))
    if huge:
        shown = ", ".join(f"{name} {value:.3g}" for name, value in huge[:5])
        found.append(f"exploding weights: {len(huge)} above {HUGE:g} ({shown}): is learning_rate too high?")
    if empty_outputs:
        found.append(f"empty outputs: {empty_outputs} of {sentences} sentences are translated to nothing")
    low, high = LENGTH_RATIO
    if not low <= length_ratio <= high:
        found.append(f"length ratio {length_ratio:.3f} of the 1-best translations, expected {low:g} to {high:g}")
    return found
