"""The heap against a sorted list."""

from __future__ import annotations

import random

import pytest

from mpitune.decoder.embedded.arena import Arena
from mpitune.decoder.embedded.heap import new_heap, pop, push

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("seed", range(20))
def test_takes_out_the_best_the_lower_number_on_a_tie(seed: int) -> None:
    draw = random.Random(seed)
    heap = new_heap(Arena(), 60)
    # Few scores, so that many tie; the numbers come in no order.
    numbers = draw.sample(range(100), 60)
    expected: list[tuple[float, int]] = []
    for number in numbers:
        score = float(draw.randrange(8))
        push(heap, -score, number)
        expected.append((score, number))
        if draw.random() < 0.3:
            expected.sort()
            assert pop(heap) == expected.pop(0)[1]
    assert heap.size[0] == len(expected)
    assert [pop(heap) for _ in expected] == [number for _, number in sorted(expected)]
    assert heap.size[0] == 0
