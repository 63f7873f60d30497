"""The normalized rate: AdaGrad in units of each feature, for dense ones; for sparse ones, weights by the evidence.

After Ross, Mineiro and Langford 2013, *Normalized Online Learning*, algorithm NAG: multiplying a feature by a constant
changes model scores by rounding alone. The unit is *(ours)*: the root mean square of the feature's differences over
pairs that differ in it; a count that differs by 1 has unit 1. If the unit grows, what a dense weight has changed in the
pass shrinks accordingly, as in NAG: the first lists may differ little in a feature, and steps in their unit would be
far too large for later ones. The state continues from list to list, shard to shard and epoch to epoch, so that steps
anneal over the whole training.

The weights of sparse features are a function of the gradients so far, not a sum of steps. That of a feature that has
differed in n lists is *(ours)*

    c a n / (n + `PRIOR`) / unit,

a being the agreement of its gradients, their mean / the root of their mean square: 1 if all lists want the same, 0 if
as many want the opposite. c is `SPARSE_STEP` times the learning rate.

- c a follows the regularised leader (McMahan, AISTATS 2011): it maximises the sum of g w - rms(g) w^2 / 2c over all
  gradients g so far. For given gradients it does not depend on how the lists are divided among shards: after an
  exchange (algorithms 3 and 4) the states of all shards are added up, and weights follow from the sum. A sum of steps
  grows with the number of lists instead, and each shard takes its own chance for evidence. Which columns algorithm 4
  selects depends on the shards' own weights, as in the paper.
- n / (n + `PRIOR`) makes it the posterior mean of an agreement whose prior is normal with variance 1 / `PRIOR`: few
  lists say little, even if they agree.
- The same sentences in another epoch are no further evidence: n is the number of lists / that of epochs. So the weight
  of a feature fades from epoch to epoch once lists no longer differ in it.

l1 and l2 are part of the sum: - l1 |w| and - l2 w^2 for each list, w in the feature's own scale. They do not change
initial weights of sparse features, which are added to what follows from the gradients.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns
from mpitune.learner.online.gram import ROUNDING, fill_gradient

SPARSE_STEP = 6.0
"""Weight of a sparse feature on which very many lists agree, in steps of a dense feature *(ours)*."""
PRIOR = 120.0
"""Lists that count as much as the prior *(ours)*: on Europarl, the mean of n a^2 is 1 + n / k with k of 66 to 145 for
rules, target bigrams and word pairs, from 3 to 300 lists."""


class Evidence(NamedTuple):
    """The state of the normalized rate, by slot."""

    learning_rate: float
    first_sparse: int
    """First slot of the sparse features."""
    passes: float
    """Number of passes over the sentences behind the state, at least 1. The running pass counts when it ends: before,
    the evidence of a second one is up to twice that of the first *(ours)*."""
    l1: float
    l2: float
    squares: np.ndarray
    """float64 [D]: sum of squared gradients."""
    sums: np.ndarray
    """float64 [D]: sum of gradients."""
    sizes: np.ndarray
    """float64 [D]: sum over lists of the mean squared difference, over the pairs that differ."""
    lists: np.ndarray
    """float64 [D]: the number of these lists."""


@kernel
def supported(evidence: Evidence, slot: int) -> float:
    """The weight of ``slot``, a sparse feature, that follows from its gradients."""
    lists, squares = evidence.lists[slot], evidence.squares[slot]
    if lists == 0.0 or squares == 0.0:
        return 0.0
    unit = math.sqrt(evidence.sizes[slot] / lists)
    total = evidence.sums[slot]
    size = abs(total) - lists * evidence.l1 / unit
    if size <= ROUNDING * math.sqrt(lists * squares):
        return 0.0
    n, c = lists / evidence.passes, SPARSE_STEP * evidence.learning_rate
    weight = c * n / (n + PRIOR) * size / math.sqrt(lists * squares)
    weight /= unit * (1.0 + 2.0 * evidence.l2 * c / (unit * unit * math.sqrt(squares / lists)))
    return math.copysign(weight, total)


def all_supported(evidence: Evidence, size: int) -> np.ndarray:
    """float64 [size]: `supported` of each slot."""
    result = np.empty(size)
    _fill_supported(evidence, result)
    return result


@kernel
def _fill_supported(evidence: Evidence, result: np.ndarray) -> None:
    for slot in range(len(result)):
        result[slot] = supported(evidence, slot)


def base_weights(evidence: Evidence, weights: np.ndarray) -> np.ndarray:
    """float64 [D]: the part of ``weights`` (float64 [D]) that does not follow from the gradients: initial weights.

    A feature with weight 0 has none: it was not selected, and that of its evidence is not to be taken from it later.
    """
    return np.where(weights != 0.0, weights - all_supported(evidence, len(weights)), 0.0)


@kernel
def follow_evidence(columns: FeatureColumns, evidence: Evidence, base: np.ndarray, weights: np.ndarray) -> None:
    """Set the weights of the sparse features in which a list's entries differ to ``base`` + what is supported.

    ``base``, ``weights``: float64 [D].
    """
    for c in range(len(columns.slot)):
        slot = columns.slot[c]
        if slot >= evidence.first_sparse and columns.column_ptr[c] < columns.column_ptr[c + 1]:
            weights[slot] = base[slot] + supported(evidence, slot)


def update_units(
    columns: FeatureColumns, pairs: np.ndarray, evidence: Evidence, first: np.ndarray, weights: np.ndarray
) -> None:
    """Add the differences of all ``pairs`` (int32 [pairs, 2]) to the units of the features.

    Each list counts once per feature, with the mean square of its differences that exceed `ROUNDING`. Where the unit
    of a dense feature grows, the difference of ``weights`` from ``first`` (float64 [D] each; at the start of the pass)
    is divided by the growth.
    """
    width = len(columns.slot)
    _update_units(columns, pairs, evidence, first, weights, np.zeros(width), np.zeros(width), np.zeros(width))


@kernel
def _update_units(
    columns: FeatureColumns,
    pairs: np.ndarray,
    evidence: Evidence,
    first: np.ndarray,
    weights: np.ndarray,
    difference: np.ndarray,
    squares: np.ndarray,
    counts: np.ndarray,
) -> None:
    """`update_units`, same shapes; ``difference``, ``squares``, ``counts``: float64 [columns], all 0, working space."""
    for p in range(len(pairs)):
        for i in range(columns.row_ptr[pairs[p, 0]], columns.row_ptr[pairs[p, 0] + 1]):
            difference[columns.column[i]] += columns.row_value[i]
        for i in range(columns.row_ptr[pairs[p, 1]], columns.row_ptr[pairs[p, 1] + 1]):
            difference[columns.column[i]] -= columns.row_value[i]
        for side in range(2):
            row = pairs[p, side]
            for i in range(columns.row_ptr[row], columns.row_ptr[row + 1]):
                c = columns.column[i]
                # A difference to no value at all is the value itself.
                if abs(difference[c]) > ROUNDING * abs(columns.row_value[i]):
                    squares[c] += difference[c] * difference[c]
                    counts[c] += 1.0
                difference[c] = 0.0
    for c in range(len(columns.slot)):
        if counts[c] > 0.0:
            slot = columns.slot[c]
            size, lists = evidence.sizes[slot], evidence.lists[slot]
            evidence.sizes[slot] += squares[c] / counts[c]
            evidence.lists[slot] += 1.0
            if size > 0.0 and slot < evidence.first_sparse:
                growth = math.sqrt(evidence.sizes[slot] / evidence.lists[slot] / (size / lists))
                if growth > 1.0:
                    weights[slot] = first[slot] + (weights[slot] - first[slot]) / growth


def add_gradient(
    columns: FeatureColumns, coefficients: np.ndarray, divisor: float, evidence: Evidence, weights: np.ndarray
) -> None:
    """Add the gradient X^T ``coefficients`` (float64 [k]) / ``divisor`` to the state, and take steps of dense features.

    ``weights``: float64 [D]. The gradient is divided, and not the coefficients: these would be rounded, and gradients
    whose terms cancel would not be exactly 0.
    """
    _add_gradient(columns, coefficients, divisor, evidence, np.zeros(len(columns.slot)), weights)


@kernel
def _add_gradient(
    columns: FeatureColumns,
    coefficients: np.ndarray,
    divisor: float,
    evidence: Evidence,
    gradient: np.ndarray,
    weights: np.ndarray,
) -> None:
    """`add_gradient`, same shapes; ``gradient``: float64 [columns], all 0, working space."""
    fill_gradient(columns, coefficients, gradient)
    for c in range(len(columns.slot)):
        slot = columns.slot[c]
        if gradient[c] == 0.0 or evidence.sizes[slot] == 0.0:
            continue
        unit = math.sqrt(evidence.sizes[slot] / evidence.lists[slot])
        change = gradient[c] / divisor / unit
        evidence.sums[slot] += change
        evidence.squares[slot] += change * change
        if slot < evidence.first_sparse and evidence.squares[slot] != 0.0:
            weights[slot] += evidence.learning_rate * change / (math.sqrt(evidence.squares[slot]) * unit)
