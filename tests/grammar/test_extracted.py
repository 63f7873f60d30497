"""Extracted grammars opened from counts, by hand; with transformed scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpitune.grammar.binning import Bins
from mpitune.grammar.extracted import FEATURES, ExtractedGrammars, RuleCountTable
from mpitune.grammar.rules import Rules, RuleTypes
from mpitune.grammar.score_transforms import Scoring, make_plan

pytestmark = pytest.mark.kernel

Scores = dict[str, float]


def int16(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int16)


TABLE = RuleCountTable(
    # Source side 0 has rules 0 to 2, rule 2 with a second alignment, rule 3; source side 1 has rule 4.
    rule_ptr=np.array([0, 4, 5]),
    rule_count=int16(6, 1, 3, 0, 1),
    lexical=np.array([0, 1, 1, 1, 0], dtype=np.int32),
    lexical_value=np.array([[0.5, 0.0], [1.5, 2.0]]),
    grammar_ptr=np.array([0, 2, 2, 4]),
    entry_side=np.array([0, 1, 0, 1], dtype=np.int32),
    entry_sample=int16(12, 1, 9, 1),
    entry_single=np.array([False, True, False, True]),
    entry_changes=int16(0, 0, 4, 0),
    change_ptr=np.array([0, 0, 0, 4]),
    # Without the pair of sentence 2: a smaller count, no count, and the other alignment.
    change_rule=int16(0, 1, 2, 3),
    change_count=int16(5, 0, 0, 2),
)
TYPES = RuleTypes(*[np.zeros(0, dtype=np.int64)] * len(RuleTypes._fields))


def rules_of(rules: Rules, names: list[str]) -> list[tuple[int, Scores]]:
    found = []
    for type_, row in zip(rules.type.tolist(), rules.score_row.tolist(), strict=True):
        scores = slice(rules.score_ptr[row], rules.score_ptr[row + 1])
        index, value = rules.score_index[scores].tolist(), rules.score_value[scores].tolist()
        assert 0.0 not in value and len(set(index)) == len(index)
        found.append((type_, {names[k]: v for k, v in zip(index, value, strict=True)}))
    return found


def features(count: int, sample: int, lexical: tuple[float, float], single: bool) -> Scores:
    values = (
        -math.log10(count / sample),
        math.log10(1 + sample),
        math.log10(1 + count),
        *lexical,
        float(single),
        float(count == 1),
    )
    return dict(zip(FEATURES, values, strict=True))


EXPECTED = [
    [
        (0, features(6, 12, (0.5, 0.0), False)),
        (1, features(1, 12, (1.5, 2.0), False)),
        (2, features(3, 12, (1.5, 2.0), False)),
        (4, features(1, 1, (0.5, 0.0), True)),
    ],
    [],
    [
        (0, features(5, 9, (0.5, 0.0), False)),
        (3, features(2, 9, (1.5, 2.0), False)),
        (4, features(1, 1, (0.5, 0.0), True)),
    ],
]


def test_rules_and_features_are_computed_from_counts() -> None:
    grammars = ExtractedGrammars(TYPES, TABLE)
    assert len(grammars) == 3 and grammars.types is TYPES
    for number, expected in enumerate(EXPECTED):
        found = rules_of(grammars.open(number), list(FEATURES))
        assert [type_ for type_, _ in found] == [type_ for type_, _ in expected]
        for (_, scores), (_, given) in zip(found, expected, strict=True):
            assert scores == pytest.approx({name: value for name, value in given.items() if value}, rel=1e-14)


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_the_most_frequent_rules_of_a_source_side_are_kept(most: int) -> None:
    # Rules 5 to 10 of one source side; sentence 1 has other counts of two of them.
    lexical_value = np.array([[0.5, 0.0], [99.0, 1400.0], [0.25, 0.2]])
    count, lexical = int16(2, 7, 2, 3, 0, 2), np.array([0, 1, 2, 0, 2, 0], dtype=np.int32)
    table = TABLE._replace(
        rule_ptr=np.array([0, 6]),
        rule_count=count,
        lexical=lexical,
        lexical_value=lexical_value,
        grammar_ptr=np.array([0, 1, 2]),
        entry_side=np.zeros(2, dtype=np.int32),
        entry_sample=int16(16, 15),
        entry_single=np.zeros(2, dtype=np.bool_),
        entry_changes=int16(0, 2),
        change_ptr=np.array([0, 0, 2]),
        change_rule=int16(1, 4),
        change_count=int16(0, 2),
    )
    for sentence, counts in enumerate(([2, 7, 2, 3, 0, 2], [2, 0, 2, 3, 2, 2])):
        sums = lexical_value[lexical].sum(axis=1).tolist()
        order = sorted(range(6), key=lambda rule: (-counts[rule], sums[rule], rule))
        kept = sorted(rule for rule in order[:most] if counts[rule])
        found = rules_of(ExtractedGrammars(TYPES, table, max_translations=most).open(sentence), list(FEATURES))
        everything = rules_of(ExtractedGrammars(TYPES, table).open(sentence), list(FEATURES))
        assert found == [rule for rule in everything if rule[0] in kept]
        assert len(found) == most


def test_scores_are_transformed() -> None:
    most = np.array([0.5, 0.8])
    bins = Bins("CountEF", most - 0.25, most, np.ones(2, dtype=np.int64))
    scoring = Scoring({"SampleCountF": "10**v-1"}, (bins,))
    grammars = ExtractedGrammars(TYPES, TABLE, make_plan(scoring, FEATURES))
    for number, expected in enumerate(EXPECTED):
        found = rules_of(grammars.open(number), scoring.names(FEATURES))
        for (type_, scores), (expected_type, given) in zip(found, expected, strict=True):
            changed = {**given, "SampleCountF": 10 ** given["SampleCountF"] - 1}
            changed[f"CountEF_{1 + (changed.pop('CountEF') > 0.5)}"] = 1.0
            assert type_ == expected_type
            assert scores == pytest.approx({name: value for name, value in changed.items() if value}, rel=1e-12)
