"""MBUU, the margin based ultraconservative update (Liu et al., EMNLP 2012, section 4.1): MIRA on K lists at once.

The oracle of list j must score above entry n by the loss of the entry, loss_jn = bleu+1(oracle) - bleu+1(n). With d_jn
the oracle's features minus the entry's,

    min_w  1/2 ||w - w_b||^2 + lambda/K sum_j max_n (loss_jn - w.d_jn)_+

is solved in the dual, w = w_b + sum_jn step_jn d_jn, where the steps of a list are at least 0 and sum to lambda/K,
including the oracle's step, which changes no weight. Coordinate ascent visits list after list; in a list it transfers
step size from the least violated constraint with a step above 0 to the most violated one until both violations are
equal (as `mpitune.learner.online.mira_qp` does for one list). An entry with the oracle's free features is no constraint
*(ours)*: no weights separate the two.
"""

from __future__ import annotations

import numpy as np

from mpitune.jit import at, kernel
from mpitune.learner.local.examples import Examples, Update, squared_norm

GAP = 1e-5
"""Stopping condition *(ours)*: the duality gap divided by lambda, a mean loss; a thousandth of a point of BLEU.

It holds once the violations of each list's steps differ by no more than this."""
PASSES = 1000
"""Maximum number of passes over all lists *(ours)*; the gap shows how far they converged."""
_ACTIVE_PASSES = 30
"""Maximum number of passes over the entries with a step above 0, which are few, between two passes over all entries."""
_MOVES = 10
"""Maximum number of moves in a list per visit: moves in other lists soon change its optimum."""


def mbuu(examples: Examples, strength: float) -> Update:
    """The update with lambda = ``strength`` (at least 0)."""
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
        # The sum of a pass is the gap, up to the changes of the pass; computing the gap takes as long as a pass.
        if found <= GAP * strength or last:
            loss, gap = _duality_gap(examples, change, steps, violations)
            if gap <= GAP * strength or last:
                break
        for _ in range(_ACTIVE_PASSES):
            if _ascend(examples, change, steps, False, violations, scratch) <= max(0.1 * found, GAP * strength):
                break
    return Update(change, squared_norm(change) / 2 + share * loss, passes, gap)


@kernel
def _fill_violations(
    examples: Examples, change: np.ndarray, steps: np.ndarray, every: bool, i: int, violations: np.ndarray
) -> None:
    """Fill ``violations`` (float64 [entries]), loss - w.d, of list ``i``; -inf for an entry that is no constraint.

    ``change``: float64 [columns], w - w_b; ``steps``: float64 [entries]; ``every``: compute the violations of all
    entries, else only of those with a step above 0, and -inf for the others.
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
def _duality_gap(
    examples: Examples, change: np.ndarray, steps: np.ndarray, violations: np.ndarray
) -> tuple[float, float]:
    """The sum of the lists' losses at w_b + ``change`` (float64 [columns]), and the duality gap.

    ``steps``, ``violations``: float64 [entries], the latter filled. The gap is the sum over entries of the step times
    the difference between the list's largest violation and the entry's, all at least 0.
    """
    loss = 0.0
    gap = 0.0
    for i in range(len(examples.oracle)):
        start, end = examples.list_ptr[i], examples.list_ptr[i + 1]
        _fill_violations(examples, change, steps, True, i, violations)
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
    """One pass over the lists, over ``every`` entry or those with a step above 0; returns the sum of the lists' gaps.

    ``change``: float64 [columns] and ``steps``: float64 [entries], both updated in place; ``violations``: float64
    [entries], filled; ``scratch``: float64 [columns], zeros before and after. The gap of a list is that at its visit.
    """
    column, value = examples.column, examples.value
    gap = 0.0
    for i in range(len(examples.oracle)):
        start, end = examples.list_ptr[i], examples.list_ptr[i + 1]
        for moves in range(_MOVES):
            _fill_violations(examples, change, steps, every, i, violations)
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
            # Two entries with the same features: moving the whole step changes no weight.
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
    """The sum of squares of ``scratch`` (float64 [columns]) in the columns of entry ``j``, which are set to 0."""
    total = 0.0
    for e in range(examples.row_ptr[j], examples.row_ptr[j + 1]):
        total += scratch[examples.column[e]] * scratch[examples.column[e]]
        scratch[examples.column[e]] = 0.0
    return total
