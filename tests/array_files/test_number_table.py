"""Tables of distinct numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mpitune.array_files.number_table import DistinctNumbers

NUMBERS = st.lists(st.integers(0, 50).map(lambda n: n << 40) | st.integers(0, 2**64 - 1), max_size=80)


@given(st.lists(NUMBERS, max_size=6), NUMBERS)
def test_places_are_those_of_a_dict(parts: list[list[int]], others: list[int]) -> None:
    table, places = DistinctNumbers(), dict[int, int]()
    for part in parts:
        added = table.add(np.array(part, dtype=np.uint64))
        assert added.tolist() == [places.setdefault(number, len(places)) for number in part]
        wanted = [*others, *part]
        assert table.find(np.array(wanted, dtype=np.uint64)).tolist() == [places.get(n, -1) for n in wanted]
        assert table.numbers.tolist() == list(places)
        assert len(table) == len(places)
