"""The perceptron with the normalized rate: steps of dense features, and the evidence for sparse ones.

A list counts as a whole (``order = "sentence"``); its gradient is the mean over the pairs that need an update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.decoder.base import KBest
from mpitune.errors import UsageError
from mpitune.learner.base import EvidenceLearner
from mpitune.learner.online.columns import FeatureColumns
from mpitune.learner.online.evidence import (
    Evidence,
    add_gradient,
    all_supported,
    base_weights,
    follow_evidence,
    update_units,
)
from mpitune.learner.online.gram import RankedPairs, batch_update
from mpitune.learner.online.perceptron import Perceptron, PerceptronOptions
from mpitune.learner.online.sparse_update import shrink_all
from mpitune.learner.pair_sampling import Sampler
from mpitune.learner.weights import SparseWeights, Weights


class NormalizedPerceptron(Perceptron, EvidenceLearner):
    """Its sparse weights follow from the state."""

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
