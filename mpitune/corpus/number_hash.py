"""Hashes of numbers in kernels."""

from __future__ import annotations

import numpy as np

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
