"""What becomes of the grammars' scores: against a plain twin, counted in parts, written down and read."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpitune.errors import UsageError
from mpitune.grammar.binning import Bins, make_bins
from mpitune.grammar.rules import Rules, RuleTypes
from mpitune.grammar.score_transforms import (
    TRANSFORMS,
    WORD_PENALTY,
    WORDS,
    Scoring,
    count_values,
    make_plan,
    merge_counts,
    transform_scores,
)

NAMES = ["A", "B", "C", "D"]
VALUES = st.sampled_from([-1.5, -0.25, 0.0, 0.125, 1.0, 2.75])
ROWS = st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES), min_size=1, max_size=8)


LENGTHS = [1, 0, 3]
"""Target words of the rule types; each has a gap besides."""


def rules_of(rows: Sequence[dict[str, float]], score_row: Sequence[int]) -> Rules:
    """Rules with these rows of scores; zeros are left out, as readers do it. Their types take turns."""
    kept = [{NAMES.index(name): value for name, value in row.items() if value} for row in rows]
    none = np.zeros(0, dtype=np.int32)
    types = RuleTypes(*[none] * len(RuleTypes._fields))._replace(
        target_side=np.arange(len(LENGTHS), dtype=np.int32),
        target_ptr=np.cumsum([0] + [length + 1 for length in LENGTHS]),
        target=np.array([symbol for length in LENGTHS for symbol in (-1, *range(length))], dtype=np.int32),
    )
    return Rules(
        types=types,
        type=np.arange(len(score_row), dtype=np.int32) % len(LENGTHS),
        score_row=np.array(score_row, dtype=np.int32),
        score_ptr=np.cumsum([0] + [len(row) for row in kept]),
        score_index=np.array([index for row in kept for index in row], dtype=np.int32),
        score_value=np.array([value for row in kept for value in row.values()], dtype=np.float64),
    )


def bins_of(feature: str, most: Sequence[float]) -> Bins:
    return Bins(feature, np.array(most) - 0.25, np.array(most), np.ones(len(most), dtype=np.int64))


BINS = st.lists(VALUES, min_size=1, max_size=5, unique=True).map(sorted)


@st.composite
def scorings(draw: st.DrawFn) -> Scoring:
    # X is a score that no rule has any more.
    bins = draw(st.dictionaries(st.sampled_from([*NAMES, "X", "WordPenalty"]), BINS))
    transforms = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TRANSFORMS)))
    chosen = tuple(bins_of(feature, most) for feature, most in bins.items())
    pairs = [(one, other) for one in bins for other in bins if one < other]
    joined = tuple(draw(st.lists(st.sampled_from(pairs), unique=True))) if pairs else ()
    return Scoring(transforms, chosen, draw(st.integers(0, 2)), draw(st.booleans()), joined)


def transformed(transform: str | None, v: float) -> float:
    formulas = {None: v, "10**-v": 10**-v, "10**v-1": 10**v - 1, "exp(-v)": math.exp(-v), "exp(v)": math.exp(v)}
    return formulas[transform]


def plainly(row: dict[str, float], words: int, scoring: Scoring) -> dict[str, float]:
    """What becomes of one row of a rule with so many target words, by name."""
    found, replaced = {}, {bins.feature for bins in scoring.bins}
    for name in NAMES:
        if name not in replaced or scoring.keep:
            found[name] = transformed(scoring.transforms.get(name), row.get(name, 0.0))
    own = {}
    for bins in scoring.bins:
        v = -words / math.log(10) if bins.feature == "WordPenalty" else row.get(bins.feature, 0.0)
        most = bins.most.tolist()
        place = next((n for n, largest in enumerate(most) if largest >= v), len(most) - 1)
        for n in range(len(most)):
            found[f"{bins.feature}_{n + 1}"] = float(abs(n - place) <= scoring.overlap)
        own[bins.feature] = f"{bins.feature}_{place + 1}"
    for one, other in scoring.conjunctions:
        found[f"{own[one]}&{own[other]}"] = 1.0
    return {name: value for name, value in found.items() if value}


@pytest.mark.kernel
@given(ROWS, scorings(), st.data())
def test_rescored_rows_are_those_of_the_plain_twin(
    rows: list[dict[str, float]], scoring: Scoring, data: st.DataObject
) -> None:
    # Rules share rows, and other grammars have rows of their own.
    given_rows = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=12))
    names = scoring.names(NAMES)
    assert len(names) == len(set(names))
    rules = transform_scores(rules_of(rows, given_rows), make_plan(scoring, NAMES))
    for n, (given_row, found_row) in enumerate(zip(given_rows, rules.score_row.tolist(), strict=True)):
        place = slice(rules.score_ptr[found_row], rules.score_ptr[found_row + 1])
        found = [(names[i], v) for i, v in zip(rules.score_index[place], rules.score_value[place], strict=True)]
        expected = plainly(rows[given_row], LENGTHS[n % len(LENGTHS)], scoring)
        assert dict(found) == pytest.approx(expected, rel=1e-12) and len(dict(found)) == len(found)
    assert rules.score_ptr[-1] == len(rules.score_index) == len(rules.score_value)


@pytest.mark.parametrize(("value", "found"), [(800.0, "inf"), (99.0, "9.88903e+42")])
def test_scores_that_are_no_such_logarithms_are_refused(value: float, found: str) -> None:
    plan = make_plan(Scoring({"A": "10**-v", "B": "exp(v)"}), NAMES)
    transform_scores(rules_of([{"A": 5.0, "B": 60.0}], [0]), plan)
    with pytest.raises(UsageError, match="features.unlog: found a score v of which exp") as refused:
        transform_scores(rules_of([{"A": 5.0}, {"B": value}], [0, 1]), plan)
    assert f"exp(v) is {found}, expected a number from -1e30 to 1e30" in str(refused.value)


@pytest.mark.kernel
@given(ROWS, st.data())
def test_values_are_counted_in_any_parts(rows: list[dict[str, float]], data: st.DataObject) -> None:
    score_row = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=30))
    ends = sorted(data.draw(st.lists(st.integers(0, len(score_row)), max_size=3)))
    scores = [2, 0, WORDS]
    # Each part is the share of a rank: any number of grammars.
    bounds = list(zip([0, *ends], [*ends, len(score_row)], strict=True))
    shares = [[score_row[n : min(n + 3, last)] for n in range(first, last, 3)] for first, last in bounds]
    with patch("mpitune.grammar.score_transforms._COUNTED_AT_ONCE", data.draw(st.integers(0, 20))):
        parts = [count_values((rules_of(rows, grammar) for grammar in share), scores) for share in shares]
    for n, score in enumerate(scores):
        whole = merge_counts([part[n] for part in parts])
        expected = Counter(
            WORD_PENALTY * LENGTHS[i % len(LENGTHS)] if score == WORDS else rows[row].get(NAMES[score], 0.0)
            for share in shares
            for grammar in share
            for i, row in enumerate(grammar)
        )
        assert list(zip(*(column.tolist() for column in whole), strict=True)) == sorted(expected.items())
        # All ranks' parts in another order are the same.
        assert all((a == b).all() for a, b in zip(merge_counts([part[n] for part in parts[::-1]]), whole, strict=True))


@given(scorings())
def test_what_is_written_down_is_read_to_the_bit(scoring: Scoring) -> None:
    found = Scoring.from_json(json.loads(json.dumps(scoring.as_json())))
    assert (found.digest, found.overlap, found.keep) == (scoring.digest, scoring.overlap, scoring.keep)
    assert (found.names(NAMES), found.conjunctions) == (scoring.names(NAMES), scoring.conjunctions)
    if scoring.bins:
        other = found._replace(bins=(*found.bins[:-1], found.bins[-1]._replace(most=found.bins[-1].most + 1e-12)))
        assert other.digest != scoring.digest


UNKNOWN = {**Scoring().as_json(), "conjunctions": [["A", "B"]]}


@pytest.mark.parametrize("damage", [{}, {"bins": 3}, {"bins": [{"feature": "A"}]}, UNKNOWN])
def test_what_is_not_a_scoring(damage: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Scoring.from_json(damage)


def test_a_bin_called_like_a_score() -> None:
    with pytest.raises(UsageError, match="A_2"):
        Scoring(bins=(bins_of("A", [1.0, 2.0]),)).names(["A", "A_2"])


def test_a_weight_given_for_a_feature_is_given_to_its_bins() -> None:
    bins = make_bins("A", np.array([0.0, 1.0, 2.0, 4.0]), np.array([2, 1, 1, 2]), 3)
    assert bins.most.tolist() == [0.0, 2.0, 4.0]
    weights = {"A": 2.0, "B": 1.0, "A_1": 7.0}
    assert Scoring(bins=(bins,)).to_bin_weights(weights) == {"A_1": 7.0, "A_2": 3.0, "A_3": 8.0, "B": 1.0}
    assert Scoring(bins=(bins,), keep=True).to_bin_weights(weights) == weights
    # Where a value fires three bins, each has a third.
    assert Scoring(bins=(bins,), overlap=1).to_bin_weights({"A": 1.0}) == pytest.approx(
        {"A_1": 0, "A_2": 0.5, "A_3": 4 / 3}
    )
