"""Learning rates: the change of a weight for a gradient.

- ``constant``: the learning rate times the gradient.
- ``adagrad``: divided by the root of the sum of squared gradients (Duchi et al. 2011).
- ``adadelta``: Zeiler 2012, algorithm 1; it has no learning rate.
- ``normalized``: see `evidence`.

The state of ``adagrad`` continues from list to list, shard to shard and epoch to epoch, so that
steps anneal over the whole training; the state of ``adadelta`` is reset for each pass over a shard.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.weights import Weights
from mpitune.portable_math import whole_power

DECAY = 0.95
"""AdaDelta: decay of its running means per step (rho)."""
EPSILON = 1e-6
"""AdaDelta: added under both roots."""
CONSTANT, _ADAGRAD, _ADADELTA = range(1, 4)
"""The kind of a `Rate`: its place in `ARRAYS`."""
ARRAYS: dict[str, tuple[str, ...]] = {
    "normalized": ("squares", "sums", "sizes", "lists"),
    "constant": (),
    "adagrad": ("squares",),
    "adadelta": ("squares", "moves", "time"),
}
"""By ``learner.rate``, the default first: its arrays; of ``normalized``, those of `evidence.Evidence`."""


class Rate(NamedTuple):
    """A rate and its state, indexed by slot; arrays that the kind does not use are empty."""

    kind: int
    learning_rate: float
    squares: np.ndarray = np.zeros(0)
    """float64 [D]: AdaGrad: sum of squared gradients; AdaDelta: their running mean."""
    moves: np.ndarray = np.zeros(0)
    """float64 [D]: AdaDelta: running mean of squared weight changes."""
    time: np.ndarray = np.zeros(0, dtype=np.int64)
    """int64 [D]: AdaDelta: the step at which both means were last updated."""


def rate_of(name: str, learning_rate: float, weights: Weights) -> Rate:
    """The rate called ``name``, with its arrays in ``weights``, as long as these do not grow."""
    arrays = {array: weights.array(array, 0, np.int64 if array == "time" else np.float64) for array in ARRAYS[name]}
    return Rate(list(ARRAYS).index(name), learning_rate, **arrays)


@kernel
def weight_change(rate: Rate, slot: int, gradient: float, step: int) -> float:
    """The change of the weight of ``slot`` for ``gradient``, the direction in which the objective rises.

    ``step`` counts the steps of the pass from 1. AdaDelta's means decay in every step, also if the gradient is 0; the
    missed decay is applied here. AdaGrad adds the square first.
    """
    if rate.kind == CONSTANT:
        return rate.learning_rate * gradient
    if rate.kind == _ADAGRAD:
        rate.squares[slot] += gradient * gradient
        if rate.squares[slot] == 0.0:
            return 0.0
        return rate.learning_rate * gradient / math.sqrt(rate.squares[slot])
    decay = whole_power(DECAY, step - rate.time[slot])
    rate.time[slot] = step
    rate.squares[slot] = decay * rate.squares[slot] + (1.0 - DECAY) * gradient * gradient
    # The step uses the running mean of changes as of the step before this one.
    before = decay / DECAY * rate.moves[slot]
    change = math.sqrt(before + EPSILON) / math.sqrt(rate.squares[slot] + EPSILON) * gradient
    rate.moves[slot] = DECAY * before + (1.0 - DECAY) * change * change
    return change
