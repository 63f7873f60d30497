"""Response curves: what weights of bins make of a value."""

from __future__ import annotations

import numpy as np
import pytest

from mpitune.grammar.binning import Bins
from mpitune.grammar.score_transforms import Scoring
from mpitune.report.response_curves import responses

COUNT = Bins("Count", np.log10([1.0, 2.0, 5.0]), np.log10([1.0, 4.0, 9.0]), np.array([7, 8, 9]))
LEX = Bins("Lex", np.array([0.0, 1.0, 3.0]), np.array([0.5, 2.0, 4.0]), np.array([3, 2, 1]))
WEIGHTS = {"Count_1": -1.0, "Count_2": 0.5, "Count_3": 0.25, "Lex_1": 0.125, "Lex_3": -2.0, "Lex": -0.5}


def test_bins_as_they_are() -> None:
    count, lex = responses(Scoring(bins=(COUNT, LEX)), WEIGHTS)
    assert (count.feature, count.transform) == ("Count", None)
    assert count.contribution.tolist() == [-1, 0.5, 0.25] and count.population.tolist() == [7, 8, 9]
    # A bin without a weight contributes nothing.
    assert lex.contribution.tolist() == [0.125, 0, -2]
    assert lex.least.tolist() == [0, 1, 3] and lex.most.tolist() == [0.5, 2, 4]


def test_transforms_name_the_values() -> None:
    transforms = {"Count": "10**v-1", "Lex": "10**-v"}
    count, lex = responses(Scoring(transforms, (COUNT, LEX)), WEIGHTS)
    assert count.least == pytest.approx([0, 1, 4]) and count.most == pytest.approx([0, 3, 8])
    # Large costs are small probabilities: values ascend all the same.
    assert lex.least == pytest.approx([1e-4, 1e-2, 10**-0.5]) and lex.most == pytest.approx([1e-3, 1e-1, 1])
    assert lex.contribution.tolist() == [-2, 0, 0.125] and lex.population.tolist() == [1, 2, 3]


def test_overlapping_bins_are_worth_all_that_a_value_fires() -> None:
    [count] = responses(Scoring(bins=(COUNT,), overlap=1), WEIGHTS)
    assert count.contribution.tolist() == [-0.5, -0.25, 0.75]


def test_what_is_kept_counts_too() -> None:
    [lex] = responses(Scoring(bins=(LEX,), keep=True), WEIGHTS)
    assert lex.contribution.tolist() == [0.125 - 0.125, -0.75, -2 - 1.75]
