"""Learning rates: the change of a weight for a gradient.

- ``constant``: the learning rate times the gradient.
- ``adagrad``: divided by the root of the sum of squared gradients (Duchi et al. 2011).
- ``adadelta``: Zeiler 2012, algorithm 1; it has no learning rate.
- ``normalized``: AdaGrad in units of each feature (after Ross, Mineiro and Langford 2013, *Normalized Online
  Learning*, algorithm NAG): multiplying a feature by a constant changes model scores by rounding alone. The unit is
  *(ours)*: the root mean square of the feature's differences over pairs that differ in it; a count that differs by 1
  has unit 1. If the unit grows, what the weight has changed in the pass shrinks accordingly, as in NAG: the first lists
  may differ little in a feature, and steps in their unit would be far too large for later ones.
  Sparse features share a step *(ours)*: if n of them change, each step is multiplied by 4 / sqrt(n), so that n
  unrelated steps together change scores as much as four dense features do, before they are shrunk. Otherwise a hundred
  sparse features outweigh a dozen dense ones after a few lists.
  A sparse feature moves from the second list on that it differs in *(ours)*: what differs in one sentence of a pass
  alone would learn that sentence by heart, and what other sentences need too would be learned less from it.
  The change of a sparse feature is shrunk *(ours)*: it is multiplied by max(0, 1 - `EVIDENCE` t / z^2), with z = sum of
  its gradients / root of the sum of their squares, and t earlier passes over the same sentences, at least 1. If the
  signs are chance, the mean of z^2 is 1; if they are the same in each pass, t: a sentence seen again is no further
  evidence. This is the form of the positive-part estimator of James and Stein (1961), feature by feature. Without it,
  thousands of features whose gradients contradict one another weigh as much as those whose gradients agree.

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
from mpitune.learner.choices import RateName

EVIDENCE = 2.0
"""Normalized: the z^2 of a pass up to which a sparse feature does not change *(ours)*: AIC keeps what is above 2."""
DECAY = 0.95
"""AdaDelta: decay of its running means per step (rho)."""
EPSILON = 1e-6
"""AdaDelta: added under both roots."""
_CONSTANT, _ADAGRAD, _ADADELTA, NORMALIZED = range(4)
RATES: dict[RateName, int] = {
    "constant": _CONSTANT,
    "adagrad": _ADAGRAD,
    "adadelta": _ADADELTA,
    "normalized": NORMALIZED,
}
"""The kind of a `Rate` by name."""
PERSISTENT_STATE: dict[RateName, tuple[str, ...]] = {
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
    chance: float
    """Normalized: the z^2 up to which a sparse feature does not change, see `shrunk`."""
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
    steps: np.ndarray
    """float64 [D]: normalized, sparse features: sum of the pass's steps before they are shrunk."""
    applied: np.ndarray
    """float64 [D]: normalized, sparse features: what of `steps` is applied to the weight, see `shrunk`."""


_ARRAYS: dict[int, tuple[str, ...]] = {
    _CONSTANT: (),
    _ADAGRAD: ("squares",),
    _ADADELTA: ("squares", "moves", "time"),
    NORMALIZED: ("squares", "sums", "sizes", "lists", "steps", "applied"),
}
"""By kind: the arrays of a `Rate` that are not empty."""


def make_rate(
    name: RateName, learning_rate: float, state: Sequence[np.ndarray] = (), *, first_sparse: int = 0, passes: int = 0
) -> Rate:
    """The rate called ``name``, continued from ``state`` (`PERSISTENT_STATE`, float64 [D] each); by default new.

    ``passes``: how often the sentences of the pass were learned from before.
    """
    none = np.zeros(0)
    no_time = np.zeros(0, dtype=np.int64)
    chance = EVIDENCE * max(passes, 1)
    rate = Rate(RATES[name], learning_rate, first_sparse, chance, none, none, no_time, none, none, none, none, none)
    return _with(rate, {array: values.copy() for array, values in zip(PERSISTENT_STATE[name], state, strict=False)})


def _with(rate: Rate, arrays: dict[str, np.ndarray]) -> Rate:
    replaced: Rate = rate._replace(**arrays)  # type: ignore[arg-type]  # mypy takes any field for any name
    return replaced


def persistent_state(rate: Rate, name: RateName) -> tuple[np.ndarray, ...]:
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
    decay = math.pow(DECAY, float(step - rate.time[slot]))
    rate.time[slot] = step
    rate.squares[slot] = decay * rate.squares[slot] + (1.0 - DECAY) * gradient * gradient
    # The step uses the running mean of changes as of the step before this one.
    before = decay / DECAY * rate.moves[slot]
    change = math.sqrt(before + EPSILON) / math.sqrt(rate.squares[slot] + EPSILON) * gradient
    rate.moves[slot] = DECAY * before + (1.0 - DECAY) * change * change
    return change


@kernel
def shrunk(rate: Rate, slot: int) -> float:
    """The sum of the pass's steps of the sparse feature ``slot`` of a normalized ``rate``, shrunk to what agrees."""
    total, steps = rate.sums[slot], rate.steps[slot]
    chance = rate.chance * rate.squares[slot]
    factor = 1.0 - chance / (total * total) if total * total > chance and total * steps > 0.0 else 0.0
    return float(factor * steps)
