"""Hashes of names that can be computed from the hashes of their parts, without spelling the names out.

The hash of a string is a polynomial of its bytes modulo the prime 2^61 - 1 (Karp and Rabin 1987), at a fixed random
point. Two of n names of at most m bytes have the same hash with a probability below n^2 m / 2^62.

Hash tables of kernels use hashes of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mpitune.corpus.vocabulary import Names
from mpitune.jit import inlined, kernel, uint64


@inlined
def mix(number: int) -> int:
    """Hash of a 64-bit number (the finaliser of SplitMix64); a bijection."""
    number = (number ^ (number >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> uint64(27))) * uint64(0x94D049BB133111EB)
    return number ^ (number >> uint64(31))


@inlined
def extended(hash_: int, number: int) -> int:
    """The hash of a sequence of numbers, of hash ``hash_``, with ``number`` after it."""
    return mix((hash_ + uint64(0x9E3779B97F4A7C15)) ^ number)


@kernel
def hash_rows(ptr: np.ndarray, flat: np.ndarray, hashes: np.ndarray) -> None:
    """Fill ``hashes`` (uint64 [rows]) with hashes of the rows ``flat[ptr[i]:ptr[i + 1]]`` of whole numbers.

    A hash of 64 bits is large enough to tell the texts of one list apart.
    """
    for i in range(len(hashes)):
        hash_ = uint64(0)
        for k in range(ptr[i], ptr[i + 1]):
            hash_ = extended(hash_, uint64(flat[k]))
        hashes[i] = hash_


PRIME = (1 << 61) - 1
_POINT = 0x0D3C1E8B5A7F2469
"""The point at which the polynomial of a string is evaluated to hash it: any number below `PRIME`."""


class HashedNames(NamedTuple):
    """Strings to be joined."""

    hash: np.ndarray
    """uint64 [n]"""
    power: np.ndarray
    """uint64 [n]: the point to the power of each string's length in bytes."""


def hashed(names: Names | Iterable[str]) -> HashedNames:
    """The hashes of ``names``."""
    names = names if isinstance(names, Names) else Names.of(names)
    strings = HashedNames(np.empty(len(names), dtype=np.uint64), np.empty(len(names), dtype=np.uint64))
    _hash(np.ascontiguousarray(names.text), np.ascontiguousarray(names.ptr), strings)
    return strings


@kernel
def _hash(text: np.ndarray, ptr: np.ndarray, strings: HashedNames) -> None:
    for i in range(len(strings.hash)):
        hash_, power = uint64(0), uint64(1)
        for k in range(ptr[i], ptr[i + 1]):
            # A byte of 0 would leave the empty string's hash unchanged.
            hash_ = _sum(_product(hash_, uint64(_POINT)), uint64(text[k]) + uint64(1))
            power = _product(power, uint64(_POINT))
        strings.hash[i] = hash_
        strings.power[i] = power


@inlined
def joined(hash_: int, strings: HashedNames, i: int) -> int:
    """The hash of a string, of hash ``hash_``, with string ``i`` after it."""
    return _sum(_product(hash_, strings.power[i]), strings.hash[i])


@inlined
def _sum(a: int, b: int) -> int:
    """a + b modulo `PRIME`, for a and b below it."""
    total = a + b
    return total - uint64(PRIME) if total >= uint64(PRIME) else total


@inlined
def _product(a: int, b: int) -> int:
    """a b modulo `PRIME`, for a and b below it; 2^61 = 1, so that bits from 61 on are added at the low end.

    Factors are split into 30 high and 31 low bits: kernels have no integers of 128 bits.
    """
    low31, low30 = uint64((1 << 31) - 1), uint64((1 << 30) - 1)
    a_high, a_low = a >> uint64(31), a & low31
    b_high, b_low = b >> uint64(31), b & low31
    middle = a_low * b_high + a_high * b_low
    total = (a_high * b_high << uint64(1)) + (middle >> uint64(30)) + ((middle & low30) << uint64(31)) + a_low * b_low
    total = (total >> uint64(61)) + (total & uint64(PRIME))
    return total - uint64(PRIME) if total >= uint64(PRIME) else total
