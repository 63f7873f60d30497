"""Extraction of the k-best list from derivations: their words, feature vectors and scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.decoder.embedded.forest import Forest
from mpitune.decoder.embedded.kbest import NONE, Derivations
from mpitune.decoder.embedded.matched import NO_SLOT, MatchedRules
from mpitune.jit import int64, kernel


class Scratch(NamedTuple):
    """Working space for one feature vector and one derivation; `total` and `touched` are zero between uses."""

    total: np.ndarray
    """float64 [slots]: sums of feature values."""
    touched: np.ndarray
    """uint8 [slots]: 1 if the current derivation fires the feature."""
    stack: np.ndarray
    """int32 [depth, 2]: derivations on the path from the top, and the current index in the target of each."""


class SlotOrder(NamedTuple):
    """The order of the features of an entry: that of slots, but see below."""

    first_dynamic_slot: int
    """First slot of features discovered while decoding, which are ordered by id: their slots differ from process to
    process."""
    dynamic_ids: np.ndarray
    """uint64 [slots - first_dynamic_slot]: ids of these features."""


def new_scratch(slots: int, depth: int) -> Scratch:
    """Space for so many ``slots``, and for derivations at most ``depth`` rules deep."""
    return Scratch(
        total=np.zeros(slots),
        touched=np.zeros(slots, dtype=np.uint8),
        stack=np.empty((depth + 2, 2), dtype=np.int32),
    )


def extract_kbest(
    forest: Forest,
    matched: MatchedRules,
    derivations: Derivations,
    found: np.ndarray,
    lm_slot: np.ndarray,
    weights: np.ndarray,
    order: SlotOrder,
    scratch: Scratch,
) -> KBest:
    """The k-best list of the derivations ``found`` (int32 [k], indices in ``derivations``).

    ``lm_slot``: int32 [LMs], slots of the LMs' features; ``weights``: float64 by slot, 0 past the end.
    """
    size = np.zeros(2, dtype=np.int64)
    _measure(forest, matched, derivations, found, scratch.stack, lm_slot, size)
    kbest = KBest(
        word_ptr=np.zeros(len(found) + 1, dtype=np.int64),
        word=np.empty(size[0], dtype=np.int32),
        score=np.empty(len(found), dtype=np.float64),
        feature_ptr=np.zeros(len(found) + 1, dtype=np.int64),
        feature_index=np.empty(size[1], dtype=np.int32),
        feature_value=np.empty(size[1], dtype=np.float64),
    )
    _extract(forest, matched, derivations, found, lm_slot, weights, order, scratch, kbest)
    features = int(kbest.feature_ptr[-1])
    return kbest._replace(
        feature_index=kbest.feature_index[:features].copy(), feature_value=kbest.feature_value[:features].copy()
    )


def rules_without_slots(
    forest: Forest, matched: MatchedRules, derivations: Derivations, found: np.ndarray
) -> np.ndarray:
    """int32: the rules of the derivations ``found`` that fire features without a slot, ascending."""
    rules = np.zeros(len(matched.score), dtype=np.bool_)
    seen, waiting = np.zeros(len(derivations.edge), dtype=np.bool_), np.empty(len(derivations.edge), dtype=np.int32)
    _mark_without_slots(forest, matched, derivations, found, seen, waiting, rules)
    return np.flatnonzero(rules).astype(np.int32)


@kernel
def _mark_without_slots(
    forest: Forest,
    matched: MatchedRules,
    derivations: Derivations,
    found: np.ndarray,
    seen: np.ndarray,
    waiting: np.ndarray,
    rules: np.ndarray,
) -> None:
    """Mark rules with features without a slot in ``rules`` (bool [rules]).

    ``seen`` (bool, all False) and ``waiting`` (int32): space for all ``derivations``.
    """
    for j in range(found.shape[0]):
        if seen[found[j]]:
            continue
        seen[found[j]] = True
        waiting[0] = found[j]
        height = 1
        while height > 0:
            height -= 1
            derivation = int64(waiting[height])
            rule = forest.edge_rule[derivations.edge[derivation]]
            if rule >= 0:
                for k in range(matched.features.ptr[rule], matched.features.ptr[rule + 1]):
                    rules[rule] |= matched.features.column[k] == NO_SLOT
            for side in range(2):
                part = derivations.subderivation[derivation, side]
                if part != NONE and not seen[part]:
                    seen[part] = True
                    waiting[height] = part
                    height += 1


@kernel
def _measure(
    forest: Forest,
    matched: MatchedRules,
    derivations: Derivations,
    found: np.ndarray,
    stack: np.ndarray,
    lm_slot: np.ndarray,
    size: np.ndarray,
) -> None:
    """Write the number of words and (an upper bound) of features of all derivations to ``size`` (int64 [2])."""
    size[:] = 0
    for j in range(found.shape[0]):
        stack[0, 0] = found[j]
        height = 1
        size[1] += lm_slot.shape[0]
        while height > 0:
            height -= 1
            derivation = stack[height, 0]
            rule = forest.edge_rule[derivations.edge[derivation]]
            if rule >= 0:
                size[1] += matched.features.ptr[rule + 1] - matched.features.ptr[rule]
                for k in range(matched.target_ptr[rule], matched.target_ptr[rule + 1]):
                    if matched.target[k] >= 0:
                        size[0] += 1
            for side in range(2):
                if derivations.subderivation[derivation, side] != NONE:
                    stack[height, 0] = derivations.subderivation[derivation, side]
                    height += 1


@kernel
def _extract(
    forest: Forest,
    matched: MatchedRules,
    derivations: Derivations,
    found: np.ndarray,
    lm_slot: np.ndarray,
    weights: np.ndarray,
    order: SlotOrder,
    scratch: Scratch,
    kbest: KBest,
) -> None:
    """Fill ``kbest``, whose arrays have the sizes that `_measure` gives. Features with equal slots are added up."""
    words, features = int64(0), int64(0)
    for j in range(found.shape[0]):
        words, features = _extract_one(forest, matched, derivations, found[j], lm_slot, scratch, kbest, words, features)
        kbest.word_ptr[j + 1] = words
        kbest.feature_ptr[j + 1] = features
        begin = kbest.feature_ptr[j]
        _sort(order, kbest.feature_index, begin, features)
        score = 0.0
        for k in range(begin, features):
            slot = kbest.feature_index[k]
            kbest.feature_value[k] = scratch.total[slot]
            if slot < len(weights):
                score += weights[slot] * scratch.total[slot]
            scratch.total[slot] = 0.0
            scratch.touched[slot] = 0
        kbest.score[j] = score


@kernel
def _extract_one(
    forest: Forest,
    matched: MatchedRules,
    derivations: Derivations,
    derivation: int,
    lm_slot: np.ndarray,
    scratch: Scratch,
    kbest: KBest,
    words: int,
    features: int,
) -> tuple[int, int]:
    """Write the words of ``derivation`` and the slots of its features, unsorted; add their values to ``scratch.total``.

    Returns the new number of words and of features in ``kbest``.
    """
    stack, rows = scratch.stack, matched.features
    for m in range(lm_slot.shape[0]):
        features = _add_up(scratch, kbest, int64(lm_slot[m]), 0.0, features)
    stack[0, 0] = derivation
    stack[0, 1] = -1
    height = 1
    while height > 0:
        derivation = int64(stack[height - 1, 0])
        edge = derivations.edge[derivation]
        rule = forest.edge_rule[edge]
        place = int64(stack[height - 1, 1])
        if place < 0:
            for m in range(lm_slot.shape[0]):
                scratch.total[lm_slot[m]] += forest.edge_lm[edge, m]
            if rule < 0:
                # The goal's rule has no words: continue with its tail.
                stack[height - 1, 0] = derivations.subderivation[derivation, 0]
                continue
            for k in range(rows.ptr[rule], rows.ptr[rule + 1]):
                features = _add_up(scratch, kbest, int64(rows.column[k]), rows.value[k], features)
            place = int64(matched.target_ptr[rule])
        end = int64(matched.target_ptr[rule + 1])
        while place < end and matched.target[place] >= 0:
            kbest.word[words] = matched.target[place]
            words += 1
            place += 1
        if place == end:
            height -= 1
            continue
        stack[height - 1, 1] = place + 1
        stack[height, 0] = derivations.subderivation[derivation, -1 - matched.target[place]]
        stack[height, 1] = -1
        height += 1
    return words, features


@kernel
def _add_up(scratch: Scratch, kbest: KBest, slot: int, value: float, features: int) -> int:
    """Add ``value`` to the feature ``slot``; returns the new number of features in ``kbest``."""
    scratch.total[slot] += value
    if scratch.touched[slot] == 0:
        scratch.touched[slot] = 1
        kbest.feature_index[features] = slot
        return features + 1
    return features


@kernel
def _is_before(order: SlotOrder, a: int, b: int) -> bool:
    """True if slot ``a`` comes before slot ``b``: sums over features have the same bits in all processes."""
    if a < order.first_dynamic_slot or b < order.first_dynamic_slot:
        return a < b
    return bool(order.dynamic_ids[a - order.first_dynamic_slot] < order.dynamic_ids[b - order.first_dynamic_slot])


@kernel
def _sort(order: SlotOrder, numbers: np.ndarray, begin: int, end: int) -> None:
    """Sort the slots ``numbers[begin:end]``, some hundred of them (Shell sort, gaps by Ciura)."""
    for gap in (301, 132, 57, 23, 10, 4, 1):
        for i in range(begin + gap, end):
            number = numbers[i]
            k = i
            while k >= begin + gap and _is_before(order, int64(number), int64(numbers[k - gap])):
                numbers[k] = numbers[k - gap]
                k -= gap
            numbers[k] = number
