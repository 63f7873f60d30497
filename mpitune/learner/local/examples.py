"""What local training learns from: the k-best lists of a few training sentences, as differences from their oracles.

The oracle of a list is its entry of largest gold score `bleu+1`; of equals the one of largest model score under the
global weights, then the first (ours: L12 follows Chiang 2008). Weights matter only where they tell entries of one list
apart, so all that is kept of an entry are its features less those of its oracle, and by how much it scores above it.
What is the same in a list cancels, as do frozen features but for their part in scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.jit import at, inlined, kernel
from mpitune.learner.pool import NBestPool
from mpitune.metrics.sentence_bleu import bleu_plus_one


class Examples(NamedTuple):
    """Lists to learn from, one after the other; each has an entry at least."""

    list_ptr: np.ndarray
    """int64 [lists + 1]: list j has the entries ``list_ptr[j]:list_ptr[j + 1]``."""
    oracle: np.ndarray
    """int64 [lists]: which entry is the oracle."""
    gold: np.ndarray
    """float64 [entries]: `bleu+1`."""
    ahead: np.ndarray
    """float64 [entries]: w_b.(x - x*), the model score above that of the oracle under the global weights."""
    row_ptr: np.ndarray
    """int64 [entries + 1]: rows of x - x* (CSR), without zeros and frozen features; an oracle's has no values."""
    column: np.ndarray
    """int32: places in ``feature``."""
    value: np.ndarray
    """float64: values of x - x*."""
    feature: np.ndarray
    """int64 [columns]: which of `KeptLists.feature_id` occur, in order of appearance."""


class _Space(NamedTuple):
    """What `_differences` works in; all features' entries are the same before and after."""

    origin: np.ndarray
    """float64 [features], 0: values of the oracle."""
    seen: np.ndarray
    """int64 [features], -1: the entry that has fired it last."""
    place: np.ndarray
    """int32 [features], -1: its column."""


class KeptLists:
    """The lists of all training sentences, in parts, and the global weights that they were decoded with."""

    def __init__(self, pools: Sequence[NBestPool], index: np.ndarray, value: np.ndarray, frozen: np.ndarray) -> None:
        """``pools``: their sentences one after the other are the training data.

        ``index``, ``value``: uint64 and float64 [n], the features' ids and global weights, 0 for all others;
        ``frozen``: uint64, the ids of those that keep their weight.
        """
        self._pools = pools
        self._first = row_ends([pool.sentences for pool in pools])
        ids = [np.zeros(0, dtype=np.uint64), *(pool.feature_id for pool in pools)]
        self.feature_id = np.unique(np.concatenate(ids))
        """uint64 [features], ascending: all that occur in any list."""
        size = len(self.feature_id)
        self._number = [np.searchsorted(self.feature_id, pool.feature_id).astype(np.int32) for pool in pools]
        known = np.isin(index, self.feature_id)
        self._weights = np.zeros(size)
        self._weights[np.searchsorted(self.feature_id, index[known])] = value[known]
        self._frozen = np.isin(self.feature_id, frozen)
        self._space = _Space(np.zeros(size), np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int32))

    def examples(self, sentences: np.ndarray) -> Examples:
        """The lists of these training ``sentences`` (int64 [lists], each once), in their order."""
        lengths, statistics, widths, feature, value = [], [], [], [], []
        parts = (np.searchsorted(self._first, sentences, side="right") - 1).tolist()
        for part, number in zip(parts, (sentences - self._first[parts]).tolist(), strict=True):
            pool = self._pools[part]
            start, end = pool.sentence_ptr[number : number + 2].tolist()
            ptr = pool.feature_ptr[start : end + 1]
            row = slice(ptr[0], ptr[-1])
            lengths.append(end - start)
            statistics.append(pool.statistics[start:end])
            widths.append(ptr[1:] - ptr[:-1])
            feature.append(self._number[part].take(pool.feature[row]))
            value.append(pool.value[row])
        gold = bleu_plus_one(np.concatenate(statistics))
        rows = row_ends(np.concatenate(widths))
        return self._differences(row_ends(lengths), gold, rows, np.concatenate(feature), np.concatenate(value))

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
        columns = _differences(rows, feature, value, self._weights, self._frozen, self._space, result)
        values = int(result.row_ptr[-1])
        return result._replace(
            column=result.column[:values], value=result.value[:values], feature=result.feature[:columns]
        )


@kernel
def _oracle(gold: np.ndarray, scores: np.ndarray, start: int, end: int) -> int:
    """The entry of largest gold score, of equals that of largest model score, then the first."""
    best = start
    for j in range(start + 1, end):
        if gold[j] > gold[best] or (gold[j] == gold[best] and scores[j] > scores[best]):
            best = j
    return best


@inlined
def _put(
    result: Examples, space: _Space, frozen: np.ndarray, f: int, difference: float, columns: int, values: int
) -> tuple[int, int]:
    """Let the row that ends at ``values`` have this ``difference`` in feature ``f``; returns the new counts."""
    if difference == 0.0 or frozen[f]:
        return columns, values
    if space.place[f] < 0:
        space.place[f] = columns
        result.feature[columns] = f
        columns += 1
    result.column[at(values)] = space.place[f]
    result.value[at(values)] = difference
    return columns, values + 1


@kernel
def _differences(
    rows: np.ndarray,
    feature: np.ndarray,
    value: np.ndarray,
    weights: np.ndarray,
    frozen: np.ndarray,
    space: _Space,
    result: Examples,
) -> int:
    """Fill all of ``result`` but ``list_ptr`` and ``gold`` from the lists' own rows; returns how many columns it has.

    ``weights``: float64 [features]; ``frozen``: bool [features].
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
        oracle = _oracle(result.gold, result.ahead, start, end)
        result.oracle[i] = oracle
        first, last = rows[oracle], rows[oracle + 1]
        oracle_score = result.ahead[oracle]
        for e in range(first, last):
            space.origin[feature[e]] = value[e]
        for j in range(start, end):
            result.ahead[j] -= oracle_score
            for e in range(rows[j], rows[j + 1]):
                f = at(feature[at(e)])
                space.seen[f] = j
                columns, values = _put(result, space, frozen, f, value[at(e)] - space.origin[f], columns, values)
            # Those that only the oracle has.
            for e in range(first, last):
                f = at(feature[at(e)])
                if space.seen[f] != j:
                    columns, values = _put(result, space, frozen, f, -value[at(e)], columns, values)
            result.row_ptr[j + 1] = values
        for e in range(first, last):
            space.origin[feature[e]] = 0.0
        for e in range(rows[start], rows[end]):
            space.seen[feature[e]] = -1
    for c in range(columns):
        space.place[result.feature[c]] = -1
    return columns
