"""Words as bytes against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpitune.corpus.word_table import GrowingWordTable, word_slot

pytestmark = pytest.mark.kernel


@given(st.lists(st.sampled_from([b"", b"a", b"b", b"ab", b"ba", "\u00e4".encode(), b"aaaaaaaaa"]), max_size=30))
def test_words_are_numbered_as_they_come_up(words: list[bytes]) -> None:
    table, expected = GrowingWordTable(), dict[bytes, int]()
    for word in words:
        assert table.add(word) == expected.setdefault(word, len(expected))
    assert len(table) == len(expected)


def test_all_words_of_a_large_table_are_found_and_no_others() -> None:
    words = [b"w%d" % n for n in range(500)]
    growing = GrowingWordTable()
    assert [growing.add(word) for word in words] == list(range(500))
    text = np.frombuffer(bytearray(b" ".join([*words, b"w500", b"w"])), dtype=np.uint8)
    ends = [*np.flatnonzero(text == ord(" ")).tolist(), len(text)]
    begins = [0, *(end + 1 for end in ends[:-1])]
    found = [growing.table.slot[word_slot(growing.table, text, a, b)] for a, b in zip(begins, ends, strict=True)]
    assert found == [*range(1, 501), 0, 0]
