"""MIRA, large-margin learning, with the choices of oracle and prediction that Eidelman 2012 compares.

Eidelman, *Optimization Strategies for Online Large-Margin Learning in Machine Translation*, WMT 2012 (the paper). Each
list changes the weights as little as makes the oracle score above the prediction by their difference of gold scores B;
C limits the step size. The cost of a translation is 1 - B. Frozen features count in model scores but are not updated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.decoder.base import KBest
from mpitune.decoder.choices import MAX_SIZE
from mpitune.learner.base import Chosen, Counts, GivenLists, ListLearner, OnlineLearner
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.learner.online.columns import check_slots, columns_of, rows_of
from mpitune.learner.online.gram import apply_gradient
from mpitune.learner.online.hope_fear import EntryChoice, choose, learned_weights, pair_space, pass_over, update_pair
from mpitune.learner.online.mira_qp import SOLVERS
from mpitune.learner.online.rates import CONSTANT, Rate
from mpitune.learner.weights import Weights
from mpitune.schema import choice, internal, number

ORACLES = {"M-C": EntryChoice(1.0, -1.0), "MB": EntryChoice(0.0, -1.0), "LU": EntryChoice(0.0, -1.0)}
"""The choices of the oracle: hope, max-BLEU (of the largest list), local update; the first is the default."""
PREDICTIONS = {"M+C": EntryChoice(1.0, 1.0), "MC": EntryChoice(0.0, 1.0), "PB": EntryChoice(1.0, 0.0)}
"""The choices of the prediction: fear, maximal cost, prediction-based (the 1-best); the first is the default."""

ONE = Rate(CONSTANT, 1.0)
"""The rate: the quadratic program sets the size of the steps."""


MAX_BLEU_LIST = 50000
"""Length of the lists that oracle MB is chosen from by default (section 3.1)."""


@METHODS.register("mira")
@dataclass(frozen=True)
class MiraOptions(Method):
    """``[learner.mira]``: MIRA's options."""

    about = 'For method = "mira" (Eidelman, WMT 2012).'
    defaults = {
        "learner.algorithm": "itermix",
        "learner.epochs": 20,
        "learner.gold": "context",
        "learner.averaging": "epoch",
        "learner.dense_start": 0,
        "decoder.kbest": 500,
        "parallel.shards": 20,
        "parallel.reshuffle": False,
        "parallel.mixing": "uniform",
    }

    oracle: str = choice(
        *ORACLES,
        text='Oracle, the translation that should win: M-C (model score minus cost, "hope"), LU (largest gold score of '
        "the list), MB (the same of a list of 50,000).",
    )
    prediction: str = choice(
        *PREDICTIONS,
        text='Prediction, the translation that should lose: M+C (model score plus cost, "fear"), PB (the 1-best), MC '
        "(largest cost).",
    )
    variant: str = choice(
        "1-best",
        *SOLVERS,
        text="Constraints: 1-best (oracle against prediction), k-constraint (oracle against the whole list), "
        "cutting-plane (oracle against the most violated constraints).",
    )
    c: float = number(0.01, 0.0, above=True, text="Largest step size.")
    """Largest sum of step sizes of a list."""
    cost_scale: float = number(
        0.0,
        0.0,
        used=lambda job: job.learner.gold == "context",
        text='Factor of the BLEU of the whole set if gold = "context"; 0: the number of sentences.',
    )
    oracle_kbest: int | None = number(
        None,
        1,
        MAX_SIZE,
        example=MAX_BLEU_LIST,
        text="Length of the list that the oracle is chosen from (default: MB 50000; the others decoder.kbest, at least "
        "that).",
    )
    kbest: int = internal(100)
    """Number of entries among which predictions are chosen; the oracle is chosen from the whole list."""

    def make(self, parts: Parts) -> Mira:
        return Mira(replace(self, kbest=parts.kbest))

    def remedy(self) -> str:
        return "lower learner.mira.c"

    def resolved(self, kbest: int) -> Self:
        longest = MAX_BLEU_LIST if self.oracle == "MB" else kbest
        return replace(self, oracle_kbest=longest) if self.oracle_kbest is None else self

    def list_length(self, kbest: int) -> int:
        return max(kbest, self.oracle_kbest or 0)

    def context_scale(self) -> float:
        return self.cost_scale


class Mira(OnlineLearner, ListLearner):
    """Without state from list to list."""

    def __init__(self, options: MiraOptions) -> None:
        self._options = options

    @property
    def longest(self) -> int:
        """See `ListLearner`."""
        return 0 if self._options.variant in SOLVERS else self._options.kbest

    def learn_lists(self, lists: GivenLists, weights: Weights) -> Chosen:
        """See `ListLearner`."""
        options, n, values = self._options, len(lists.first), 2 * lists.most_values
        best, oracle, prediction, largest, updates = np.empty((5, n), dtype=np.int64)
        ends, scores = np.zeros(n + 1, dtype=np.int64), np.empty((2, int(lists.size.max(initial=0))))
        chosen = Chosen(best, oracle, prediction, largest, updates, ends, np.empty(n * values))
        choices = ORACLES[options.oracle], PREDICTIONS[options.prediction]
        done = pass_over(lists, *choices, options.c, learned_weights(weights), pair_space(values), scores, chosen)
        return Chosen(*(array[:done] for array in chosen[:5]), ends[: done + 1], chosen.change)  # type: ignore[call-arg]

    def update(self, kbest: KBest, gold: np.ndarray, weights: Weights, random: np.random.Generator) -> Counts:
        """Raises ValueError if ``kbest`` has features beyond the end of ``weights``."""
        if kbest.size == 0:
            return Counts(0, 0)
        check_slots(kbest, weights)
        options, in_order = self._options, np.zeros(kbest.size)
        cost, near = 1.0 - gold, min(options.kbest, kbest.size)
        oracle = int(choose(ORACLES[options.oracle], kbest.score, cost, in_order))
        prediction = int(choose(PREDICTIONS[options.prediction], kbest.score[:near], cost[:near], in_order))
        if options.variant in SOLVERS:
            entries = np.array([oracle, *(j for j in range(near) if j != oracle)])
            updates = self._meet_all(kbest, entries, gold[oracle] - gold[entries], weights)
            return Counts(len(entries) - 1, updates, oracle, prediction)
        if oracle == prediction:
            return Counts(0, 0, oracle, prediction)
        values = int(np.diff(kbest.feature_ptr)[[oracle, prediction]].sum())
        loss, space, change = float(gold[oracle] - gold[prediction]), pair_space(values), np.empty(values)
        rows, learned = rows_of(kbest), learned_weights(weights)
        changed = update_pair(rows, oracle, prediction, loss, options.c, learned, space, change)
        return Counts(1, int(changed >= 0), oracle, prediction)

    def _meet_all(self, kbest: KBest, entries: np.ndarray, losses: np.ndarray, weights: Weights) -> int:
        """Update so that the first of ``entries`` (int64 [k]) scores above the others by ``losses`` (float64 [k]).

        Returns the number of constraints that changed the weights.
        """
        columns, scores = columns_of(kbest, weights, entries), np.empty(kbest.size)
        row_scores(kbest.feature_ptr, kbest.feature_index, kbest.feature_value, weights.value, scores)
        steps = SOLVERS[self._options.variant](columns, losses, scores[entries], self._options.c)
        coefficients = -steps
        coefficients[0] = steps.sum()
        apply_gradient(columns, coefficients, ONE, 0, weights.value)
        return int(np.count_nonzero(steps))
