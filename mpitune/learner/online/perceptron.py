"""The pairwise ranking perceptron (Simianer, Riezler and Dyer, ACL 2012, section 2) and its options.

A pair with difference d = x_preferred - x_other has loss max(0, margin - w.d). If w.d < margin (without a margin, if
w.d <= 0), w is updated along d. A pair with d = 0 is never an update. Frozen features count in w.d but are not updated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.decoder.base import KBest
from mpitune.learner.base import Counts, OnlineLearner
from mpitune.learner.choices import RateName, UpdateOrder
from mpitune.learner.online.columns import FeatureColumns, columns_of
from mpitune.learner.online.gram import RankedPairs, apply_gradient, batch_update, fill_gram, sequential_update
from mpitune.learner.online.rates import ARRAYS, rate_of
from mpitune.learner.online.sparse_update import Workspace, frozen_scores, shrink_all, sparse_sequential_update
from mpitune.learner.pair_sampling import Sampler
from mpitune.learner.weights import Weights


@dataclass(frozen=True)
class PerceptronOptions:
    """The perceptron's options, named as in a job's ``[learner]``, whose schema checks their ranges."""

    learning_rate: float
    margin: float
    margin_by_gold: bool
    """Multiply a pair's margin by its difference of gold scores, as in a structured hinge loss with margin rescaling
    (Tsochantaridis et al. 2005)."""
    order: UpdateOrder
    """``sequential``: each pair uses the weights that the one before it left. ``sentence``: all pairs of a list use the
    weights that it was decoded with, and their gradients are summed into one step."""
    rate: RateName
    l1: float
    """Strength of cumulative clipping (Tsuruoka et al. 2009): after each list its features, at a shard's end all."""
    l2: float
    """After each updating pair w -= 2 l2 learning_rate w / P, P being the number of pairs of the list. Both: but for
    sparse features of the normalized rate, see `evidence`."""
    scale_by_gold: bool
    """Multiply a pair's d by its difference of gold scores."""


class Perceptron(OnlineLearner):
    """The weights change by steps; l1 is not its own (`Clipping`)."""

    def __init__(self, sampler: Sampler, options: PerceptronOptions) -> None:
        self._sampler, self._options = sampler, options
        # That of AdaDelta begins anew with each pass.
        self.state = () if options.rate == "adadelta" else ARRAYS[options.rate]
        self.changes_all = options.l2 > 0

    def start_shard(self, weights: Weights, passes: int = 0) -> None:
        """See `OnlineLearner`."""
        self._steps = 0

    def update(self, kbest: KBest, gold: np.ndarray, weights: Weights, random: np.random.Generator) -> Counts:
        """Raises ValueError if ``kbest`` has features beyond the end of ``weights``."""
        options = self._options
        pairs, columns = self._sampler(gold, kbest.score, random), columns_of(kbest, weights)
        if not len(pairs):
            return Counts(0, 0)
        difference = gold[pairs[:, 0]] - gold[pairs[:, 1]]
        scale = difference if options.scale_by_gold else np.ones(len(pairs))
        margin = options.margin * (difference if options.margin_by_gold else np.ones(len(pairs)))
        decay = 2 * options.l2 * options.learning_rate / len(pairs)
        updates = self._learn(kbest, columns, RankedPairs(pairs, scale, margin), decay, weights)
        return Counts(len(pairs), int(updates))

    def _learn(self, kbest: KBest, columns: FeatureColumns, pairs: RankedPairs, decay: float, weights: Weights) -> int:
        """Update ``weights`` by ``pairs``; returns the number of pairs that needed an update.

        ``decay``: the share of each weight that l2 takes with each of them.
        """
        options, value, frozen = self._options, weights.value, weights.frozen
        rate, scores = rate_of(options.rate, options.learning_rate, weights), np.empty(kbest.size)
        if options.order == "sequential" and (options.rate != "constant" or options.l2 > 0):
            workspace = Workspace(np.empty(len(columns.slot)), np.zeros(len(columns.slot)), scores)
            frozen_scores(kbest, frozen, value, workspace.frozen_score)
            updates = sparse_sequential_update(columns, pairs, rate, self._steps, 1 - decay, frozen, workspace, value)
            self._steps += updates
            return updates
        row_scores(kbest.feature_ptr, kbest.feature_index, kbest.feature_value, value, scores)
        coefficients = np.zeros(kbest.size)
        if options.order == "sequential":
            gram = np.empty((kbest.size, kbest.size))
            fill_gram(columns, gram)
            updates = sequential_update(columns, gram, pairs, options.learning_rate, scores, coefficients)
        else:
            updates = batch_update(columns, pairs, scores, coefficients)
        if updates:
            if decay:
                shrink_all(value, frozen, 1 - updates * decay)
            self._steps += 1
            apply_gradient(columns, coefficients, rate, self._steps, value)
        return updates
