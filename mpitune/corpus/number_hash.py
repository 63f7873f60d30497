"""Hashes of numbers in kernels."""

from __future__ import annotations

from mpitune.jit import inlined, uint64


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
