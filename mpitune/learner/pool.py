"""K-best lists of a shard's sentences, accumulated over epochs: the training data of batch methods.

An entry that occurs in an earlier list is dropped: entries are equal if their features and statistics are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends, row_scores, row_sums, select_rows
from mpitune.corpus.hashing import extended
from mpitune.decoder.base import KBest
from mpitune.jit import at, kernel, uint64
from mpitune.metrics.bleu import WIDTH


class NBestPool(NamedTuple):
    """The lists, sentence by sentence in shard order; within a list, entries of earlier epochs come first."""

    sentence_ptr: np.ndarray
    """int64 [sentences + 1]: sentence s has the entries ``sentence_ptr[s]:sentence_ptr[s + 1]``."""
    statistics: np.ndarray
    """int64 [entries, 11 or more]: statistics of `mpitune.metrics.bleu`, then those of another metric, if any."""
    fingerprint: np.ndarray
    """uint64 [entries]: equal for equal entries."""
    feature_ptr: np.ndarray
    """int64 [entries + 1]: rows of the feature vectors (CSR)."""
    feature: np.ndarray
    """int32: positions in ``feature_id``."""
    value: np.ndarray
    """float64: values of these features."""
    feature_id: np.ndarray
    """uint64 [features], ascending: all features that occur."""

    @property
    def sentences(self) -> int:
        """Number of lists."""
        return len(self.sentence_ptr) - 1


def empty(sentences: int, width: int = WIDTH) -> NBestPool:
    """A pool of lists without entries; entries have ``width`` statistics."""
    return NBestPool(
        np.zeros(sentences + 1, dtype=np.int64),
        np.zeros((0, width), dtype=np.int64),
        np.zeros(0, dtype=np.uint64),
        np.zeros(1, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros(0),
        np.zeros(0, dtype=np.uint64),
    )


def pool_of(lists: Sequence[tuple[KBest, np.ndarray]], ids: np.ndarray, width: int = WIDTH) -> NBestPool:
    """The pool of one list per sentence, each with its statistics (int64 [k, width]); no entry is dropped.

    ``ids``: uint64, feature ids by slot.
    """
    if not lists:
        return empty(0, width)
    slots = np.concatenate([kbest.feature_index for kbest, _ in lists])
    value = np.concatenate([kbest.feature_value for kbest, _ in lists])
    statistics = np.concatenate([counted for _, counted in lists])
    feature_ptr = row_ends(np.concatenate([np.diff(kbest.feature_ptr) for kbest, _ in lists]))
    occurs = np.zeros(len(ids), dtype=np.bool_)
    occurs[slots] = True
    occurring = np.flatnonzero(occurs)
    occurring = occurring[np.argsort(ids[occurring])]
    number = np.empty(len(ids), dtype=np.int32)
    number[occurring] = np.arange(len(occurring))
    fingerprint = np.empty(len(statistics), dtype=np.uint64)
    bits = value.view(np.uint64), statistics.view(np.uint64)
    _fill_fingerprints(feature_ptr, ids[slots], *bits, fingerprint)
    return NBestPool(
        row_ends([kbest.size for kbest, _ in lists]),
        statistics,
        fingerprint,
        feature_ptr,
        number[slots],
        value,
        ids[occurring],
    )


@kernel
def _fill_fingerprints(
    ptr: np.ndarray, ids: np.ndarray, values: np.ndarray, statistics: np.ndarray, fingerprint: np.ndarray
) -> None:
    """Fill ``fingerprint`` (uint64 [entries]) with hashes of features and statistics.

    ``ptr``: int64 [entries + 1], rows of ``ids`` and ``values``; ``statistics``: [entries, width]; all by their bits,
    as uint64.
    """
    for j in range(len(fingerprint)):
        hash_ = uint64(0)
        for e in range(at(ptr[j]), at(ptr[j + 1])):
            hash_ = extended(extended(hash_, ids[e]), values[e])
        for n in range(statistics.shape[1]):
            hash_ = extended(hash_, statistics[j, n])
        fingerprint[j] = hash_


def merged(old: NBestPool, new: NBestPool) -> NBestPool:
    """The entries of both pools, those of ``old`` first, without duplicates; both are pools of the same sentences."""
    feature_id = np.union1d(old.feature_id, new.feature_id)
    feature = [np.searchsorted(feature_id, pool.feature_id)[pool.feature] for pool in (old, new)]
    sentence = np.concatenate([np.repeat(np.arange(p.sentences), np.diff(p.sentence_ptr)) for p in (old, new)])
    fingerprint = np.concatenate([old.fingerprint, new.fingerprint])
    # Sorting makes equal entries adjacent, in their original order.
    order = np.lexsort((fingerprint, sentence))
    duplicate = (np.diff(fingerprint[order]) == 0) & (np.diff(sentence[order]) == 0)
    kept = np.delete(order, np.flatnonzero(duplicate) + 1)
    if len(old.fingerprint) == 0 and len(kept) == len(new.fingerprint):
        # A second copy of the first lists of an epoch would be the largest arrays of all.
        return new
    kept = kept[np.lexsort((kept, sentence[kept]))]
    ptr = row_ends(np.concatenate([np.diff(old.feature_ptr), np.diff(new.feature_ptr)]))
    feature_ptr, features = select_rows(ptr, np.concatenate(feature).astype(np.int32), kept)
    return NBestPool(
        row_ends(np.bincount(sentence[kept], minlength=old.sentences)),
        np.concatenate([old.statistics, new.statistics])[kept],
        fingerprint[kept],
        feature_ptr,
        features,
        select_rows(ptr, np.concatenate([old.value, new.value]), kept)[1],
        feature_id,
    )


def chosen(
    pools: Sequence[NBestPool], sentences: np.ndarray, numbers: Sequence[np.ndarray], feature_id: np.ndarray
) -> NBestPool:
    """The lists of these ``sentences`` (int64 [lists]), numbered from the first of the first pool, in this order.

    ``numbers``: int32 each, the positions of a pool's features in ``feature_id`` (uint64, ascending).
    """
    first = row_ends([pool.sentences for pool in pools])
    parts = (np.searchsorted(first, sentences, side="right") - 1).tolist()
    lengths, statistics, fingerprint, widths, feature, value = [], [], [], [], [], []
    for part, number in zip(parts, (sentences - first[parts]).tolist(), strict=True):
        pool = pools[part]
        start, end = pool.sentence_ptr[number : number + 2].tolist()
        ptr = pool.feature_ptr[start : end + 1]
        row = slice(ptr[0], ptr[-1])
        lengths.append(end - start)
        statistics.append(pool.statistics[start:end])
        fingerprint.append(pool.fingerprint[start:end])
        widths.append(ptr[1:] - ptr[:-1])
        feature.append(numbers[part].take(pool.feature[row]))
        value.append(pool.value[row])
    return NBestPool(
        row_ends(lengths),
        np.concatenate(statistics),
        np.concatenate(fingerprint),
        row_ends(np.concatenate(widths)),
        np.concatenate(feature),
        np.concatenate(value),
        feature_id,
    )


def scores(pool: NBestPool, weights: np.ndarray) -> np.ndarray:
    """float64 [entries]: w.x, summed in row order; ``weights``: float64 [features of the pool]."""
    result = np.empty(len(pool.fingerprint))
    row_scores(pool.feature_ptr, pool.feature, pool.value, weights, result)
    return result


def summed(pool: NBestPool, coefficients: np.ndarray) -> np.ndarray:
    """float64 [features of the pool]: the sum of feature vectors, weighted by ``coefficients`` (float64 [entries])."""
    result = np.zeros(len(pool.feature_id))
    row_sums(pool.feature_ptr, pool.feature, pool.value, coefficients, result)
    return result
