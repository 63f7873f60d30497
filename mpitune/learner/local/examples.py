"""Local training: weights for one sentence, by an ultraconservative update of the global weights.

Liu, Cao, Watanabe, Zhao, Yu and Zhu, *Locally Training the Log-Linear Model for SMT*, EMNLP 2012. Both methods
minimise, over the weights w,

    1/2 ||w - w_b||^2 + lambda Loss(D, w)

where w_b are the global weights and D the lists of K training sentences similar to the one to be translated. MBUU
(`mpitune.learner.local.mbuu`) uses the margin loss, EBUU (`mpitune.learner.local.ebuu`) the expected error. The result
is the change w - w_b of the features in which entries of a list differ.

The training data are the lists as differences from their oracles. The oracle of a list is its entry of largest gold
score `bleu+1`, of equals that of largest model score under the global weights *(ours)*; or the hope, the entry of
largest sum of both, as in Chiang 2008, whom Liu et al. 2012 follow. Of equals it is the first. Only differences between
entries of a list affect learning, so an entry is stored as its features minus those of the oracle and its score minus
that of the oracle. Features of the same value in all entries cancel; frozen features count in the scores only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.jit import at, inlined, kernel
from mpitune.learner.pool import NBestPool, chosen
from mpitune.metrics.sentence_bleu import bleu_plus_one
from mpitune.portable_math import dot


class Examples(NamedTuple):
    """Lists to learn from, one after the other, each of at least one entry."""

    list_ptr: np.ndarray
    """int64 [lists + 1]: list j has the entries ``list_ptr[j]:list_ptr[j + 1]``."""
    oracle: np.ndarray
    """int64 [lists]: the entry that is the oracle."""
    gold: np.ndarray
    """float64 [entries]: `bleu+1`."""
    ahead: np.ndarray
    """float64 [entries]: w_b.(x - x*), the model score minus that of the oracle, under the global weights."""
    row_ptr: np.ndarray
    """int64 [entries + 1]: rows of x - x* (CSR), without zeros and frozen features; an oracle's row is empty."""
    column: np.ndarray
    """int32: positions in ``feature``."""
    value: np.ndarray
    """float64: values of x - x*."""
    feature: np.ndarray
    """int64 [columns]: positions in `TrainingLists.feature_id` of the features that occur, in order of appearance."""


class _Workspace(NamedTuple):
    """Working space of `_differences`; every element has the same value, given below, before and after."""

    origin: np.ndarray
    """float64 [features], 0: values of the oracle."""
    seen: np.ndarray
    """int64 [features], -1: the last entry with this feature."""
    place: np.ndarray
    """int32 [features], -1: its column."""


class TrainingLists:
    """The lists of all training sentences, in parts, and the global weights with which they were decoded."""

    def __init__(
        self,
        pools: Sequence[NBestPool],
        index: np.ndarray,
        value: np.ndarray,
        frozen: np.ndarray,
        *,
        hope: bool = False,
    ) -> None:
        """``pools``: the training data, in order; ``hope``: the oracles are hopes.

        ``index``, ``value``: uint64 and float64 [n], ids and global weights of features; all others have weight 0;
        ``frozen``: uint64, ids of the features that are not updated.
        """
        self._pools = pools
        ids = [np.zeros(0, dtype=np.uint64), *(pool.feature_id for pool in pools)]
        self.feature_id = np.unique(np.concatenate(ids))
        """uint64 [features], ascending: all features that occur in any list."""
        size = len(self.feature_id)
        self._number = [np.searchsorted(self.feature_id, pool.feature_id).astype(np.int32) for pool in pools]
        occurs = np.isin(index, self.feature_id)
        self._weights = np.zeros(size)
        self._weights[np.searchsorted(self.feature_id, index[occurs])] = value[occurs]
        self._frozen = np.isin(self.feature_id, frozen)
        self._hope = hope
        self._workspace = _Workspace(
            np.zeros(size), np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int32)
        )

    def pool(self, sentences: np.ndarray) -> NBestPool:
        """The lists of these training ``sentences`` (int64 [lists], distinct numbers), in this order."""
        return chosen(self._pools, sentences, self._number, self.feature_id)

    def examples(self, sentences: np.ndarray) -> Examples:
        """The examples of these training ``sentences`` (int64 [lists], distinct numbers), in this order."""
        pool = self.pool(sentences)
        gold = bleu_plus_one(pool.statistics)
        return self._differences(pool.sentence_ptr, gold, pool.feature_ptr, pool.feature, pool.value)

    def _differences(
        self, list_ptr: np.ndarray, gold: np.ndarray, rows: np.ndarray, feature: np.ndarray, value: np.ndarray
    ) -> Examples:
        most = len(value) + len(gold) * int(np.diff(rows).max(initial=0))
        result = Examples(
            list_ptr,
            np.empty(len(list_ptr) - 1, dtype=np.int64),
            gold,
            np.empty(len(gold)),
            np.zeros(len(gold) + 1, dtype=np.int64),
            np.empty(most, dtype=np.int32),
            np.empty(most),
            np.empty(min(most, len(self.feature_id)), dtype=np.int64),
        )
        columns = _differences(rows, feature, value, self._weights, self._frozen, self._hope, self._workspace, result)
        values = int(result.row_ptr[-1])
        return result._replace(
            column=result.column[:values], value=result.value[:values], feature=result.feature[:columns]
        )


@kernel
def _oracle(gold: np.ndarray, scores: np.ndarray, hope: bool, start: int, end: int) -> int:
    """The entry of largest gold score; ties: of largest model score, then the first. ``hope``: of the largest sum.

    ``gold``, ``scores``: float64 [entries]; the list has the entries from ``start`` to ``end``.
    """
    best = start
    for j in range(start + 1, end):
        if hope:
            if gold[j] + scores[j] > gold[best] + scores[best]:
                best = j
        elif gold[j] > gold[best] or (gold[j] == gold[best] and scores[j] > scores[best]):
            best = j
    return best


@inlined
def _append(
    result: Examples, workspace: _Workspace, frozen: np.ndarray, f: int, difference: float, columns: int, values: int
) -> tuple[int, int]:
    """Append ``difference`` in feature ``f`` to the last row; returns the new numbers of columns and values.

    Zeros and ``frozen`` (bool [features]) features are left out.
    """
    if difference == 0.0 or frozen[f]:
        return columns, values
    if workspace.place[f] < 0:
        workspace.place[f] = columns
        result.feature[columns] = f
        columns += 1
    result.column[at(values)] = workspace.place[f]
    result.value[at(values)] = difference
    return columns, values + 1


@kernel
def _differences(
    rows: np.ndarray,
    feature: np.ndarray,
    value: np.ndarray,
    weights: np.ndarray,
    frozen: np.ndarray,
    hope: bool,
    workspace: _Workspace,
    result: Examples,
) -> int:
    """Fill ``result``, except ``list_ptr`` and ``gold``, from the lists' rows; returns the number of columns.

    ``rows``: int64 [entries + 1], ``feature``: int32, ``value``: float64, the entries' features (CSR); ``weights``:
    float64 [features]; ``frozen``: bool [features]; ``hope``: see `_oracle`.
    """
    columns = 0
    values = 0
    for i in range(len(result.oracle)):
        start, end = result.list_ptr[i], result.list_ptr[i + 1]
        for j in range(start, end):
            score = 0.0
            for e in range(rows[j], rows[j + 1]):
                score += weights[at(feature[at(e)])] * value[at(e)]
            result.ahead[j] = score
        oracle = _oracle(result.gold, result.ahead, hope, start, end)
        result.oracle[i] = oracle
        first, last = rows[oracle], rows[oracle + 1]
        oracle_score = result.ahead[oracle]
        for e in range(first, last):
            workspace.origin[feature[e]] = value[e]
        for j in range(start, end):
            result.ahead[j] -= oracle_score
            for e in range(rows[j], rows[j + 1]):
                f = at(feature[at(e)])
                workspace.seen[f] = j
                columns, values = _append(
                    result, workspace, frozen, f, value[at(e)] - workspace.origin[f], columns, values
                )
            # Features that only the oracle has.
            for e in range(first, last):
                f = at(feature[at(e)])
                if workspace.seen[f] != j:
                    columns, values = _append(result, workspace, frozen, f, -value[at(e)], columns, values)
            result.row_ptr[j + 1] = values
        for e in range(first, last):
            workspace.origin[feature[e]] = 0.0
        for e in range(rows[start], rows[end]):
            workspace.seen[feature[e]] = -1
    for c in range(columns):
        workspace.place[result.feature[c]] = -1
    return columns


class Update(NamedTuple):
    """The weights of one sentence, as a change of the global weights."""

    change: np.ndarray
    """float64 [columns of the examples]: w - w_b."""
    objective: float
    """Value of the minimised objective."""
    steps: int
    """Passes over the lists (MBUU), gradient steps (EBUU)."""
    gap: float | None
    """MBUU: the duality gap, an upper bound on the distance of the objective from its minimum; EBUU: None."""

    @property
    def distance(self) -> float:
        """||w - w_b||"""
        return math.sqrt(squared_norm(self.change))


def squared_norm(vector: np.ndarray) -> float:
    """The sum of squares."""
    return dot(vector, vector)
