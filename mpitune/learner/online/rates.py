"""Learning rates: the change of a weight for a gradient.

- ``constant``: the learning rate times the gradient.
- ``adagrad``: divided by the root of the sum of squared gradients (Duchi et al. 2011).
- ``adadelta``: Zeiler 2012, algorithm 1; it has no learning rate.
- ``normalized``: AdaGrad in units of each feature (after Ross, Mineiro and Langford 2013, *Normalized Online
  Learning*, algorithm NAG): multiplying a feature by a constant changes model scores by rounding alone. The unit is
  *(ours)*: the root mean square of the feature's differences over pairs that differ in it; a count that differs by 1
  has unit 1. If the unit grows, what the weight has changed in the pass shrinks accordingly, as in NAG: the first lists
  may differ little in a feature, and steps in their unit would be far too large for later ones.
  This is the rate of dense features. The weights of sparse ones are a function of the state, see `evidence`.

The state of ``adagrad`` and ``normalized`` continues from list to list, shard to shard and epoch to epoch, so that
steps anneal over the whole training; the state of ``adadelta`` is reset for each pass over a shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.jit import kernel
from mpitune.portable_math import whole_power

DECAY = 0.95
"""AdaDelta: decay of its running means per step (rho)."""
EPSILON = 1e-6
"""AdaDelta: added under both roots."""
_CONSTANT, _ADAGRAD, _ADADELTA, NORMALIZED = range(4)
RATES = {
    "normalized": NORMALIZED,
    "constant": _CONSTANT,
    "adagrad": _ADAGRAD,
    "adadelta": _ADADELTA,
}
"""The kind of a `Rate` by ``learner.rate``; the first is the default."""
PERSISTENT_STATE: dict[str, tuple[str, ...]] = {
    "constant": (),
    "adagrad": ("squares",),
    "adadelta": (),
    "normalized": ("squares", "sums", "sizes", "lists"),
}
"""By rate: the arrays of a `Rate` that continue from shard to shard."""


class Rate(NamedTuple):
    """A rate and its state, indexed by slot; arrays that the kind does not use are empty."""

    kind: int
    learning_rate: float
    first_sparse: int
    """First slot of the sparse features."""
    passes: float
    """Normalized: how often the sentences behind the state were learned from, at least 1. The running pass counts when
    it ends: before, the evidence of a second one is up to twice that of the first *(ours)*."""
    l1: float
    l2: float
    """Normalized: strengths of regularisation, for `evidence`."""
    squares: np.ndarray
    """float64 [D]: AdaGrad, normalized: sum of squared gradients; AdaDelta: their running mean."""
    moves: np.ndarray
    """float64 [D]: AdaDelta: running mean of squared weight changes."""
    time: np.ndarray
    """int64 [D]: AdaDelta: the step at which both means were last updated."""
    sizes: np.ndarray
    """float64 [D]: normalized: sum over lists of the mean squared difference, over the pairs that differ."""
    lists: np.ndarray
    """float64 [D]: normalized: the number of these lists."""
    sums: np.ndarray
    """float64 [D]: normalized: sum of gradients."""


_ARRAYS: dict[int, tuple[str, ...]] = {
    _CONSTANT: (),
    _ADAGRAD: ("squares",),
    _ADADELTA: ("squares", "moves", "time"),
    NORMALIZED: ("squares", "sums", "sizes", "lists"),
}
"""By kind: the arrays of a `Rate` that are not empty."""


def make_rate(
    name: str,
    learning_rate: float,
    state: Sequence[np.ndarray] = (),
    *,
    first_sparse: int = 0,
    passes: int = 0,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Rate:
    """The rate called ``name``, with the arrays of ``state`` (`PERSISTENT_STATE`, float64 [D] each); by default new.

    ``passes``: how often the sentences of the pass were learned from before; ``l1``, ``l2``: see `Rate`.
    """
    none = np.zeros(0)
    no_time = np.zeros(0, dtype=np.int64)
    arrays = (none, none, no_time, none, none, none)
    rate = Rate(RATES[name], learning_rate, first_sparse, float(max(passes, 1)), l1, l2, *arrays)
    return _with(rate, dict(zip(PERSISTENT_STATE[name], state, strict=False)))


def _with(rate: Rate, arrays: dict[str, np.ndarray]) -> Rate:
    replaced: Rate = rate._replace(**arrays)  # type: ignore[arg-type]  # mypy takes any field for any name
    return replaced


def persistent_state(rate: Rate, name: str) -> tuple[np.ndarray, ...]:
    """The state to continue from: `PERSISTENT_STATE`, float64 [D] each."""
    return tuple(getattr(rate, array) for array in PERSISTENT_STATE[name])


def grow_rate(rate: Rate, size: int) -> Rate:
    """``rate`` for ``size`` slots; the state of new slots is 0."""
    return _with(rate, {array: grow_to(getattr(rate, array), size, 0) for array in _ARRAYS[rate.kind]})


@kernel
def weight_change(rate: Rate, slot: int, gradient: float, step: int) -> float:
    """The change of the weight of ``slot`` for ``gradient``, the direction in which the objective rises.

    ``step`` counts the steps of the pass from 1. AdaDelta's means decay in every step, also if the gradient is 0; the
    missed decay is applied here. AdaGrad adds the square first.
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
        rate.sums[slot] += gradient
        rate.squares[slot] += gradient * gradient
        if rate.squares[slot] == 0.0:
            return 0.0
        return rate.learning_rate * gradient / (math.sqrt(rate.squares[slot]) * unit)
    decay = whole_power(DECAY, step - rate.time[slot])
    rate.time[slot] = step
    rate.squares[slot] = decay * rate.squares[slot] + (1.0 - DECAY) * gradient * gradient
    # The step uses the running mean of changes as of the step before this one.
    before = decay / DECAY * rate.moves[slot]
    change = math.sqrt(before + EPSILON) / math.sqrt(rate.squares[slot] + EPSILON) * gradient
    rate.moves[slot] = DECAY * before + (1.0 - DECAY) * change * change
    return change
