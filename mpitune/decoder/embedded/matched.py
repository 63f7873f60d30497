"""The rules that match one sentence as arrays: target sides, features and scores under the current weights.

Online learners change the weights after every sentence: only these rules are scored, never the whole grammar.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.number_table import NumberTable, place_of
from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.chart import GLUE_ONE, GLUE_TWO, GROUPS, PASS_THROUGH, Chart
from mpitune.grammar.fired import Spelling, Workspace, fire, most_fired, new_workspace
from mpitune.grammar.rules import Rules
from mpitune.grammar.score_transforms import WORD_PENALTY
from mpitune.jit import kernel
from mpitune.lm.ngram_table import UNKNOWN

NO_SLOT = -1
"""Column of a sparse feature that is not in the feature table; its weight is 0."""


class Rows(NamedTuple):
    """Sparse rows (CSR): row i is ``column[ptr[i]:ptr[i + 1]]`` with ``value`` likewise."""

    ptr: np.ndarray
    """int64 [rows + 1]"""
    column: np.ndarray
    """int32"""
    value: np.ndarray
    """float64"""


class RuleSources(NamedTuple):
    """The sentence, the grammar and the features that `match` reads."""

    words: np.ndarray
    """int32 [n]: the source words."""
    rules: Rules
    """The open grammar."""
    spelling: Spelling
    """The templates of sparse features."""
    known: NumberTable
    """Hashes of the names of the sparse features in use: place p is slot ``first_known + p``."""
    first_known: int
    fixed: Rows
    """Features of the rules that no grammar contains: S -> X, S -> S X, the pass-through rule of each position. Columns
    are slots."""
    score_slot: np.ndarray
    """int32 [score names]: slots of the grammar's scores."""
    word_penalty_slot: int
    """-1 if bins replace the word penalty."""
    lm_word: np.ndarray
    """int32 [LMs, vocabulary]: number of each word in each LM."""
    oov_slot: np.ndarray
    """int32 [LMs]: slots of the out-of-vocabulary counts."""


class MatchedRules(NamedTuple):
    """The rules of the groups of a chart, group by group, with all features except the LMs' log10 probabilities."""

    group_ptr: np.ndarray
    """int32 [groups + 1]: rules of group g are ``group_ptr[g]`` to ``group_ptr[g + 1]`` (exclusive)."""
    target_ptr: np.ndarray
    """int32 [rules + 1]: target side of rule r is ``target[target_ptr[r]:target_ptr[r + 1]]``."""
    target: np.ndarray
    """int32: word >= 0, first gap -1, second gap -2."""
    lm_target: np.ndarray
    """int32 [LMs, symbols of all targets]: `target` with the word numbers of each LM."""
    features: Rows
    """A row for each rule; columns are slots, or `NO_SLOT`."""
    score: np.ndarray
    """float64 [rules]: weights times features, without the LMs' out-of-vocabulary counts."""
    oov_score: np.ndarray
    """float64 [rules, LMs]: weights times out-of-vocabulary counts. Separate from `score`, since cdec adds them after
    the LM's probability: rounding gives the same bits, so candidates tie as they do there."""


def match(arena: Arena, chart: Chart, sources: RuleSources, weights: np.ndarray) -> MatchedRules:
    """Collect the rules of ``chart``, in arrays of ``arena``, and score them with ``weights`` (float64, by slot).

    Slots past the end of ``weights`` have weight 0.
    """
    size = np.zeros(4, dtype=np.int64)
    _measure(chart, sources, size)
    rules, symbols, features, most = size.tolist()
    matched = MatchedRules(
        group_ptr=arena.empty(int(chart.size[GROUPS]) + 1, dtype=np.int32),
        target_ptr=arena.empty(rules + 1, dtype=np.int32),
        target=arena.empty(symbols, dtype=np.int32),
        lm_target=arena.empty((sources.lm_word.shape[0], symbols), dtype=np.int32),
        features=Rows(
            arena.empty(rules + 1, dtype=np.int64),
            arena.empty(features, dtype=np.int32),
            arena.empty(features, dtype=np.float64),
        ),
        score=arena.empty(rules, dtype=np.float64),
        oov_score=arena.empty((rules, sources.lm_word.shape[0]), dtype=np.float64),
    )
    _gather(chart, sources, weights, new_workspace(most), matched)
    return matched


@kernel
def _measure(chart: Chart, sources: RuleSources, size: np.ndarray) -> None:
    """Write the number of rules, of target symbols and (an upper bound) of features to ``size`` (int64 [4]).

    Last, an upper bound on the sparse features of one rule.
    """
    rules = sources.rules
    most_extra = 1 + sources.oov_slot.shape[0]
    n = sources.words.shape[0]
    size[0] = PASS_THROUGH + n
    size[1] = 3 + n
    size[2] = sources.fixed.column.shape[0] + size[0] * most_extra
    for group in range(PASS_THROUGH + n, chart.size[GROUPS]):
        for rule in range(chart.group_rule[group, 0], chart.group_rule[group, 1]):
            type_ = rules.type[rule]
            size[0] += 1
            target = rules.types.target_side[type_]
            size[1] += rules.types.target_ptr[target + 1] - rules.types.target_ptr[target]
            row = rules.score_row[rule]
            size[2] += rules.score_ptr[row + 1] - rules.score_ptr[row]
            most = most_fired(sources.spelling, rules.types, type_)
            size[2] += most + most_extra
            size[3] = max(size[3], most)


@kernel
def _gather(chart: Chart, sources: RuleSources, weights: np.ndarray, space: Workspace, matched: MatchedRules) -> None:
    """Fill ``matched``; its arrays and ``space`` have the sizes that `_measure` gives."""
    rules, fixed, rows = sources.rules, sources.fixed, matched.features
    n = sources.words.shape[0]
    count, symbols, features = 0, 0, 0
    for group in range(chart.size[GROUPS]):
        matched.group_ptr[group] = count
        always = group < PASS_THROUGH + n
        first, last = (0, 1) if always else (chart.group_rule[group, 0], chart.group_rule[group, 1])
        for rule in range(first, last):
            matched.target_ptr[count] = symbols
            rows.ptr[count] = features
            if always:
                if group == GLUE_ONE:
                    matched.target[symbols] = -1
                    symbols += 1
                elif group == GLUE_TWO:
                    matched.target[symbols] = -1
                    matched.target[symbols + 1] = -2
                    symbols += 2
                else:
                    matched.target[symbols] = sources.words[group - PASS_THROUGH]
                    symbols += 1
                for k in range(fixed.ptr[group], fixed.ptr[group + 1]):
                    rows.column[features] = fixed.column[k]
                    rows.value[features] = fixed.value[k]
                    features += 1
            else:
                type_ = rules.type[rule]
                target = rules.types.target_side[type_]
                for k in range(rules.types.target_ptr[target], rules.types.target_ptr[target + 1]):
                    matched.target[symbols] = rules.types.target[k]
                    symbols += 1
                row = rules.score_row[rule]
                for k in range(rules.score_ptr[row], rules.score_ptr[row + 1]):
                    rows.column[features] = sources.score_slot[rules.score_index[k]]
                    rows.value[features] = rules.score_value[k]
                    features += 1
                for k in range(fire(sources.spelling, rules.types, type_, space)):
                    place = place_of(sources.known, space.hash[k])
                    rows.column[features] = sources.first_known + place if place >= 0 else NO_SLOT
                    rows.value[features] = space.value[k]
                    features += 1
            features = _count_words(sources, matched, count, symbols, features)
            score = 0.0
            for k in range(rows.ptr[count], features):
                if 0 <= rows.column[k] < len(weights):
                    score += weights[rows.column[k]] * rows.value[k]
            matched.score[count] = score
            features = _count_unknown(sources, weights, matched, count, symbols, features)
            count += 1
    matched.group_ptr[chart.size[GROUPS]] = count
    matched.target_ptr[count] = symbols
    rows.ptr[count] = features


@kernel
def _count_words(sources: RuleSources, matched: MatchedRules, rule: int, end: int, features: int) -> int:
    """Append the word penalty of the target side that ends at ``end``; returns the new number of features."""
    if sources.word_penalty_slot < 0:
        return features
    words = 0
    for k in range(matched.target_ptr[rule], end):
        if matched.target[k] >= 0:
            words += 1
    if words > 0:
        matched.features.column[features] = sources.word_penalty_slot
        matched.features.value[features] = words * WORD_PENALTY
        features += 1
    return features


@kernel
def _count_unknown(
    sources: RuleSources, weights: np.ndarray, matched: MatchedRules, rule: int, end: int, features: int
) -> int:
    """Fill `lm_target` for the target side that ends at ``end``, and append its out-of-vocabulary counts.

    Returns the new number of features.
    """
    rows = matched.features
    for lm in range(sources.lm_word.shape[0]):
        unknown = 0
        for k in range(matched.target_ptr[rule], end):
            word = matched.target[k]
            if word >= 0:
                matched.lm_target[lm, k] = sources.lm_word[lm, word]
                if sources.lm_word[lm, word] == UNKNOWN:
                    unknown += 1
            else:
                matched.lm_target[lm, k] = word
        matched.oov_score[rule, lm] = weights[sources.oov_slot[lm]] * unknown
        if unknown > 0:
            rows.column[features] = sources.oov_slot[lm]
            rows.value[features] = unknown
            features += 1
    return features
