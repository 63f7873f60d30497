"""The pairwise ranking perceptron (Simianer, Riezler and Dyer 2012, section 2), with the options that surround it.

A pair with difference d = x_preferred - x_other has loss max(0, margin - w.d). Where w.d < margin, or <= 0 without a
margin, w moves along d. A pair with d = 0 is never an update. Frozen features take part in w.d and in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.errors import UsageError
from mpitune.jit import kernel
from mpitune.learner.base import Counts
from mpitune.learner.online.columns import FeatureColumns, columns_of, model_scores
from mpitune.learner.online.direct import Space, fixed_scores, learn_in_turn, shrink_all
from mpitune.learner.online.gram import apply, batch_update, fill_gram, measure, sequential_update
from mpitune.learner.online.rates import KEPT, NORMALIZED, grown, longer, make_rate, state_of
from mpitune.learner.pair_sampling import Sampler

ORDERS = ("sequential", "sentence")


@dataclass(frozen=True)
class PerceptronOptions:
    """The perceptron's options, named as in a job. Raises UsageError on a value that makes no sense."""

    learning_rate: float = 0.0001
    margin: float = 0.0
    margin_by_gold: bool = False
    """Whether a pair's margin is multiplied by its difference of gold scores, as in a structured hinge loss with margin
    rescaling (Tsochantaridis et al. 2005)."""
    order: str = "sequential"
    """``sequential``: each pair sees the weights that the one before it left. ``sentence``: all pairs of a list see the
    weights that it was decoded with, and their gradients are summed into one step."""
    rate: str = "constant"
    l1: float = 0.0
    """Cumulative clipping (Tsuruoka et al. 2009): after each list its features, at a shard's end all."""
    l2: float = 0.0
    """After each updating pair w -= 2 l2 learning_rate w / P, P being the pairs of the list."""
    scale_by_gold: bool = False
    """Whether a pair's d is multiplied by its difference of gold scores."""

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise UsageError(f"learner.order: found {self.order!r}, expected one of {', '.join(ORDERS)}")
        make_rate(self.rate, self.learning_rate)
        if self.rate == "normalized" and self.order != "sentence":
            found = f'"normalized" with learner.order = "{self.order}"'
            raise UsageError(f'learner.rate: found {found}, expected learner.order = "sentence" with it')
        if not self.learning_rate > 0:
            raise UsageError(f"learner.learning_rate: found {self.learning_rate}, expected a number above 0")
        for key in ("margin", "l1", "l2"):
            if not getattr(self, key) >= 0:
                raise UsageError(f"learner.{key}: found {getattr(self, key)}, expected 0 or more")


class Perceptron:
    """An `mpitune.learner.base.OnlineLearner`."""

    def __init__(self, sampler: Sampler, options: PerceptronOptions, frozen: np.ndarray, first_sparse: int = 0) -> None:
        """``frozen``: bool [slots], features whose weights never move; slots past its end may move.

        ``first_sparse``: slots from here on are those of sparse features.
        """
        self._sampler = sampler
        self._options = options
        self._frozen = frozen
        self._first_sparse = first_sparse
        self.state_width = len(KEPT[options.rate])

    def start_shard(self, weights: np.ndarray, state: Sequence[np.ndarray] = ()) -> None:
        """Raises ValueError where there are fewer ``weights`` than there were slots before."""
        if len(weights) < len(self._frozen):
            raise ValueError(f"{len(weights)} weights, but {len(self._frozen)} slots")
        self._rate = make_rate(self._options.rate, self._options.learning_rate, state, self._first_sparse)
        self._steps = 0
        self._place = np.zeros(0, dtype=np.int32)
        self._due = 0.0
        self._paid = np.zeros(0)
        self._make_room(len(weights))

    def _make_room(self, size: int) -> None:
        """Make all that is kept by slot as long as the weights; features met late are as those that never fired."""
        self._frozen = longer(self._frozen, size, False)
        self._place = longer(self._place, size, -1)
        self._rate = grown(self._rate, size)
        if self._options.l1 > 0:
            self._paid = longer(self._paid, size, 0.0)

    def update(self, kbest: KBest, gold: np.ndarray, weights: np.ndarray, random: np.random.Generator) -> Counts:
        """Raises ValueError where ``kbest`` has features beyond the end of ``weights``."""
        if len(weights) > len(self._place):
            self._make_room(len(weights))
        if len(kbest.feature_index) and kbest.feature_index.max() >= len(self._place):
            raise ValueError(f"feature slot {kbest.feature_index.max()}, but {len(self._place)} weights")
        pairs = self._sampler(gold, kbest.score, random)
        columns = columns_of(kbest, self._frozen, self._place)
        updates = self._learn(kbest, columns, pairs, gold, weights) if len(pairs) else 0
        if self._options.l1 > 0:
            self._due += self._options.learning_rate * self._options.l1
            _clip(columns.slot, self._due, self._paid, weights)
        return Counts(len(pairs), updates)

    def end_shard(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        if self._options.l1 > 0:
            _clip(np.flatnonzero(~self._frozen).astype(np.int32), self._due, self._paid, weights)
        return state_of(self._rate, self._options.rate)

    def _learn(
        self, kbest: KBest, columns: FeatureColumns, pairs: np.ndarray, gold: np.ndarray, weights: np.ndarray
    ) -> int:
        """Returns how many pairs updated the weights."""
        options = self._options
        better = gold[pairs[:, 0]] - gold[pairs[:, 1]]
        sizes = better if options.scale_by_gold else np.ones(len(pairs))
        required = options.margin * (better if options.margin_by_gold else np.ones(len(pairs)))
        decay = 2 * options.l2 * options.learning_rate / len(pairs)
        if options.order == "sequential" and (options.rate != "constant" or options.l2 > 0):
            space = Space(np.empty(len(columns.slot)), np.zeros(len(columns.slot)), np.empty(kbest.size))
            fixed_scores(kbest, self._frozen, weights, space.fixed)
            updates = learn_in_turn(
                columns, pairs, sizes, self._rate, self._steps, 1 - decay, required, self._frozen, space, weights
            )
            self._steps += updates
            return int(updates)
        scores, coefficients = np.empty(kbest.size), np.zeros(kbest.size)
        model_scores(kbest, weights, scores)
        if options.order == "sequential":
            gram = np.empty((kbest.size, kbest.size))
            fill_gram(columns, gram)
            updates = sequential_update(
                columns, gram, pairs, sizes, options.learning_rate, required, scores, coefficients
            )
        else:
            updates = batch_update(columns, pairs, sizes, required, scores, coefficients)
            if self._rate.kind == NORMALIZED:
                measure(columns, pairs, self._rate)
        if updates:
            if decay:
                shrink_all(weights, self._frozen, 1 - updates * decay)
            self._steps += 1
            divisor = float(updates) if self._rate.kind == NORMALIZED else 1.0
            apply(columns, coefficients, self._rate, self._steps, weights, divisor)
        return int(updates)


@kernel
def _clip(slots: np.ndarray, due: float, paid: np.ndarray, weights: np.ndarray) -> None:
    """Tsuruoka et al. 2009, figure 2: pull weights towards 0 by what is due, less what they have paid; never past 0.

    ``slots``: int32 [n]; ``due``: the l1 penalty of the shard so far (u); ``paid``: float64 [D], what each weight has
    received of it, with its sign (q).
    """
    for i in range(len(slots)):
        slot = slots[i]
        before = weights[slot]
        if before > 0.0:
            weights[slot] = max(0.0, before - (due + paid[slot]))
        elif before < 0.0:
            weights[slot] = min(0.0, before + (due - paid[slot]))
        paid[slot] += weights[slot] - before
