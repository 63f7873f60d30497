"""When ranks wait: what metrics tell of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpitune.training.epoch_clock import SLOTS, timeline


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ([], "9" * SLOTS),
        ([(0.0, 20.0)], "0" * 20 + "9" * 20),
        ([(0.5, 1.0), (1.0, 1.25), (39.95, 40.0)], "57" + "9" * 37 + "9"),
        ([(10.0, 10.125), (10.5, 10.625), (10.75, 12.5)], "9" * 10 + "505" + "9" * 27),
    ],
)
def test_timelines_of_known_waits(waits: list[tuple[float, float]], expected: str) -> None:
    assert timeline(0.0, float(SLOTS), waits) == expected
    assert timeline(100.0, 100.0 + SLOTS, [(100 + start, 100 + end) for start, end in waits]) == expected


@given(st.lists(st.integers(0, 4000), max_size=12, unique=True).map(sorted))
def test_tenths_of_each_part(times: list[int]) -> None:
    """In hundredths of a part, so that shares are exact but for rounding at an edge."""
    waits = [(start / 100, end / 100) for start, end in zip(times[::2], times[1::2], strict=False)]
    digits = timeline(0.0, float(SLOTS), waits)
    for part, digit in enumerate(digits):
        inside = sum(max(min(end, part + 1) - max(start, part), 0.0) for start, end in waits)
        busy = 10 * (1 - inside)
        assert int(digit) in {min(int(busy + 1e-9), 9), min(int(max(busy - 1e-9, 0)), 9)}


def test_an_epoch_of_no_time() -> None:
    assert len(timeline(1.0, 1.0, [])) == SLOTS
