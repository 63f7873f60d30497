"""How far a weight moves for a gradient: a constant rate, AdaGrad, AdaDelta."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mpitune.errors import UsageError
from mpitune.kernel import kernel

DECAY = 0.95
"""What AdaDelta keeps of its running means at each step (rho)."""
EPSILON = 1e-6
"""What AdaDelta adds under both of its roots."""
_CONSTANT, _ADAGRAD, _ADADELTA = range(3)
RATES = {"constant": _CONSTANT, "adagrad": _ADAGRAD, "adadelta": _ADADELTA}
"""The rates by the name that a job gives them."""


class Rate(NamedTuple):
    """A rate and its state, by slot; arrays that it has no use for are empty."""

    kind: int
    learning_rate: float
    squares: np.ndarray
    """float64 [D]: AdaGrad: sum of squared gradients; AdaDelta: their running mean."""
    moves: np.ndarray
    """float64 [D]: AdaDelta: running mean of squared moves."""
    time: np.ndarray
    """int64 [D]: AdaDelta: the step that the two means are those of."""


def make_rate(name: str, learning_rate: float, size: int) -> Rate:
    """A rate that has seen nothing yet, for ``size`` slots. Raises UsageError where there is none of that name."""
    if name not in RATES:
        raise UsageError(f"learner.rate: found {name!r}, expected one of {', '.join(RATES)}")
    squares = size if name != "constant" else 0
    moves = size if name == "adadelta" else 0
    return Rate(RATES[name], learning_rate, np.zeros(squares), np.zeros(moves), np.zeros(moves, dtype=np.int64))


def make_room(rate: Rate, size: int) -> Rate:
    """``rate`` for ``size`` slots, those that are new having seen nothing yet."""
    if rate.kind == _CONSTANT:
        return rate
    squares, moves, time = (longer(array, size, 0) for array in (rate.squares, rate.moves, rate.time))
    return rate._replace(squares=squares) if rate.kind == _ADAGRAD else Rate(*rate[:2], squares, moves, time)


def longer(array: np.ndarray, size: int, value: float) -> np.ndarray:
    """``array`` with ``value`` added at its end until there are ``size`` of them."""
    return np.concatenate([array, np.full(size - len(array), value, dtype=array.dtype)])


@kernel
def move(rate: Rate, slot: int, gradient: float, step: int) -> float:
    """What to add to the weight of ``slot`` for ``gradient`` (that which raises the objective).

    ``step`` counts the steps of the shard from 1. AdaGrad: Duchi et al. 2011, the square added first. AdaDelta: Zeiler
    2012, algorithm 1, which has no learning rate; its means decay in every step, also where the gradient is 0, and
    catch up with that here.
    """
    if rate.kind == _CONSTANT:
        return rate.learning_rate * gradient
    if rate.kind == _ADAGRAD:
        rate.squares[slot] += gradient * gradient
        if rate.squares[slot] == 0.0:
            return 0.0
        return rate.learning_rate * gradient / math.sqrt(rate.squares[slot])
    decay = math.pow(DECAY, float(step - rate.time[slot]))
    rate.time[slot] = step
    rate.squares[slot] = decay * rate.squares[slot] + (1.0 - DECAY) * gradient * gradient
    # The mean of moves that counts now is that of the step before this one.
    before = decay / DECAY * rate.moves[slot]
    moved = math.sqrt(before + EPSILON) / math.sqrt(rate.squares[slot] + EPSILON) * gradient
    rate.moves[slot] = DECAY * before + (1.0 - DECAY) * moved * moved
    return moved
