"""Exact match of words."""

from __future__ import annotations

from mpitune.metrics.sentence_statistics import SentenceStatistics


def test_a_translation_matches_any_reference_word_for_word() -> None:
    texts = ["the house", "the  house ", "The house", "house", ""]
    references = [["the house"] * 3 + ["a house", "x"], [None, "y", "z", "house", ""]]
    counter = SentenceStatistics(["exact"])
    rows = counter.count([texts], references)[:, 0]
    assert rows.tolist() == [[1, 1], [1, 1], [0, 1], [1, 1], [1, 1]]
    assert counter.scores(rows.sum(axis=0)[None])["exact"].tolist() == [80.0]
