"""The pairwise ranking perceptron (Simianer, Riezler and Dyer, ACL 2012, section 2) and its options.

A pair with difference d = x_preferred - x_other has loss max(0, margin - w.d). If w.d < margin (without a margin, if
w.d <= 0), w is updated along d. A pair with d = 0 is never an update. Frozen features count in w.d but are not updated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.array_files.grow import grow_to
from mpitune.decoder.base import KBest
from mpitune.errors import UsageError
from mpitune.jit import kernel
from mpitune.learner.base import Counts, Exchanged
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.online.columns import FeatureColumns, columns_of
from mpitune.learner.online.evidence import all_supported, base_weights, follow_evidence
from mpitune.learner.online.gram import (
    RankedPairs,
    apply_gradient,
    batch_update,
    fill_gram,
    sequential_update,
    update_units,
)
from mpitune.learner.online.rates import PERSISTENT_STATE, RATES, Rate, grow_rate, make_rate, persistent_state
from mpitune.learner.online.sparse_update import Workspace, frozen_scores, shrink_all, sparse_sequential_update
from mpitune.learner.pair_sampling import SAMPLERS, Sampler, make_sampler
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
    rate: str = choice(*RATES)
    l1: float = number(0.0, 0.0)
    """Strength of cumulative clipping (Tsuruoka et al. 2009): after each list its features, at a shard's end all."""
    l2: float = number(0.0, 0.0)
    """After each updating pair w -= 2 l2 learning_rate w / P, P being the number of pairs of the list. Both: but for
    sparse features of the normalized rate, see `evidence`."""
    scale_by_gold: bool = False
    """Multiply a pair's d by its difference of gold scores."""

    def make(self, parts: Parts) -> Perceptron:
        return Perceptron(self.sampler(), self, parts.frozen, parts.first_sparse, parts.new_frozen)

    def sampler(self) -> Sampler:
        """The sampler of the pairs that are compared."""
        return make_sampler(self.pairs, self.share, self.extend_ties)

    def remedy(self) -> str:
        if self.rate == "adadelta":
            return 'set learner.rate = "normalized"'
        # Without a margin and from zero weights, the learning rate only scales the weights.
        return "lower learner.learning_rate" if self.margin > 0 else "set learner.margin above 0"

    def follows_state(self) -> bool:
        return self.rate == "normalized"


class Perceptron:
    """An `mpitune.learner.base.OnlineLearner`."""

    def __init__(
        self,
        sampler: Sampler,
        options: PerceptronOptions,
        frozen: np.ndarray,
        first_sparse: int = 0,
        new_frozen: bool = False,
    ) -> None:
        """``frozen``: bool [slots], features that are not updated; ``new_frozen``: nor are slots beyond its end.

        ``first_sparse``: first slot of the sparse features. Raises UsageError if rate and order cannot be combined.
        """
        if options.rate == "normalized" and options.order != "sentence":
            found = f'"normalized" with learner.order = "{options.order}"'
            raise UsageError(f'learner.rate: found {found}, expected learner.order = "sentence" with it')
        self._sampler = sampler
        self._options = options
        self._by_evidence = options.rate == "normalized"
        self._frozen, self._new_frozen = frozen, new_frozen
        self._first_sparse = first_sparse
        self.state_width = len(PERSISTENT_STATE[options.rate])

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = (), passes: int = 0) -> None:
        """Raises ValueError if there are fewer ``weights`` than slots known before."""
        if len(weights) < len(self._frozen):
            raise ValueError(f"{len(weights)} weights, but {len(self._frozen)} slots")
        self._passes = passes
        self._rate = self._rate_of([array.copy() for array in state], passes)
        self._steps = 0
        self._place = np.zeros(0, dtype=np.int32)
        self._due = 0.0
        self._paid = np.zeros(0)
        self._base = np.zeros(0)
        self._grow(len(weights))
        if self._by_evidence:
            # What this pass does not change: of dense features the first weights, which the changes are measured from;
            # of sparse ones what does not follow from gradients.
            sparse = np.arange(len(weights)) >= self._first_sparse
            self._base = np.where(sparse, base_weights(self._rate, weights), weights)

    def _rate_of(self, state: Sequence[np.ndarray], passes: int) -> Rate:
        options = self._options
        return make_rate(
            options.rate,
            options.learning_rate,
            state,
            first_sparse=self._first_sparse,
            passes=passes,
            l1=options.l1,
            l2=options.l2,
        )

    def _grow(self, size: int) -> None:
        """Grow all arrays indexed by slot to ``size``; a new feature has the state of one that has never fired."""
        self._frozen = grow_to(self._frozen, size, self._new_frozen)
        self._place = grow_to(self._place, size, -1)
        self._rate = grow_rate(self._rate, size)
        if self._by_evidence:
            self._base = grow_to(self._base, size, 0.0)
        if self._options.l1 > 0:
            self._paid = grow_to(self._paid, size, 0.0)

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        """Raises ValueError if ``kbest`` has features beyond the end of ``weights``."""
        if len(weights) > len(self._place):
            self._grow(len(weights))
        if len(kbest.feature_index) and kbest.feature_index.max() >= len(self._place):
            raise ValueError(f"feature slot {kbest.feature_index.max()}, but {len(self._place)} weights")
        pairs = self._sampler(gold, kbest.score, random)
        columns = columns_of(kbest, self._frozen, self._place)
        updates = self._learn(kbest, columns, pairs, gold, weights) if len(pairs) else 0
        if self._options.l1 > 0:
            self._due += self._options.learning_rate * self._options.l1
            _clip(columns.slot[columns.slot < self._end_of_steps], self._due, self._paid, weights)
        return Counts(len(pairs), updates)

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        if self._options.l1 > 0:
            free = np.flatnonzero(~self._frozen[: self._end_of_steps]).astype(np.int32)
            _clip(free, self._due, self._paid, weights)
        state = persistent_state(self._rate, self._options.rate)
        if self._by_evidence:
            # Now that the pass is over, it counts among those that share the evidence.
            follows = (np.arange(len(weights)) >= self._first_sparse) & (weights != 0.0)
            supported = all_supported(self._rate._replace(passes=float(self._passes + 1)), len(weights))
            weights[:] = np.where(follows, self._base + supported, weights)
        return state

    def settle(self, exchanged: Exchanged) -> np.ndarray:
        if not self._by_evidence:
            return exchanged.mixed
        base = base_weights(self._rate_of(exchanged.before, exchanged.passes - 1), exchanged.start)
        supported = all_supported(self._rate_of(exchanged.after, exchanged.passes), len(base))
        return np.where(exchanged.follows, base + supported, exchanged.mixed)

    @property
    def _end_of_steps(self) -> int:
        """The end of the slots whose weights change by steps."""
        return self._first_sparse if self._by_evidence else len(self._frozen)

    def _learn(
        self, kbest: KBest, columns: FeatureColumns, pairs: np.ndarray, gold: np.ndarray, weights: np.ndarray
    ) -> int:
        """Update ``weights`` by ``pairs`` (int32 [pairs, 2]); returns the number of pairs that needed an update."""
        options = self._options
        difference = gold[pairs[:, 0]] - gold[pairs[:, 1]]
        scale = difference if options.scale_by_gold else np.ones(len(pairs))
        margin = options.margin * (difference if options.margin_by_gold else np.ones(len(pairs)))
        ranked = RankedPairs(pairs, scale, margin)
        decay = 2 * options.l2 * options.learning_rate / len(pairs)
        if options.order == "sequential" and (options.rate != "constant" or options.l2 > 0):
            workspace = Workspace(np.empty(len(columns.slot)), np.zeros(len(columns.slot)), np.empty(kbest.size))
            frozen_scores(kbest, self._frozen, weights, workspace.frozen_score)
            updates = sparse_sequential_update(
                columns, ranked, self._rate, self._steps, 1 - decay, self._frozen, workspace, weights
            )
            self._steps += updates
            return int(updates)
        scores, coefficients = np.empty(kbest.size), np.zeros(kbest.size)
        row_scores(kbest.feature_ptr, kbest.feature_index, kbest.feature_value, weights, scores)
        if options.order == "sequential":
            gram = np.empty((kbest.size, kbest.size))
            fill_gram(columns, gram)
            updates = sequential_update(columns, gram, ranked, options.learning_rate, scores, coefficients)
        else:
            updates = batch_update(columns, ranked, scores, coefficients)
            if self._by_evidence:
                update_units(columns, pairs, self._rate, self._base, weights)
        if updates:
            if decay:
                end = self._end_of_steps
                shrink_all(weights[:end], self._frozen[:end], 1 - updates * decay)
            self._steps += 1
            divisor = float(updates) if self._by_evidence else 1.0
            apply_gradient(columns, coefficients, self._rate, self._steps, weights, divisor)
        if self._by_evidence:
            follow_evidence(columns, self._rate, self._base, weights)
        return int(updates)


@kernel
def _clip(slots: np.ndarray, due: float, paid: np.ndarray, weights: np.ndarray) -> None:
    """Apply the outstanding l1 penalty to the weights, not past 0 (Tsuruoka et al. 2009, figure 2).

    ``slots``: int32 [n], the weights to clip; ``due``: the penalty that the shard has accumulated so far (u); ``paid``:
    float64 [D], the signed penalty that each weight has received so far (q); ``weights``: float64 [D].
    """
    for i in range(len(slots)):
        slot = slots[i]
        before = weights[slot]
        if before > 0.0:
            weights[slot] = max(0.0, before - (due + paid[slot]))
        elif before < 0.0:
            weights[slot] = min(0.0, before + (due - paid[slot]))
        paid[slot] += weights[slot] - before
