"""Digits of float32 numbers against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from mpitune.corpus.shortest_digits import MOST_DIGITS, write_float32

pytestmark = pytest.mark.kernel

COUNT = 2000


def written(value: np.float32) -> str:
    text = np.full(MOST_DIGITS + 4, ord("#"), dtype=np.uint8)
    end = write_float32(value, text, 2)
    assert end <= 2 + MOST_DIGITS and bytes(text[:2]) == b"##" and set(bytes(text[end:])) == {ord("#")}
    return bytes(text[2:end]).decode()


def check(values: np.ndarray) -> None:
    for value in values:
        # Adding 0 turns -0.0 into 0.0.
        assert written(value) == str(value + np.float32(0)).removesuffix(".0"), value


def test_numbers_of_any_bits() -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, COUNT, dtype=np.uint32)
    values = bits.view(np.float32)
    check(values[np.isfinite(values)])


def test_logarithms_of_probabilities() -> None:
    draw = np.random.default_rng(2)
    check((-draw.random(COUNT) * 8).astype(np.float32))
    check((-np.exp(-40 * draw.random(COUNT))).astype(np.float32))


def test_powers_and_their_neighbours() -> None:
    """The interval of a power of two is shorter below it; powers of ten have one digit."""
    powers = np.array([2.0**k for k in range(-149, 128)] + [10.0**k for k in range(-45, 39)], dtype=np.float32)
    for values in (powers, np.nextafter(powers, np.float32(0)), np.nextafter(powers, np.float32(3e38))):
        check(values)


def test_edges() -> None:
    limits = np.finfo(np.float32)
    edges = [0.0, -0.0, 1e-4, 9.9999e-5, 999999.0, 999999.94, 1e6, 1e6 + 1, limits.max, limits.tiny]
    edges += [limits.smallest_subnormal, 0.5, 0.25, 100, 1234567, 16777216, 9e15, 33554430, 8589973000.0]
    check(np.array([*edges, *(-edge for edge in edges)], dtype=np.float32))
    check(np.arange(-1100, 1100, dtype=np.float32) / np.float32(8))
