"""Hashes of names."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mpitune.corpus.hashing import PRIME, HashedNames, hashed, joined
from mpitune.jit import kernel

TEXTS = st.lists(st.text(max_size=40), min_size=1, max_size=6)
POINT = int(hashed(["\0\0"]).hash[0]) - 1


def naive(text: str) -> int:
    """Of the bytes b_1 ... b_n, each plus 1: b_1 x^(n - 1) + ... + b_n."""
    return sum((byte + 1) * POINT**k for k, byte in enumerate(reversed(text.encode()))) % PRIME


@kernel
def joined_all(names: HashedNames, result: np.ndarray) -> None:
    result[0] = names.hash[0]
    for i in range(1, len(names.hash)):
        result[0] = joined(result[0], names, i)


@given(TEXTS)
def test_a_hash_is_a_polynomial_of_the_bytes(texts: list[str]) -> None:
    assert hashed(texts).hash.tolist() == [naive(text) for text in texts]


@given(TEXTS)
def test_the_hash_of_joined_strings(texts: list[str]) -> None:
    result = np.zeros(1, dtype=np.uint64)
    joined_all(hashed(texts), result)
    assert int(result[0]) == naive("".join(texts))


def test_products_of_the_largest_numbers() -> None:
    """Nothing overflows: hashes up to the prime less 1."""
    largest = np.array([PRIME - 1, PRIME - 1], dtype=np.uint64)
    result = np.zeros(1, dtype=np.uint64)
    joined_all(HashedNames(largest, largest), result)
    assert int(result[0]) == ((PRIME - 1) ** 2 + PRIME - 1) % PRIME
