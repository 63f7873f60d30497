"""The pairwise ranking perceptron (Simianer, Riezler and Dyer, ACL 2012, section 2) and its options.

A pair with difference d = x_preferred - x_other has loss max(0, margin - w.d). If w.d < margin (without a margin, if
w.d <= 0), w is updated along d. A pair with d = 0 is never an update. Frozen features count in w.d but are not updated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.decoder.base import KBest
from mpitune.errors import UsageError
from mpitune.learner.base import Counts, EvidenceLearner, OnlineLearner
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.online.after_updates import AfterUpdates, Clipping
from mpitune.learner.online.columns import FeatureColumns, columns_of
from mpitune.learner.online.evidence import (
    Evidence,
    add_gradient,
    all_supported,
    base_weights,
    follow_evidence,
    update_units,
)
from mpitune.learner.online.gram import RankedPairs, apply_gradient, batch_update, fill_gram, sequential_update
from mpitune.learner.online.rates import ARRAYS, rate_of
from mpitune.learner.online.sparse_update import Workspace, frozen_scores, shrink_all, sparse_sequential_update
from mpitune.learner.pair_sampling import SAMPLERS, Sampler, make_sampler
from mpitune.learner.weights import SparseWeights, Weights
from mpitune.schema import choice, choices, number


@METHODS.register("perceptron")
@dataclass(frozen=True)
class PerceptronOptions(Method):
    """The perceptron's options, which stand in a job's ``[learner]`` itself."""

    learning_rate: float = number(0.1, 0.0, above=True)
    pairs: str = choices(SAMPLERS, "pro")
    share: float = number(0.1, 0.0, 0.5, above=True)
    extend_ties: bool = False
    order: str = choice("sentence", "sequential")
    """``sequential``: each pair uses the weights that the one before it left. ``sentence``: all pairs of a list use the
    weights that it was decoded with, and their gradients are summed into one step."""
    margin: float = number(1.0, 0.0)
    margin_by_gold: bool = True
    """Multiply a pair's margin by its difference of gold scores, as in a structured hinge loss with margin rescaling
    (Tsochantaridis et al. 2005)."""
    rate: str = choice(*ARRAYS)
    l1: float = number(0.0, 0.0)
    """Strength of cumulative clipping (Tsuruoka et al. 2009): after each list its features, at a shard's end all."""
    l2: float = number(0.0, 0.0)
    """After each updating pair w -= 2 l2 learning_rate w / P, P being the number of pairs of the list. Both: but for
    sparse features of the normalized rate, see `evidence`."""
    scale_by_gold: bool = False
    """Multiply a pair's d by its difference of gold scores."""

    def make(self, parts: Parts) -> Perceptron:
        return (NormalizedPerceptron if self.rate == "normalized" else Perceptron)(self.sampler(), self)

    def sampler(self) -> Sampler:
        """The sampler of the pairs that are compared."""
        return make_sampler(self.pairs, self.share, self.extend_ties)

    def remedy(self) -> str:
        if self.rate == "adadelta":
            return 'set learner.rate = "normalized"'
        # Without a margin and from zero weights, the learning rate only scales the weights.
        return "lower learner.learning_rate" if self.margin > 0 else "set learner.margin above 0"

    def after_updates(self) -> list[AfterUpdates]:
        penalty = self.learning_rate * self.l1
        return [Clipping(penalty, dense_only=self.rate == "normalized")] if self.l1 > 0 else []


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


class NormalizedPerceptron(Perceptron, EvidenceLearner):
    """The weights of dense features change by steps, those of sparse ones follow from the state (`evidence`).

    A list counts as a whole (``order = "sentence"``); its gradient is the mean over the pairs that need an update.
    """

    def __init__(self, sampler: Sampler, options: PerceptronOptions) -> None:
        """Raises UsageError if ``options.order`` is another one."""
        if options.order != "sentence":
            found = f'"normalized" with learner.order = "{options.order}"'
            raise UsageError(f'learner.rate: found {found}, expected learner.order = "sentence" with it')
        super().__init__(sampler, options)

    def start_shard(self, weights: Weights, passes: int = 0) -> None:
        """See `OnlineLearner`."""
        self._passes = passes
        # What this pass does not change: of dense features the first weights, which the changes are measured from; of
        # sparse ones what does not follow from gradients.
        weights.array("base")[:] = base_weights(self._evidence(weights), weights.value)
        weights.array("base")[: weights.first_sparse] = weights.value[: weights.first_sparse]

    def end_shard(self, weights: Weights) -> None:
        """Now that the pass is over, it counts among those that share the evidence."""
        supported = all_supported(self._evidence(weights, 1), len(weights.value))
        follows = weights.value != 0.0
        follows[: weights.first_sparse] = False
        weights.value[follows] = weights.array("base")[follows] + supported[follows]

    def merge(self, start: SparseWeights, mixed: SparseWeights, passes: int) -> np.ndarray:
        """See `EvidenceLearner`."""
        base = base_weights(self._of(start.state, passes - 1), start.value)
        merged: np.ndarray = base + all_supported(self._of(mixed.state, passes), len(base))
        return merged

    def _evidence(self, weights: Weights, more: int = 0) -> Evidence:
        """The evidence in ``weights``, as long as these do not grow; ``more``: passes than before this one."""
        return self._of([weights.array(name) for name in self.state], self._passes + more, weights.first_sparse)

    def _of(self, state: Sequence[np.ndarray], passes: int, first_sparse: int = 0) -> Evidence:
        options = self._options
        return Evidence(options.learning_rate, first_sparse, float(max(passes, 1)), options.l1, options.l2, *state)

    def _learn(self, kbest: KBest, columns: FeatureColumns, pairs: RankedPairs, decay: float, weights: Weights) -> int:
        value, base, dense = weights.value, weights.array("base"), slice(weights.first_sparse)
        evidence, scores, coefficients = self._evidence(weights), np.empty(kbest.size), np.zeros(kbest.size)
        row_scores(kbest.feature_ptr, kbest.feature_index, kbest.feature_value, value, scores)
        updates = batch_update(columns, pairs, scores, coefficients)
        update_units(columns, pairs.entries, evidence, base, value)
        if updates:
            if decay:
                shrink_all(value[dense], weights.frozen[dense], 1 - updates * decay)
            add_gradient(columns, coefficients, float(updates), evidence, value)
        follow_evidence(columns, evidence, base, value)
        return updates
