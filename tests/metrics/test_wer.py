"""WER and CER beside edit distances by their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive import edit_distance

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import as_kbest
from mpitune.metrics.tuning_metric import METRICS

words = st.lists(st.sampled_from(["a", "b", "A", "ab", "ba", "straße", "日本"]), max_size=12)
# A line of more than 64 words, and of more than 128 characters, takes several blocks.
long = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=60, max_size=70)


def counted(name: str, texts: list[list[str]], references: list[list[str]]) -> np.ndarray:
    vocabulary = Vocabulary()
    kbest = as_kbest([vocabulary.encode(text) for text in texts])
    return METRICS[name](vocabulary.words).statistics(kbest, [vocabulary.encode(text) for text in references])


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(st.lists(words | long, min_size=1, max_size=3), st.lists(words | long, min_size=1, max_size=3))
def test_edits_are_those_of_the_closest_reference(texts: list[list[str]], references: list[list[str]]) -> None:
    for name, spelled in (("wer", lambda text: text), ("cer", " ".join)):
        for text, found in zip(texts, counted(name, texts, references).tolist(), strict=True):
            edits = [(edit_distance(spelled(text), spelled(each)), len(spelled(each))) for each in references]
            assert found == [*min(edits, key=lambda pair: pair[0] / max(pair[1], 1))], name


def test_rates_by_hand() -> None:
    """A substitution, a deletion and an insertion of 6 words; of 5 characters one is missing, another one wrong."""
    rows = np.concatenate([counted("wer", [[*"aBcdfx"]], [[*"abcdef"]]), np.array([[0, 4]])])
    assert rows.tolist() == [[3, 6], [0, 4]]
    assert METRICS["wer"].printed(rows.sum(axis=0)[None]).tolist() == [30.0]
    assert METRICS["wer"].score(rows).tolist() == [-0.5, 0.0]
    assert counted("cer", [["ab", "c"]], [["abc", "d"]]).tolist() == [[2, 5]]
    # Only blanks between words are characters.
    assert counted("cer", [[], ["a"]], [["ab", "c"]]).tolist() == [[4, 4], [3, 4]]


def test_nothing_in_place_of_something() -> None:
    for name in ("wer", "cer"):
        rows = counted(name, [[], ["a", "b"]], [[]])
        assert METRICS[name].score(rows).tolist() == [0.0, -1.0]
        assert METRICS[name].score(counted(name, [[]], [["a", "b"]])).tolist() == [-1.0]
