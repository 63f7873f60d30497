"""Weights of sparse features by the evidence for them: a function of the gradients so far, not a sum of steps.

With the normalized rate, the weight of a sparse feature that has differed in n lists is *(ours)*

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

import numpy as np

from mpitune.jit import kernel
from mpitune.learner.online.columns import FeatureColumns
from mpitune.learner.online.gram import ROUNDING
from mpitune.learner.online.rates import Rate

SPARSE_STEP = 6.0
"""Weight of a sparse feature on which very many lists agree, in steps of a dense feature *(ours)*."""
PRIOR = 120.0
"""Lists that count as much as the prior *(ours)*: on Europarl, the mean of n a^2 is 1 + n / k with k of 66 to 145 for
rules, target bigrams and word pairs, from 3 to 300 lists."""


@kernel
def supported(rate: Rate, slot: int) -> float:
    """The weight of ``slot``, a sparse feature of a normalized ``rate``, that follows from its gradients."""
    lists, squares = rate.lists[slot], rate.squares[slot]
    if lists == 0.0 or squares == 0.0:
        return 0.0
    unit = math.sqrt(rate.sizes[slot] / lists)
    total = rate.sums[slot]
    size = abs(total) - lists * rate.l1 / unit
    if size <= ROUNDING * math.sqrt(lists * squares):
        return 0.0
    n, c = lists / rate.passes, SPARSE_STEP * rate.learning_rate
    weight = c * n / (n + PRIOR) * size / math.sqrt(lists * squares)
    weight /= unit * (1.0 + 2.0 * rate.l2 * c / (unit * unit * math.sqrt(squares / lists)))
    return math.copysign(weight, total)


def all_supported(rate: Rate, size: int) -> np.ndarray:
    """float64 [size]: `supported` of each slot."""
    result = np.empty(size)
    _fill_supported(rate, result)
    return result


@kernel
def _fill_supported(rate: Rate, result: np.ndarray) -> None:
    for slot in range(len(result)):
        result[slot] = supported(rate, slot)


def base_weights(rate: Rate, weights: np.ndarray) -> np.ndarray:
    """float64 [D]: the part of ``weights`` (float64 [D]) that does not follow from the gradients: initial weights.

    A feature with weight 0 has none: it was not selected, and that of its evidence is not to be taken from it later.
    """
    return np.where(weights != 0.0, weights - all_supported(rate, len(weights)), 0.0)


@kernel
def follow_evidence(columns: FeatureColumns, rate: Rate, base: np.ndarray, weights: np.ndarray) -> None:
    """Set the weights of the sparse features in which a list's entries differ to ``base`` + what is supported.

    ``base``, ``weights``: float64 [D].
    """
    for c in range(len(columns.slot)):
        slot = columns.slot[c]
        if slot >= rate.first_sparse and columns.column_ptr[c] < columns.column_ptr[c + 1]:
            weights[slot] = base[slot] + supported(rate, slot)
