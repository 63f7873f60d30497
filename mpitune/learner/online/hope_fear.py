"""MIRA with one constraint a list, the oracle against the prediction: a list, and a pass over given lists, compiled.

In a pass over given lists neither these nor their gold scores change with the weights. So a list need not be sorted,
and nothing of it is copied: the entries are chosen where they lie, equals by their order under the weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_scores
from mpitune.jit import at, int64, kernel
from mpitune.learner.base import Chosen, FeatureRows, GivenLists
from mpitune.learner.online.columns import ColumnState, FeatureColumns, fill_columns, workspace
from mpitune.learner.online.gram import fill_gradient
from mpitune.learner.online.mira_qp import one_best
from mpitune.learner.weights import Weights


class EntryChoice(NamedTuple):
    """The entry of the largest ``score`` times its model score plus ``cost`` times its cost."""

    score: float
    cost: float


class LearnedWeights(NamedTuple):
    """Arrays of `Weights`, by slot."""

    value: np.ndarray
    """float64 [D]"""
    frozen: np.ndarray
    """bool [D]"""
    place: np.ndarray
    """int32 [D], all -1: working space of `fill_columns`."""


class PairSpace(NamedTuple):
    """Working space of `update_pair`."""

    entries: np.ndarray
    """int64 [2]"""
    state: ColumnState
    columns: FeatureColumns
    pair: np.ndarray
    """float64 [2]"""
    gradient: np.ndarray
    """float64 [columns]"""


def learned_weights(weights: Weights) -> LearnedWeights:
    """The arrays of ``weights``, as long as these do not grow."""
    return LearnedWeights(weights.value, weights.frozen, weights.array("place", -1, np.int32))


def pair_space(values: int) -> PairSpace:
    """Working space for two entries of so many feature values."""
    state, columns = workspace(2, values, values)
    return PairSpace(np.empty(2, dtype=np.int64), state, columns, np.empty(2), np.empty(values))


@kernel
def choose(choice: EntryChoice, score: np.ndarray, cost: np.ndarray, rank: np.ndarray) -> int:
    """The position of the entry that ``choice`` takes, of equals that of the largest ``rank``, then the first.

    ``score``, ``cost``, ``rank``: float64 [k].
    """
    found = 0
    most = choice.score * score[0] + choice.cost * cost[0]
    for j in range(1, len(score)):
        value = choice.score * score[at(j)] + choice.cost * cost[at(j)]
        if value > most or (value == most and rank[at(j)] > rank[found]):
            found = j
            most = value
    return found


@kernel
def update_pair(
    rows: FeatureRows,
    oracle: int,
    prediction: int,
    loss: float,
    c: float,
    weights: LearnedWeights,
    space: PairSpace,
    change: np.ndarray,
) -> int:
    """Change ``weights`` so that row ``oracle`` scores above row ``prediction`` by ``loss``.

    Returns the number of features in which they may differ, and -1 if no step is taken; ``change``: float64, gets the
    change of each weight of these features.
    """
    scores, entries = space.pair, space.entries
    row_scores(rows.ptr[oracle : oracle + 2], rows.slot, rows.value, weights.value, scores[:1])
    row_scores(rows.ptr[prediction : prediction + 2], rows.slot, rows.value, weights.value, scores[1:])
    violation = scores[1] - scores[0] + loss
    if not violation > 0.0:
        return -1
    entries[0], entries[1] = oracle, prediction
    count = fill_columns(rows, entries, weights.frozen, weights.place, space.state, space.columns)
    every = space.columns
    columns = FeatureColumns(
        every.slot[:count],
        every.column_ptr,
        every.row,
        every.column_value,
        every.row_ptr,
        every.column,
        every.row_value,
    )
    step = one_best(columns, violation, c)
    if step == 0.0:
        return -1
    coefficients = space.pair
    coefficients[0], coefficients[1] = step, -step
    for i in range(count):
        space.gradient[i] = 0.0
    fill_gradient(columns, coefficients, space.gradient)
    for i in range(count):
        slot = columns.slot[i]
        before = weights.value[slot]
        if space.gradient[i] != 0.0:
            weights.value[slot] += space.gradient[i]
        change[i] = weights.value[slot] - before
    return count


@kernel
def pass_over(
    lists: GivenLists,
    oracle: EntryChoice,
    prediction: EntryChoice,
    c: float,
    weights: LearnedWeights,
    space: PairSpace,
    scores: np.ndarray,
    chosen: Chosen,
) -> int:
    """Learn from ``lists`` one after the other; fills ``chosen``. Returns the number of lists with finite scores.

    It stops before the first list with a score that is not finite. ``scores``: float64 [2, longest list].
    """
    rows, gold = lists.features, lists.gold
    changes = int64(0)
    for n in range(len(lists.first)):
        first, size, row = lists.first[n], lists.size[n], lists.row[n]
        chosen.best[n] = 0
        chosen.oracle[n] = 0
        chosen.prediction[n] = 0
        chosen.largest[n] = 0
        chosen.updates[n] = 0
        chosen.change_ptr[n] = changes
        chosen.change_ptr[n + 1] = changes
        if size == 0:
            continue
        score, cost = scores[0, :size], scores[1, :size]
        row_scores(rows.ptr[first : first + size + 1], rows.slot, rows.value, weights.value, score)
        for j in range(size):
            if not math.isfinite(score[j]):
                return n
            cost[j] = 1.0 - gold[row + j]
        best, worst = choose(oracle, score, cost, score), choose(prediction, score, cost, score)
        chosen.best[n] = choose(EntryChoice(1.0, 0.0), score, cost, score)
        chosen.oracle[n] = best
        chosen.prediction[n] = worst
        chosen.largest[n] = choose(EntryChoice(0.0, 1.0), score, lists.sentence_score[row : row + size], score)
        if best != worst:
            loss = gold[row + best] - gold[row + worst]
            count = update_pair(rows, first + best, first + worst, loss, c, weights, space, chosen.change[changes:])
            if count >= 0:
                chosen.updates[n] = 1
                changes += count
                chosen.change_ptr[n + 1] = changes
    return len(lists.first)
