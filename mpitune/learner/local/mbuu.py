"""Margin based ultraconservative update (L12, section 4.1): MIRA's problem, on the lists of K sentences at once.

An entry n of list j is to stay behind the oracle by what it is worse, loss_jn = bleu+1(oracle) - bleu+1(n). With d_jn
the oracle's features less the entry's,

    min_w  1/2 ||w - w_b||^2 + lambda/K sum_j max_n (loss_jn - w.d_jn)_+

is solved in its dual, w = w_b + sum_jn step_jn d_jn, where the steps of a list are not negative and sum to lambda/K,
with that of its oracle, which moves nothing. Coordinate ascent goes from list to list, and in a list takes from the
least violated constraint that has a step and gives to the most violated one, as much as makes the two violations equal
(by pairs of steps, as `mpitune.learner.online.margin` does for one list). An entry that has the oracle's own free
features constrains nothing (ours): no weights tell the two apart.
"""

from __future__ import annotations

import numpy as np

from mpitune.jit import at, kernel
from mpitune.learner.local.examples import Examples
from mpitune.learner.local.update import Update, squared_norm

GAP = 1e-5
"""When to stop (ours): the duality gap divided by lambda, which is a mean loss: a thousandth of a point of BLEU.

It gets there once the violations of no list's steps differ by more."""
PASSES = 1000
"""The most passes over all lists (ours); the gap says how far they came."""
_CHEAP = 30
"""The most passes between two of these over the entries that have a step, which are few."""
_MOVES = 10
"""The most moves in a list before the next has its turn: what they reach is soon changed by those of other lists."""


def mbuu(examples: Examples, strength: float) -> Update:
    """The update with lambda = ``strength``, at least 0."""
    change, steps = np.zeros(len(examples.feature)), np.zeros(len(examples.gold))
    lists = len(examples.oracle)
    if strength == 0 or lists == 0:
        return Update(change, 0.0, 0, 0.0)
    share = strength / lists
    steps[examples.oracle] = share
    violations, scratch = np.empty(len(steps)), np.zeros(len(change))
    for passes in range(1, PASSES + 1):
        found = _ascend(examples, change, steps, True, violations, scratch)
        last = passes == PASSES
        # What a pass finds is the gap but for what it changes itself: to judge takes as long as a pass.
        if found <= GAP * strength or last:
            loss, gap = _judge(examples, change, steps, share, violations)
            if gap <= GAP * strength or last:
                break
        for _ in range(_CHEAP):
            if _ascend(examples, change, steps, False, violations, scratch) <= max(0.1 * found, GAP * strength):
                break
    return Update(change, squared_norm(change) / 2 + share * loss, passes, gap)


@kernel
def _violate(
    examples: Examples, change: np.ndarray, steps: np.ndarray, every: bool, i: int, violations: np.ndarray
) -> None:
    """Fill in the ``violations`` loss - w.d of list ``i``; -inf where an entry constrains nothing.

    ``every``: of all entries; else of those that have a step, and -inf for the others.
    """
    oracle = examples.oracle[i]
    for j in range(examples.list_ptr[i], examples.list_ptr[i + 1]):
        if not every and steps[j] == 0.0:
            violations[j] = -np.inf
            continue
        violation = examples.gold[oracle] - examples.gold[j] + examples.ahead[j]
        start, end = examples.row_ptr[j], examples.row_ptr[j + 1]
        for e in range(start, end):
            violation += change[at(examples.column[at(e)])] * examples.value[at(e)]
        violations[j] = violation if end > start or j == oracle else -np.inf


@kernel
def _judge(
    examples: Examples, change: np.ndarray, steps: np.ndarray, share: float, violations: np.ndarray
) -> tuple[float, float]:
    """The sum of the lists' losses at w_b + ``change``, and the duality gap.

    The gap is a sum of terms that are not negative: of each list, its steps times what the violations are below the
    largest one.
    """
    loss = 0.0
    gap = 0.0
    for i in range(len(examples.oracle)):
        start, end = examples.list_ptr[i], examples.list_ptr[i + 1]
        _violate(examples, change, steps, True, i, violations)
        most = 0.0
        for j in range(start, end):
            most = max(most, violations[j])
        for j in range(start, end):
            if steps[j] > 0.0:
                gap += steps[j] * (most - violations[j])
        loss += most
    return loss, gap


@kernel
def _ascend(
    examples: Examples,
    change: np.ndarray,
    steps: np.ndarray,
    every: bool,
    violations: np.ndarray,
    scratch: np.ndarray,
) -> float:
    """One pass over the lists, over ``every`` entry or those that have a step; ``change`` follows the ``steps``.

    ``scratch``: float64 [columns], zeros. Returns the sum of the lists' duality gaps, each as the pass has found it.
    """
    column, value = examples.column, examples.value
    gap = 0.0
    for i in range(len(examples.oracle)):
        start, end = examples.list_ptr[i], examples.list_ptr[i + 1]
        for moves in range(_MOVES):
            _violate(examples, change, steps, every, i, violations)
            most, least = start, -1
            for j in range(start, end):
                if violations[j] > violations[most]:
                    most = j
                if steps[j] > 0.0 and (least < 0 or violations[j] < violations[least]):
                    least = j
            if moves == 0:
                for j in range(start, end):
                    if steps[j] > 0.0:
                        gap += steps[j] * (violations[most] - violations[j])
            difference = violations[most] - violations[least]
            if difference <= GAP:
                break
            for e in range(examples.row_ptr[most], examples.row_ptr[most + 1]):
                scratch[column[e]] -= value[e]
            for e in range(examples.row_ptr[least], examples.row_ptr[least + 1]):
                scratch[column[e]] += value[e]
            squared = _take_squares(examples, most, scratch) + _take_squares(examples, least, scratch)
            # Two entries with the same features: to hand on the whole step changes no weight.
            move = min(steps[least], difference / squared) if squared > 0.0 else steps[least]
            steps[most] += move
            steps[least] -= move
            for e in range(examples.row_ptr[most], examples.row_ptr[most + 1]):
                change[column[e]] -= move * value[e]
            for e in range(examples.row_ptr[least], examples.row_ptr[least + 1]):
                change[column[e]] += move * value[e]
    return gap


@kernel
def _take_squares(examples: Examples, j: int, scratch: np.ndarray) -> float:
    """The sum of the squares of ``scratch`` in the columns of entry ``j``; they become 0."""
    total = 0.0
    for e in range(examples.row_ptr[j], examples.row_ptr[j + 1]):
        total += scratch[examples.column[e]] ** 2
        scratch[examples.column[e]] = 0.0
    return total
