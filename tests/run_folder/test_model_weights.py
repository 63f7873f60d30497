"""Views of a model's weights: the nearest rules."""

from __future__ import annotations

from mpitune.run_folder.model_weights import nearest


def test_gaps_are_no_words_but_words_like_them_are() -> None:
    weights = {"R:X:die_NATO:NATO": 1.0, "R:X:NX_tritt:N1_joins": 0.5}
    assert nearest(weights, "NATO", 5) == [("R:X:die_NATO:NATO", 1.0)]
    assert nearest(weights, "R:X:NX_tritt:N1_joins", 5) == [("R:X:NX_tritt:N1_joins", 0.5)]
    assert nearest(weights, "R:X:NX_geht:N1_goes", 5) == []
