"""Learning rates: how far a weight moves for a gradient.

- ``constant``: the learning rate.
- ``adagrad``: the learning rate over the root of the sum of squared gradients (Duchi et al. 2011).
- ``adadelta``: Zeiler 2012, algorithm 1; it has no learning rate.
- ``normalized``: AdaGrad in units of each feature (after Ross, Mineiro and Langford 2013, *Normalized Online
  Learning*, algorithm NAG): multiplying a feature by any number changes model scores by rounding alone. The unit is
  *(ours)*: the root mean square of the feature's differences over pairs that differ in it; a count that differs by 1
  has unit 1.
  Sparse features share a step *(ours)*: where n of them move, each moves by 1 / sqrt(n) of what a dense feature moves
  by, so that steps that have nothing to do with one another change scores together as much as one dense feature does;
  without that a hundred of them outvote a dozen dense ones after a few lists.

The state of ``adagrad`` and ``normalized`` is kept from list to list, shard to shard and epoch to epoch, so that steps
anneal over the whole of training; that of ``adadelta`` is kept for one pass over a shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.errors import UsageError
from mpitune.jit import kernel

DECAY = 0.95
"""AdaDelta: the share of its running means that is left after each step (rho)."""
EPSILON = 1e-6
"""AdaDelta: added under both of its roots."""
_CONSTANT, _ADAGRAD, _ADADELTA, NORMALIZED = range(4)
RATES = {"constant": _CONSTANT, "adagrad": _ADAGRAD, "adadelta": _ADADELTA, "normalized": NORMALIZED}
"""The rates by the name that a job gives them."""
KEPT: dict[str, tuple[str, ...]] = {
    "constant": (),
    "adagrad": ("squares",),
    "adadelta": (),
    "normalized": ("squares", "sizes", "lists"),
}
"""By rate: the arrays of its `Rate` that go on from shard to shard."""


class Rate(NamedTuple):
    """A rate and its state, by slot; arrays that it has no use for are empty."""

    kind: int
    learning_rate: float
    first_sparse: int
    """Slots from here on are those of sparse features."""
    squares: np.ndarray
    """float64 [D]: AdaGrad, normalized: sum of squared gradients; AdaDelta: their running mean."""
    moves: np.ndarray
    """float64 [D]: AdaDelta: running mean of squared moves."""
    time: np.ndarray
    """int64 [D]: AdaDelta: the step that the two means are those of."""
    sizes: np.ndarray
    """float64 [D]: normalized: sum over lists of the mean squared difference, over the pairs that differ."""
    lists: np.ndarray
    """float64 [D]: normalized: the number of these lists."""


_ARRAYS: dict[int, tuple[str, ...]] = {
    _CONSTANT: (),
    _ADAGRAD: ("squares",),
    _ADADELTA: ("squares", "moves", "time"),
    NORMALIZED: ("squares", "sizes", "lists"),
}
"""By kind: the arrays of a `Rate` that are not empty."""


def make_rate(name: str, learning_rate: float, state: Sequence[np.ndarray] = (), first_sparse: int = 0) -> Rate:
    """The rate called ``name``, which goes on from ``state`` (`KEPT`, float64 [D] each), or has seen nothing yet.

    Raises UsageError where there is no rate of that name.
    """
    if name not in RATES:
        raise UsageError(f"learner.rate: found {name!r}, expected one of {', '.join(RATES)}")
    none = np.zeros(0)
    rate = Rate(RATES[name], learning_rate, first_sparse, none, none, np.zeros(0, dtype=np.int64), none, none)
    return _with(rate, {array: kept.copy() for array, kept in zip(KEPT[name], state, strict=False)})


def _with(rate: Rate, arrays: dict[str, np.ndarray]) -> Rate:
    replaced: Rate = rate._replace(**arrays)  # type: ignore[arg-type]  # mypy takes any field for any name
    return replaced


def state_of(rate: Rate, name: str) -> tuple[np.ndarray, ...]:
    """The state to go on from: `KEPT`, float64 [D] each."""
    return tuple(getattr(rate, array) for array in KEPT[name])


def grown(rate: Rate, size: int) -> Rate:
    """``rate`` for ``size`` slots; new ones have seen nothing yet."""
    return _with(rate, {array: longer(getattr(rate, array), size, 0) for array in _ARRAYS[rate.kind]})


def longer(array: np.ndarray, size: int, value: float) -> np.ndarray:
    """``array`` with ``value`` added at its end until there are ``size`` of them."""
    return np.concatenate([array, np.full(size - len(array), value, dtype=array.dtype)])


@kernel
def move(rate: Rate, slot: int, gradient: float, step: int) -> float:
    """What to add to the weight of ``slot`` for ``gradient`` (that which raises the objective).

    ``step`` counts the steps of the pass from 1; AdaDelta's means decay in every step, also where the gradient is 0,
    and catch up with that here. AdaGrad adds the square first.
    """
    if rate.kind == _CONSTANT:
        return rate.learning_rate * gradient
    if rate.kind == _ADAGRAD:
        rate.squares[slot] += gradient * gradient
        if rate.squares[slot] == 0.0:
            return 0.0
        return rate.learning_rate * gradient / math.sqrt(rate.squares[slot])
    if rate.kind == NORMALIZED:
        if rate.sizes[slot] == 0.0:
            return 0.0
        unit = math.sqrt(rate.sizes[slot] / rate.lists[slot])
        gradient /= unit
        rate.squares[slot] += gradient * gradient
        if rate.squares[slot] == 0.0:
            return 0.0
        return rate.learning_rate * gradient / (math.sqrt(rate.squares[slot]) * unit)
    decay = math.pow(DECAY, float(step - rate.time[slot]))
    rate.time[slot] = step
    rate.squares[slot] = decay * rate.squares[slot] + (1.0 - DECAY) * gradient * gradient
    # The mean of moves that counts now is that of the step before this one.
    before = decay / DECAY * rate.moves[slot]
    moved = math.sqrt(before + EPSILON) / math.sqrt(rate.squares[slot] + EPSILON) * gradient
    rate.moves[slot] = DECAY * before + (1.0 - DECAY) * moved * moved
    return moved
