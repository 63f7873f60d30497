"""Statistics of sentences: corpus scores of their sums are sacreBLEU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from mpitune.metrics.evaluation import DEFAULT
from mpitune.metrics.sentence_statistics import SentenceStatistics
from mpitune.metrics.tuning_metric import METRICS

line = st.lists(st.sampled_from(["a", "b", "Cd", "ef,", "E."]), max_size=7).map(" ".join)
sentences = st.lists(st.tuples(line, line, line, st.none() | line), min_size=1, max_size=6)


@pytest.mark.parametrize(("tokenize", "lowercase"), [("none", False), ("13a", False), ("none", True)])
@settings(max_examples=60, deadline=None)
@given(drawn=sentences)
def test_scores_are_sacrebleus(tokenize: str, lowercase: bool, drawn: list[tuple[Any, ...]]) -> None:
    """Of two texts with two references or one, orders without matches and empty lines included."""
    first, second, *references = ([*column] for column in zip(*drawn, strict=True))
    counter = SentenceStatistics([*DEFAULT, "chrf++"])
    found = counter.count([first, second], references, tokenize, lowercase=lowercase)
    for text, sums in zip((first, second), found.sum(axis=0), strict=True):
        bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=True).corpus_score(text, references)
        expected = {
            "bleu": bleu.score,
            "ter": TER().corpus_score(text, references).score,
            "chrf": CHRF(lowercase=lowercase).corpus_score(text, references).score,
            "chrf++": CHRF(word_order=2, lowercase=lowercase).corpus_score(text, references).score,
            "length_ratio": bleu.ratio if bleu.ref_len else bleu.sys_len,
        }
        assert {name: score[0] for name, score in counter.scores(sums[None]).items()} == pytest.approx(expected)


def test_scores_of_several_sums() -> None:
    texts = ["a b c d e", "a b c x e", "x y", ""]
    counter = SentenceStatistics([*METRICS])
    found = counter.count([[text] for text in texts], [["a b c d e f"]])[0]
    for name, scores in counter.scores(found).items():
        assert scores.tolist() == [counter.scores(row[None])[name][0] for row in found], name
    assert np.array_equal(found.sum(axis=1) > 0, [True] * 4), "the reference counts"
