"""Grammars extracted for sentences: one table of rules with counts, and for each sentence its source sides.

The rules of a sentence and their seven features (Lopez, "Hierarchical Phrase-Based Translation with Suffix Arrays",
EMNLP-CoNLL 2007) are computed from the counts when its grammar is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpitune.array_files.arrays import with_prefix
from mpitune.grammar.rules import Rules, RuleTypes
from mpitune.grammar.score_transforms import TransformPlan, transform_scores
from mpitune.jit import int64, kernel
from mpitune.portable_math import log10

FEATURES = (
    "EgivenFCoherent",
    "SampleCountF",
    "CountEF",
    "MaxLexFgivenE",
    "MaxLexEgivenF",
    "IsSingletonF",
    "IsSingletonFE",
)
"""The features of an extracted rule, in the order of its scores."""


class RuleCountTable(NamedTuple):
    """Counts of the rules, and the source sides of each sentence."""

    rule_ptr: np.ndarray
    """int64 [sides + 1]: the rule types of source side i are ``rule_ptr[i]`` to ``rule_ptr[i + 1]``."""
    rule_count: np.ndarray
    """int16 [types]: number of sampled occurrences that give the rule."""
    lexical: np.ndarray
    """int32 [types]: a row of `lexical_value`."""
    lexical_value: np.ndarray
    """float64 [rows, 2]: MaxLexFgivenE, MaxLexEgivenF."""
    grammar_ptr: np.ndarray
    """int64 [sentences + 1]: the entries of sentence i are ``grammar_ptr[i]`` to ``grammar_ptr[i + 1]``."""
    entry_side: np.ndarray
    """int32 [entries]: a source side; sorted as in `Rules`, ..."""
    entry_sample: np.ndarray
    """int16 [entries]: ... the number of its sampled occurrences for this sentence, ..."""
    entry_single: np.ndarray
    """bool [entries]: ... True if these give rules once only, ..."""
    entry_changes: np.ndarray
    """int16 [entries]: ... and the number of rules with another count for this sentence."""
    change_ptr: np.ndarray
    """int64 [sentences + 1]: the changes of sentence i are ``change_ptr[i]`` to ``change_ptr[i + 1]``."""
    change_rule: np.ndarray
    """int16 [changes]: a rule, counted from the first of its source side, ..."""
    change_count: np.ndarray
    """int16 [changes]: ... and its count for this sentence; 0: the sentence does not have it."""


class _Workspace(NamedTuple):
    """Arrays that `_write_rules` works in."""

    counts: np.ndarray
    """int64: the counts of the rules of a source side."""
    best: np.ndarray
    """int64 [`ExtractedGrammars.max_translations`]: the rules kept so far, best first, ..."""
    key: np.ndarray
    """float64: ... and what they are sorted by."""


@dataclass(frozen=True)
class ExtractedGrammars:
    """Grammars stored as source sides of a common table, one for each sentence; see `Grammars`."""

    types: RuleTypes
    table: RuleCountTable
    plan: TransformPlan | None = None
    """The transformation of scores; None: unchanged."""
    max_translations: int = 0
    """Number of rules that a source side keeps, those with the largest counts, and among equal counts those with the
    best lexical scores; 0: all."""

    @classmethod
    def stored(
        cls, arrays: Mapping[str, np.ndarray], plan: TransformPlan | None = None, max_translations: int = 0
    ) -> ExtractedGrammars:
        """The grammars in ``arrays``, which have the prefixes ``types`` and ``counts``."""
        table = RuleCountTable(**with_prefix(arrays, "counts"))
        return cls(RuleTypes(**with_prefix(arrays, "types")), table, plan, max_translations)

    def __len__(self) -> int:
        return len(self.table.grammar_ptr) - 1

    def open(self, number: int) -> Rules:
        table = self.table
        side = table.entry_side[table.grammar_ptr[number] : table.grammar_ptr[number + 1]]
        rules_of_side = table.rule_ptr[side + 1] - table.rule_ptr[side]
        kept = self.max_translations
        space = _Workspace(
            counts=np.empty(rules_of_side.max(initial=0), dtype=np.int64),
            best=np.empty(kept, dtype=np.int64),
            key=np.empty(kept),
        )
        most = int((np.minimum(rules_of_side, kept) if kept else rules_of_side).sum())
        type_, score_ptr = np.empty(most, dtype=np.int32), np.empty(most + 1, dtype=np.int64)
        index, value = np.empty(len(FEATURES) * most, dtype=np.int32), np.empty(len(FEATURES) * most)
        rules = _write_rules(table, number, space, type_, score_ptr, index, value)
        scores = int(score_ptr[rules])
        opened = Rules(
            types=self.types,
            type=type_[:rules],
            score_row=np.arange(rules, dtype=np.int32),
            score_ptr=score_ptr[: rules + 1],
            score_index=index[:scores],
            score_value=value[:scores],
        )
        return opened if self.plan is None else transform_scores(opened, self.plan)


@kernel
def _write_rules(
    table: RuleCountTable,
    sentence: int,
    space: _Workspace,
    type_: np.ndarray,
    score_ptr: np.ndarray,
    score_index: np.ndarray,
    score_value: np.ndarray,
) -> int:
    """Write the rules of ``sentence`` and their scores other than 0; returns their number.

    ``type_``: int32 [rules]; ``score_ptr``: int64 [rules + 1]; ``score_index``: int32 and ``score_value``: float64 [7 x
    rules]; see `Rules`.
    """
    rows, end = 0, 0
    score_ptr[0] = 0
    change = int64(table.change_ptr[sentence])
    for entry in range(table.grammar_ptr[sentence], table.grammar_ptr[sentence + 1]):
        side, sample = table.entry_side[entry], table.entry_sample[entry]
        last_change = change + table.entry_changes[entry]
        sample_score = log10(1.0 + sample)
        first = table.rule_ptr[side]
        rules = table.rule_ptr[side + 1] - first
        for k in range(rules):
            space.counts[k] = table.rule_count[first + k]
        for k in range(change, last_change):
            space.counts[table.change_rule[k]] = table.change_count[k]
        if len(space.best) > 0:
            _keep_most_frequent(space, table.lexical_value, table.lexical[first:], rules)
        for k in range(rules):
            rule, count = first + k, space.counts[k]
            if count == 0:
                continue
            type_[rows] = rule
            lexical = table.lexical[rule]
            end = _put(0, -log10(count / sample), score_index, score_value, end)
            end = _put(1, sample_score, score_index, score_value, end)
            end = _put(2, log10(1.0 + count), score_index, score_value, end)
            end = _put(3, table.lexical_value[lexical, 0], score_index, score_value, end)
            end = _put(4, table.lexical_value[lexical, 1], score_index, score_value, end)
            end = _put(5, 1.0 if table.entry_single[entry] else 0.0, score_index, score_value, end)
            end = _put(6, 1.0 if count == 1 else 0.0, score_index, score_value, end)
            rows += 1
            score_ptr[rows] = end
        change = last_change
    return rows


@kernel
def _keep_most_frequent(space: _Workspace, lexical_value: np.ndarray, lexical: np.ndarray, rules: int) -> None:
    """Set the counts of the first ``rules`` rules to 0 but for those that `ExtractedGrammars.max_translations` keeps.

    The lexical scores of rule r are ``lexical_value[lexical[r]]``.
    """
    count, best, key_of = space.counts, space.best, space.key
    kept = 0
    for rule in range(rules):
        if count[rule] == 0:
            continue
        # A sum of two -log10 p is below 10,000: counts decide first.
        key = lexical_value[lexical[rule], 0] + lexical_value[lexical[rule], 1] - 10000.0 * count[rule]
        if kept == len(best):
            if key >= key_of[kept - 1]:
                count[rule] = 0
                continue
            kept -= 1
            count[best[kept]] = 0
        place = kept
        while place > 0 and key_of[place - 1] > key:
            best[place], key_of[place] = best[place - 1], key_of[place - 1]
            place -= 1
        best[place], key_of[place] = rule, key
        kept += 1


@kernel
def _put(index: int, value: float, score_index: np.ndarray, score_value: np.ndarray, end: int) -> int:
    """Append a score unless it is 0; returns the new number of scores."""
    if value == 0.0:
        return end
    score_index[end], score_value[end] = index, value
    return end + 1
